"""What a group of real members endures in an experiment: kills, bad links, bad packets.

``fleet`` starts, stops and kills members as processes of the operating system, each a ``member``
that takes commands; ``proxy`` stands between their sockets, and ``faulty_links`` says what a link
can suffer there; ``injector`` stands between TCP and the protocol. A node knows none of them.
"""
