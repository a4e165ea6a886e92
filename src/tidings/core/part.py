"""A process can be made of parts that hold each other, each with its share of the state."""

from functools import lru_cache
from typing import Any

import msgspec

from tidings.core.group import Members


class Part(msgspec.Struct):
    """Some of the state of a process, and what is done with it.

    A part may hold other parts of the same process. The process has each of them as an attribute:
    it copies them together, so that they go on to hold each other, and lists the fields of each
    in its state. No two parts of a process have a field of the same name, except where both hold
    the same part.
    """

    me: str
    members: Members

    @property
    def others(self) -> Members:
        return _others(self.me, self.members)

    def state(self) -> dict[str, Any]:
        """Its own fields. What is the same for all parts, and other parts, stand elsewhere."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__[2:]}
        return {name: value for name, value in fields.items() if not isinstance(value, Part)}


@lru_cache(maxsize=1024)
def _others(me: str, members: Members) -> Members:
    return tuple(member for member in members if member != me)
