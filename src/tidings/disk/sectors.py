"""How entries lie in files of format 2: every sector that one touches carries marks.

A disk writes whole sectors. One that was not written reads as zeros from where the entry begins;
but a text may be zeros, too. So the part of an entry in each sector begins and ends with a byte
that is not zero:

    head, body ... a5 | 5a body ... a5 | 5a body ... a5
                     512k          512(k+1)

The first part begins with the mark of the head; the last one ends with a byte or two that make
the entry even. So each part has two such bytes, and one that is damaged leaves the other.
"""

SECTOR = 512
_END, _BEGIN = b"\xa5", b"\x5a"
_EDGE = _END + _BEGIN
_ROOM = SECTOR - len(_EDGE)


def tail(length: int) -> bytes:
    """What closes an entry whose body has this length."""
    return _END if length % 2 else _END + _END


def spread(place: int, content: bytes) -> bytes:
    """The content of an entry, its tail included, as it stands in a file from this place on."""
    first = _until_an_edge(place)
    if len(content) <= first:
        return content
    rest = [content[at : at + _ROOM] for at in range(first, len(content), _ROOM)]
    return _EDGE.join([content[:first], *rest])


def spread_size(place: int, length: int) -> int:
    """How many bytes of the file a content of this length takes."""
    edges = -(-max(0, length - _until_an_edge(place)) // _ROOM)
    return length + edges * len(_EDGE)


def gathered(place: int, data: bytes) -> bytes | bytearray | None:
    """The content of what stands in a file from this place on; None if a mark is wrong."""
    edge = _until_an_edge(place)
    if len(data) <= edge:
        return data
    ends, begins = data[edge::SECTOR], data[edge + 1 :: SECTOR]
    if ends != _END * len(ends) or begins != _BEGIN * len(ends):
        return None
    content = bytearray(data)
    del content[edge + 1 :: SECTOR]
    del content[edge :: SECTOR - 1]
    return content


def _until_an_edge(place: int) -> int:
    return SECTOR - 1 - place % SECTOR
