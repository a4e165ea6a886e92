"""All lives of one member, one after the other, beside its trace."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tidings.conform.divergence import Diverged, Divergence
from tidings.conform.history import CannotTell, ExpectedLog, History, is_mark
from tidings.conform.life import LifeReplay
from tidings.conform.meaning import Rows
from tidings.conform.packets import Packets
from tidings.core import DataError
from tidings.trace import Manifest
from tidings.trace.segments import Block, Mark
from tidings.trace.steps import End, Life, StepsReader, steps_of


class MemberSteps(NamedTuple):
    """How much of one member was stepped through."""

    lives: int = 0
    steps: int = 0
    rows: int = 0
    records: int = 0


class MemberReplay:
    """All lives of one member."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        member: str,
        packets: Packets,
        progress: Callable[[str, int], None],
    ) -> None:
        self.member = member
        self.divergence: Divergence | None = None
        self._manifest = manifest
        self._packets = packets
        self._progress = progress
        self._history = History(folder, manifest, member)
        self._log = ExpectedLog()
        self._folder = folder
        self._done = MemberSteps()
        """What was stepped through before the life in hand."""
        self._replay: LifeReplay | None = None
        """The life in hand; None between two."""
        self._ends: dict[int, str] = {}
        """Of each life that was recorded, why rows may follow that no step explains, if so."""

    def run(self) -> None:
        """Step through everything; CannotTell or DataError end it early."""
        try:
            for path in steps_of(self._folder, self.member):
                self._run_life(StepsReader(path))
            if not self._ends:
                raise CannotTell(
                    f"{self.member} recorded no steps; trace.conform = true in the group file "
                    "asks for them"
                )
            self._skip_to(None)
        except Diverged as found:
            self.divergence = self._located(found)

    @property
    def so_far(self) -> MemberSteps:
        done, life = self._done, self._replay
        if life is not None:
            done = done._replace(steps=done.steps + life.steps, records=done.records + life.records)
        return done._replace(lives=len(self._ends), rows=self._history.rows)

    def _run_life(self, reader: StepsReader) -> None:
        life = reader.life
        if life is None:
            return
        self._check_header(reader.path, life)
        self._skip_to(life.index)
        self._log.is_known &= life.life == len(self._ends)
        self._replay = LifeReplay(
            self._manifest, reader, life, self._history, self._log, self._packets
        )
        self._replay.run(lambda: self._progress(self.member, self.so_far.steps))
        self._ends[life.life] = _why_it_ends(self.member, life.life, reader.end)
        self._done, self._replay = self.so_far, None

    def _located(self, found: Diverged) -> Divergence:
        block = self._history.peek()
        life = block.incarnation if block is not None else 0
        about = Divergence(self.member, life, str(found), None, found.index, found.would, found.did)
        return self._replay.located(about) if self._replay is not None else about

    def _check_header(self, path: Path, life: Life) -> None:
        manifest = self._manifest
        if (life.run, life.process) != (manifest.run, self.member):
            raise DataError(f"{path}: not of {self.member} in run {manifest.run}")
        is_named = manifest.options.items() <= life.options.items()
        if life.protocol != manifest.protocol or not is_named:
            raise DataError(f"{path}: recorded with another protocol than the manifest names")

    def _skip_to(self, index: int | None) -> None:
        """Pass the rows between two lives: that one began, or that the run is settled."""
        while (block := self._history.peek()) is not None:
            if index is not None and block.index >= index:
                return
            if not is_mark(block):
                raise self._unexplained(block)
            self._check_recover(block)
            self._history.take()

    def _unexplained(self, block: Block) -> Exception:
        not_recorded = f"what {self.member} did from its row {block.index} on was not recorded"
        if reason := self._ends.get(block.incarnation, not_recorded):
            return CannotTell(reason)
        did = str(Rows(block).next)
        return Diverged("it did what no step explains", did=did, index=block.index)

    def _check_recover(self, block: Block) -> None:
        """A life knows by its disk how far the member had come."""
        for item in block.items:
            if isinstance(item, Mark) and item.kind == "recover":
                ours = _standing(self._history.delivered, self._history.broadcast)
                theirs = _standing(item.delivered or {}, item.broadcast)
                if ours != theirs:
                    words = "it comes back, and does not know how far it had come"
                    raise Diverged(words, ours, theirs, block.index)


def _standing(delivered: dict[str, int], broadcast: int) -> str:
    counts = ", ".join(f"{origin}<={count}" for origin, count in sorted(delivered.items()))
    return f"broadcast {broadcast}, delivered {counts or 'nothing'}"


def _why_it_ends(member: str, life: int, end: End | None) -> str:
    if end is None:
        return f"the steps of {member} in its life {life} are cut off before its trace ends"
    return f"{member} stopped recording in its life {life}: {end.reason}" if end.reason else ""
