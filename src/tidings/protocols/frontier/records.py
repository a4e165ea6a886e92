"""What a frontier process writes to its disk."""

from typing import Annotated

import msgspec

from tidings.core.renaming import PER_MEMBER, Vector
from tidings.protocols.frontier.histories import Mark
from tidings.protocols.frontier.packets import Batch


class Stored(msgspec.Struct, frozen=True, array_like=True, tag="stored"):
    batch: Batch


class Delivered(msgspec.Struct, frozen=True, array_like=True, tag="delivered"):
    """The protocol's cursor: what stands here counts as delivered, whatever happens next."""

    upto: Vector


class Taken(msgspec.Struct, frozen=True, array_like=True, tag="taken"):
    """The application's cursor: what it need not be handed again."""

    upto: Vector


class Forgotten(msgspec.Struct, frozen=True, array_like=True, tag="forgotten"):
    """Nobody will ask for these again; what was stored of them may be thrown away.

    In a checkpoint it also says from where the digests of each origin can be made again, with the
    messages after that.
    """

    upto: Vector
    marks: Annotated[tuple[Mark, ...], PER_MEMBER] = ()


class Pinned(msgspec.Struct, frozen=True, array_like=True, tag="pinned"):
    """This is who the member is; under another incarnation it is somebody else."""

    member: str
    incarnation: int


class Admitted(msgspec.Struct, frozen=True, array_like=True, tag="admitted"):
    """Nobody remembers an earlier life of this process, so it may broadcast."""


Record = Stored | Delivered | Taken | Forgotten | Pinned | Admitted
"""Everything a process of frontier ever persists."""
