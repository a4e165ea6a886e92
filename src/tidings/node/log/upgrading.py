"""Logs of groups that could not change yet, read as those of groups that can.

Before there were views, a durable group ran frontier by itself. What such a member wrote is what a
member of the first view writes: its records are the same, without the number of the view. So a
group goes on where it was, once all of its members run views.
"""

from collections.abc import Iterable, Iterator
from typing import Any, get_args

from tidings.protocols.frontier import records as frontier
from tidings.protocols.views.records import Record, Written

BEFORE, AFTER = "frontier", "views"
Readable = Record | frontier.Record
_OF_FRONTIER = frozenset(get_args(frontier.Record))


def upgraded(records: Iterable[Any]) -> Iterator[Any]:
    """As a member of the first view would have written them."""
    for record in records:
        yield Written(0, record) if type(record) in _OF_FRONTIER else record
