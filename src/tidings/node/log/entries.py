"""What the entries of the log say."""

from collections.abc import Iterator

import msgspec

from tidings.core import Members
from tidings.node.log.upgrading import AFTER, BEFORE
from tidings.protocols.views.packets import View
from tidings.protocols.views.records import Installed
from tidings.trace.schema import DIGEST

Ranges = dict[str, tuple[int, int]]
"""Of each origin a first and a last message."""
encode = msgspec.msgpack.Encoder().encode


class About(msgspec.Struct, frozen=True, array_like=True):
    """Whose log this is."""

    group: str
    member: str
    members: Members
    protocol: str
    traced: bool
    digest: str = DIGEST
    """Of the texts in its trace blocks."""
    address: str = ""
    """Where this member is reached, if the group file does not say it."""

    def mismatch(self, file: "About") -> str:
        """What the group file says otherwise than this log, and what to do; empty if nothing."""
        back = "set it back, or begin a new group, with data and trace.folder of its own"
        words = {
            "member": f"this is the log of {self.member}, and not of {file.member}",
            "group": f'the log has name = "{self.group}", the group file "{file.group}"; {back}',
            "members": f"the log has members {', '.join(self.members)}, the group file "
            f"{', '.join(file.members)}; there stand those with whom the group began: {back}",
            "protocol": f'the log has protocol = "{self.protocol}", the group file '
            f'"{file.protocol}"; {back}',
            "digest": f'the log has trace.digest = "{self.digest}", the group file '
            f'"{file.digest}"; {back}',
        }
        if (self.protocol, file.protocol) == (BEFORE, AFTER):
            del words["protocol"]
        differ = (field for field in words if getattr(self, field) != getattr(file, field))
        return next((words[field] for field in differ), "")


class Identity(msgspec.Struct, frozen=True, array_like=True):
    """Who the member is, and which of its lives this is."""

    incarnation: int
    life: int = 0


class Beginning(msgspec.Struct, frozen=True, array_like=True, tag="begin"):
    """The first entry of a segment, and the first of a life."""

    about: About
    identity: Identity
    index: int
    """Which place in the history of the member comes next."""
    delivered: dict[str, int]
    records: msgspec.Raw
    oldest: int = 0
    """The number of the oldest segment that is kept from here on; 0 if it was not written down."""


class CommitEntry(msgspec.Struct, frozen=True, array_like=True, tag="commit"):
    """What is written at once."""

    records: msgspec.Raw
    block: bytes
    """The trace of what follows: once this is on disk, it has happened."""
    held: Ranges
    """Of each origin the first and the last message in the records."""
    messages: int
    delivered: dict[str, int]
    """Of each origin of which one was delivered, the last."""


def merge(into: Ranges, more: Ranges) -> None:
    for origin, (first, last) in more.items():
        low, high = into.get(origin, (first, last))
        into[origin] = (min(low, first), max(high, last))


def first_view(entry: Beginning | CommitEntry) -> Iterator[Installed]:
    """What a log says first that began before its group could change."""
    if isinstance(entry, Beginning) and entry.about.protocol == BEFORE:
        yield Installed(View(0, entry.about.members))
