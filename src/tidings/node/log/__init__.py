"""The durable log of one member: what it was told to persist, on disk before anything relies on it.

A folder of segments, ``00000001.log`` and so on, each of them

    tidings log 2\\n     what this is, and its format
    entries             one per commit

and an entry is

    mark      4 bytes
    number    8 bytes, counted over all segments
    length    4 bytes, of the body
    check     8 bytes, XXH64 of the body, seeded with its place
    check     4 bytes, XXH32 of the 24 bytes before
    body      msgpack
    tail      1 or 2 bytes, so that it has an even length

interrupted by two bytes at every border of two sectors (sectors.py). Format 1 had no tail and no
such bytes; it is still read, and no longer written.

The first entry of a segment says whose log this is and stands for everything older that is still
needed, except the messages; so the oldest segments can be thrown away as soon as nobody needs
their messages any more. A life begins with such an entry, too, but goes on in the last segment.

One commit is one entry: after a crash it is there or not, never in part. Only the last entry can
be torn, since the next is begun when the one before it is on disk. It is torn if the file ends
within it, or if one of its sectors was never written: that one has no marks and reads as zeros. A
torn entry was never acknowledged by anybody and is cut off. Anything else that does not match its
check is damage, and nobody can say what it was: the log is refused. (A disk that loses a whole
sector of the last entry, which it had said to be written, makes it look torn.)

Why not sqlite: it takes about twice as long for a commit (bench/log.py).
"""

from tidings.node.log.entries import About, Identity, Ranges, merge
from tidings.node.log.segments import Records, Recovered
from tidings.node.log.writer import Log, open_log

__all__ = [
    "About",
    "Identity",
    "Log",
    "Ranges",
    "Records",
    "Recovered",
    "merge",
    "open_log",
]
