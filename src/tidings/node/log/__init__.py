"""The durable log of one member: what it must keep, on disk before anything relies on it.

A folder of segments, ``00000001.log`` and so on, each of them

    tidings log 2\\n     what this is, and its format
    entries             one per commit: frames (disk/frames.py), numbered over all segments

Format 1 had no marks of sectors; it is still read, and no longer written.

The first entry of a segment says whose log this is and stands for everything older that is still
needed, except the messages; so the oldest segments can be thrown away as soon as nobody needs
their messages any more. A life begins with such an entry, too, but goes on in the last segment.

One commit is one entry: after a crash it is there or not, never in part. Only the last entry can
be torn, since the next is begun when the one before it is on disk. A torn entry was never
acknowledged by anybody and is cut off. Anything else that does not match its checks is damage,
and nobody can say what it was: the log is refused. (A disk that loses a whole
sector of the last entry, which it had said to be written, makes it look torn.)

Why not sqlite: it takes about twice as long for a commit (bench/log.py).
"""

from tidings.node.log.entries import About, Identity, Ranges, merge
from tidings.node.log.segments import Records, Recovered
from tidings.node.log.writer import DurableLog, open_log

__all__ = [
    "About",
    "DurableLog",
    "Identity",
    "Ranges",
    "Records",
    "Recovered",
    "merge",
    "open_log",
]
