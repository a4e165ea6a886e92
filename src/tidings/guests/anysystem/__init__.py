"""Processes of AnySystem and dslab-mp here, and ours there.

Both frameworks drive a Python class with ``on_local_message(msg, ctx)``, ``on_message(msg,
sender, ctx)``, ``on_timer(name, ctx)`` and sometimes ``on_start(ctx)``, made with its own id and
the ids of all. A local message SEND with a ``text`` is a broadcast, DELIVER a delivery.

    api.py      what such a file imports: Message, Context, Process, written anew
    chance.py   what it may import besides, made repeatable: random, time, uuid
    foreign.py  the adapter: such a class as one of our processes
    guest.py    the other way round: one of our processes as such a class
"""
