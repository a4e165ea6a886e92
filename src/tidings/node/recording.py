"""Records what the process is handed, so that ``tidings conform`` can step through it again.

A tick is written before anything of it is committed, traced or sent (trace/steps.py has the
format): whatever a kill leaves of a tick, its steps are there. Nothing is synced; a power failure
may take an end of it.

A recording that cannot be written stops, and the member goes on, unless its group file asks for a
stop; so does one that is longer than ``trace.conform_bytes``. What is not recorded is unknown.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from tidings.core import (
    Broadcast,
    Change,
    Choose,
    EnvironmentMissing,
    Event,
    LinkDown,
    LinkUp,
    Process,
    Processed,
    Recalled,
    Receive,
    Start,
    Timeout,
)
from tidings.disk.files import lock, write_all
from tidings.node.config import Config
from tidings.node.logs import get_logger
from tidings.node.tick import Tick
from tidings.trace.segments import opened
from tidings.trace.steps import (
    FIRST_LINE,
    ChangeAsked,
    End,
    Frame,
    Life,
    LinkIsDown,
    LinkIsUp,
    PacketCame,
    ProcessedUpTo,
    ReadBack,
    RecordedEvent,
    RecordedTick,
    RecoveredPiece,
    Started,
    Step,
    Texts,
    TimerEnded,
    digest_of,
    digests_of,
    encode,
    framed,
    steps_path,
)

PIECE_BYTES = 1024 * 1024
"""About how much of what was recovered is one frame."""


class Recorder:
    """The steps of one life of one member."""

    def __init__(self, config: Config, process: Process, life: int, index: int) -> None:
        self._path = steps_path(config.trace_folder, process.me, life)
        self._limit = config.trace.conform_bytes
        self._stops = config.trace.on_failure == "stop"
        self._logger = get_logger(member=process.me)
        self._steps: list[Step] = []
        self._sealed = self._finished = 0
        self._size = 0
        self._file = -1
        process.choose = self._noting(process.choose)
        about = Life(
            run=config.name,
            process=process.me,
            life=life,
            protocol=config.protocol,
            options=config.process_options(),
            durable=config.durable,
            index=index,
        )
        try:
            if self._path.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND
            self._file = os.open(opened(self._path), flags, 0o644)
            lock(self._file)
            self._append(FIRST_LINE + framed(about, len(FIRST_LINE)))
        except OSError as fault:
            self._give_up(fault)

    def step(self, events: Iterable[Event]) -> Iterable[Event]:
        """What the process is about to be handed, in one step; each is noted as it is taken."""
        if self._file < 0:
            return events
        step = Step([])
        self._steps.append(step)
        return self._handed(events, step)

    def _handed(self, events: Iterable[Event], step: Step) -> Iterator[Event]:
        for event in events:
            if isinstance(event, Start) and event.recovered is not None:
                self._write_recovered(event.recovered)
            step.events.append(_RECORDED[type(event)](event))
            yield event

    def unsent(self, peers: Iterable[str], encoded: bytes) -> None:
        """For these too much waits: they do not get this packet of the step in hand."""
        if self._steps:
            self._steps[-1].unsent.append((tuple(peers), digest_of(encoded)))

    def seal(self, tick: Tick) -> None:
        """This is all of a tick."""
        number, self._sealed = self._sealed, self._sealed + 1
        steps, self._steps = self._steps, []
        if self._file < 0 or not (steps or tick.checkpoint):
            return  # a segment of the log may begin after a tick in which nothing happened
        checkpoint = digests_of(tick.checkpoint.records) if tick.checkpoint is not None else None
        records = digests_of(tick.records)
        self._write(RecordedTick(self._finished, number, tick.index, records, checkpoint, steps))
        if self._size > self._limit:
            self._close(f"{self._limit:,} bytes are the limit (trace.conform_bytes)")

    def finished(self, ticks: Sequence[Tick]) -> None:
        """So many are committed and traced; what of them leaves the node leaves now."""
        self._finished += len(ticks)

    def close(self) -> None:
        self._close("")

    # --- the file

    def _noting(self, choose: Choose) -> Choose:
        def noted(label: str, weights: Sequence[int]) -> int:
            position = choose(label, weights)
            if self._steps:
                self._steps[-1].draws.append((label, position))
            return position

        return noted

    def _write_recovered(self, recovered: Iterable[Any]) -> None:
        piece, size = list[msgspec.Raw](), 0
        for record in recovered:
            piece.append(msgspec.Raw(encode(record)))
            size += memoryview(piece[-1]).nbytes
            if size >= PIECE_BYTES:
                self._write(RecoveredPiece(tuple(piece), is_last=False))
                piece, size = [], 0
        self._write(RecoveredPiece(tuple(piece), is_last=True))

    def _write(self, frame: Frame) -> None:
        if self._file >= 0:
            try:
                self._append(framed(frame, self._size))
            except OSError as fault:
                self._give_up(fault)

    def _append(self, data: bytes) -> None:
        write_all(self._file, data)
        self._size += len(data)

    def _give_up(self, fault: OSError) -> None:
        if self._file >= 0:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            os.close(self._file)
            self._file = -1
        if self._stops:
            raise EnvironmentMissing(f"{self._path}: {fault.strerror}") from None
        self._logger.warning("not recorded", file=str(self._path), reason=fault.strerror)

    def _close(self, reason: str) -> None:
        if self._file < 0:
            return
        self._write(End(self._finished, reason))
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            with suppress(OSError):  # it can be read as it is
                opened(self._path).rename(self._path)
        if reason:
            self._logger.warning("not recorded", file=str(self._path), reason=reason)


_RECORDED: dict[type, Callable[[Any], RecordedEvent]] = {
    Start: lambda one: Started(
        one.incarnation, one.recovered is not None, one.founding, one.joining, one.lossy
    ),
    Broadcast: lambda one: Texts(one.texts),
    Receive: lambda one: PacketCame(one.sender, msgspec.Raw(encode(one.packet))),
    Timeout: lambda one: TimerEnded(one.name),
    LinkUp: lambda one: LinkIsUp(one.peer, one.incarnation),
    LinkDown: lambda one: LinkIsDown(one.peer),
    Recalled: lambda one: ReadBack(
        one.peer, one.first.origin, one.first.seq, one.last, msgspec.Raw(encode(one.records))
    ),
    Processed: lambda one: ProcessedUpTo(dict(one.upto)),
    Change: lambda one: ChangeAsked(one.add, one.remove, one.address),
}
