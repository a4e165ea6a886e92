"""Causal-order uniform reliable broadcast as one writes it for AnySystem; it runs there and here.

    tidings simulate --process examples/anysystem_causal.py --crashes 2

Everybody passes every message on, and waits until a majority is known to have it and until
everything its sender had delivered is delivered here.
"""

from collections import defaultdict

from anysystem import Context, Message, Process


class CausalBroadcast(Process):
    def __init__(self, proc_id: str, processes: list[str]):
        self._id = proc_id
        self._processes = processes
        self._sent = 0
        self._delivered = dict.fromkeys(processes, 0)
        self._holders = defaultdict(set)
        self._waiting = {}

    def on_start(self, ctx: Context):
        pass

    def on_local_message(self, msg: Message, ctx: Context):
        if msg.type == "SEND":
            self._sent += 1
            past = {**self._delivered, self._id: self._sent - 1}
            self._spread(
                Message(
                    "COPY",
                    {
                        "text": msg["text"],
                        "origin": self._id,
                        "number": self._sent,
                        "past": past,
                    },
                ),
                ctx,
            )

    def on_message(self, msg: Message, sender: str, ctx: Context):
        name = (msg["origin"], msg["number"])
        if msg["number"] <= self._delivered[msg["origin"]]:
            return
        self._holders[name].add(sender)
        if name not in self._waiting:
            self._spread(msg, ctx)
        self._deliver_what_is_ready(ctx)

    def on_timer(self, timer_name: str, ctx: Context):
        pass

    def _spread(self, msg: Message, ctx: Context):
        name = (msg["origin"], msg["number"])
        self._waiting[name] = msg
        self._holders[name].add(self._id)
        for proc in self._processes:
            if proc != self._id:
                ctx.send(msg, proc)
        self._deliver_what_is_ready(ctx)

    def _deliver_what_is_ready(self, ctx: Context):
        ready = True
        while ready:
            ready = [name for name in self._waiting if self._is_ready(name)]
            for name in ready[:1]:
                msg = self._waiting.pop(name)
                del self._holders[name]
                self._delivered[msg["origin"]] = msg["number"]
                ctx.send_local(Message("DELIVER", {"text": msg["text"]}))

    def _is_ready(self, name) -> bool:
        past = self._waiting[name]["past"]
        return len(self._holders[name]) * 2 >= len(self._processes) and all(
            self._delivered[proc] >= number for proc, number in past.items()
        )
