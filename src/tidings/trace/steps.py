"""What the process of a member was handed, step by step: enough to step through it once more.

The trace says what a member did; its steps say why. A member that is asked for them (``[trace]
conform = true``) writes ``p1-0.steps`` for its first life, ``p1-1.steps`` for the next, each named
``.steps.open`` until the life ends in good order. A file is

    tidings steps 1\\n     what this is, and its format
    frames                one per write (disk/frames.py), numbered by their places

The first frame is ``Life``; ``RecoveredPiece`` frames hold what the life found on its disk; then
each tick is a ``RecordedTick``, written before anything of it is committed or traced. So whatever
of a tick survives a kill, its steps do. ``End`` is the last one, and missing after a kill. A frame
that is torn ends a file that is still open; anywhere else it is bad data.

Packets and records stand there as they were encoded, and are decoded by whoever knows the
protocol. Of what was persisted, digests are enough: stepping through it tells the rest.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import xxhash

from tidings.core import DataError
from tidings.core.group import natural
from tidings.disk.frames import BadFrameError, FileKind, FrameFile, packed, version_in
from tidings.trace.schema import Count, Name

CLOSED, OPEN = STEPS = (".steps", ".steps.open")
_TITLE = b"tidings steps "
DIGEST_BYTES = 8


# --- events, as core/events.py has them


class Started(msgspec.Struct, frozen=True, array_like=True, tag="start"):
    """What was recovered, if anything, stands in the pieces before it."""

    incarnation: int
    recovered: bool
    founding: bool
    joining: bool
    lossy: bool


class Texts(msgspec.Struct, frozen=True, array_like=True, tag="broadcast"):
    texts: tuple[bytes, ...]


class PacketCame(msgspec.Struct, frozen=True, array_like=True, tag="receive"):
    sender: Name
    packet: msgspec.Raw


class TimerEnded(msgspec.Struct, frozen=True, array_like=True, tag="timeout"):
    name: str


class LinkIsUp(msgspec.Struct, frozen=True, array_like=True, tag="up"):
    peer: Name
    incarnation: int


class LinkIsDown(msgspec.Struct, frozen=True, array_like=True, tag="down"):
    peer: Name


class ReadBack(msgspec.Struct, frozen=True, array_like=True, tag="recalled"):
    peer: Name
    origin: Name
    first: int
    last: int
    records: msgspec.Raw


class ProcessedUpTo(msgspec.Struct, frozen=True, array_like=True, tag="processed"):
    upto: dict[str, int]


class ChangeAsked(msgspec.Struct, frozen=True, array_like=True, tag="change"):
    add: str
    remove: str
    address: str


RecordedEvent = (
    Started
    | Texts
    | PacketCame
    | TimerEnded
    | LinkIsUp
    | LinkIsDown
    | ReadBack
    | ProcessedUpTo
    | ChangeAsked
)


# --- frames


class Step(msgspec.Struct, array_like=True):
    """Events that were handed over at once, most often one; what was drawn and not sent then."""

    events: list[RecordedEvent]
    draws: list[tuple[str, int]] = []
    """Label and position, in the order in which the process drew."""
    unsent: list[tuple[tuple[Name, ...], bytes]] = []
    """Peers for which too much waited, and the digest of the packet that they did not get."""


class Life(msgspec.Struct, frozen=True, array_like=True, tag="life"):
    """Whose steps these are, and how the process was made."""

    run: Name
    process: Name
    life: Count
    protocol: str
    options: dict[str, Any]
    durable: bool
    index: Count
    """Where in the history of the member this life begins."""


class RecoveredPiece(msgspec.Struct, frozen=True, array_like=True, tag="recovered"):
    records: tuple[msgspec.Raw, ...]
    is_last: bool


class RecordedTick(msgspec.Struct, frozen=True, array_like=True, tag="tick"):
    finished: Count
    """How many ticks of this life were committed, traced and sent by then."""
    number: Count
    """Which tick of its life this is, from 0; one in which nothing was handed over is left out."""
    end: Count
    """Where in the history of the member it ends: the index that comes after its rows."""
    records: bytes
    """Eight bytes for each record that it asks the disk to write."""
    checkpoint: bytes | None
    """The same for those with which a new segment of the log begins after it, if one does."""
    steps: list[Step]


class End(msgspec.Struct, frozen=True, array_like=True, tag="end"):
    finished: Count
    reason: str = ""
    """Why the rest of the life was not recorded, if so."""


Frame = Life | RecoveredPiece | RecordedTick | End

encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Frame).decode


def digest_of(encoded: bytes | memoryview) -> bytes:
    """Of one packet or record."""
    return xxhash.xxh64_digest(encoded)


def digests_of(records: Any) -> bytes:
    """Of records, eight bytes each."""
    return b"".join([digest_of(encode(record)) for record in records])


def _refusal(begin: bytes) -> str:
    version = version_in(begin, _TITLE)
    return (
        "no steps of a member"
        if version is None
        else f"steps of format {version}, this tidings reads 1"
    )


_KIND = FileKind(_TITLE + b"1\n", {}, _refusal)
FIRST_LINE = _KIND.line


def framed(frame: Frame, place: int) -> bytes:
    """A frame as it stands in its file from this place on."""
    return packed(place, place, encode(frame))


def steps_of(folder: Path, process: str) -> list[Path]:
    """The files of one process, life by life."""
    begin = f"{process}-"
    found = [
        path
        for path in folder.glob("*" + CLOSED + "*")
        if path.name.endswith(STEPS)
        and path.name.startswith(begin)
        and path.name.removeprefix(begin).partition(".")[0].isdigit()
    ]
    return sorted(found, key=lambda path: natural(path.name))


def steps_path(folder: Path, process: str, life: int) -> Path:
    """What the file of a life is called once it is complete."""
    return folder / f"{process}-{life}{CLOSED}"


class StepsReader:
    """The steps of one life."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_open = path.name.endswith(OPEN)
        self.end: End | None = None
        """How it ends, once all is read; None after a kill."""
        self.has_recovered = False
        """Whether all that was found on the disk is there, once that is read."""
        first = next(self._frames(), None)
        if first is not None and not isinstance(first, Life):
            raise DataError(f"{path}: does not say whose steps these are")
        self.life: Life | None = first
        """None in a file that was opened and then nothing."""

    def ticks(self) -> Iterator[RecordedTick]:
        for frame in self._frames():
            if isinstance(frame, RecordedTick):
                yield frame
            elif isinstance(frame, End):
                self.end = frame

    def recovered(self) -> Iterator[msgspec.Raw]:
        """The records that the life found on its disk, as they were encoded."""
        for frame in self._frames():
            if isinstance(frame, RecoveredPiece):
                yield from frame.records
                self.has_recovered |= frame.is_last
            elif isinstance(frame, RecordedTick):
                return

    def _frames(self) -> Iterator[Frame]:
        with FrameFile(self.path, _KIND) as file:
            if not file.has_a_first_line(self.is_open):
                return
            start = file.first
            try:
                for frame in file.frames(file.first, may_be_torn=self.is_open):
                    start = frame.start
                    yield _decode(frame.body)
            except BadFrameError as bad:
                raise DataError(f"{self.path}: {bad}") from None
            except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
                raise DataError(f"{self.path}: the frame at byte {start:,}: {fault}") from None
