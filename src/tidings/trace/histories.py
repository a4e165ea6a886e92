"""A run as its judges see it: one history per process, each row checked as it comes in."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET

from tidings.core import DataError
from tidings.trace.manifest import Manifest
from tidings.trace.schema import BEGINNINGS, ENDS, Row, fault_of, names_in


class Run(msgspec.Struct, frozen=True):
    """The manifest, and for every process that left any rows its history in order."""

    manifest: Manifest
    histories: Mapping[str, Sequence[Row]]
    holed: frozenset[str] = frozenset()
    """Processes of which a part is missing somewhere in the middle or at the start."""

    @property
    def rows(self) -> Iterable[Row]:
        """All rows, by process in the order of the manifest's names, each history in order."""
        for name in self.manifest.names:
            yield from self.histories.get(name, ())


class Histories:
    """Rows put together, one history per process, each checked against what came before.

    An index that is left out inside one file is bad data. Between two files it means that a file
    is missing: the rest can still be judged, so the process is only noted in ``holed``. So it is
    where it tells of a gap itself.
    """

    def __init__(self, manifests: Mapping[str, Manifest]) -> None:
        self._manifests = manifests
        self.rows: dict[tuple[str, str], list[Row]] = {}
        self.holed: set[tuple[str, str]] = set()
        self._seen_here: set[tuple[str, str]] = set()
        self._passed: set[tuple[str, str]] = set()

    def begin_file(self) -> None:
        self._seen_here.clear()

    def add(self, row: Row) -> None:
        if fault := self._fault_in_run(row) or fault_of(row) or self._fault_in_sequence(row):
            raise DataError(fault)
        key = (row.run, row.process)
        self.rows.setdefault(key, []).append(row)
        self._seen_here.add(key)

    def passes_over(self, run: str, process: str, end: int) -> bool:
        """Whether rows up to this index lie before the cut: a member killed before it could
        delete them left them there."""
        is_before = end <= self._begin(run, process)
        if is_before:
            self._passed.add((run, process))
        return is_before

    def _begin(self, run: str, process: str) -> int:
        manifest = self._manifests.get(run)
        return manifest.begin(process) if manifest is not None else 0

    def _fault_in_run(self, row: Row) -> str | None:
        manifest = self._manifests.get(row.run)
        if manifest is None:
            return f"run {row.run!r} is not in the manifest"
        for name in names_in([row]):
            if name not in manifest.names:
                return f"{name} is not among the manifest's names"
        if row.view is not UNSET and row.view >= len(manifest.views):
            return f"view {row.view} is not in the manifest"
        return None

    def _fault_in_sequence(self, row: Row) -> str | None:
        key = (row.run, row.process)
        past = self.rows.get(key)
        expected = past[-1].end if past else self._begin(*key)
        if row.kind == "gap":
            self.holed.add(key)
        if row.index > expected and key not in self._seen_here:
            self.holed.add(key)
        elif row.index != expected:
            return f"{row.process}'s index is {row.index} where {expected} comes next"
        if not past:
            return None
        last = past[-1]
        if last.kind in ENDS and row.kind not in BEGINNINGS:
            return f"{row.process} acts ({row.kind}) after its {last.kind}"
        if row.incarnation < last.incarnation:
            return f"{row.process}'s incarnation falls from {last.incarnation} to {row.incarnation}"
        return None

    def runs(self) -> list[Run]:
        """The runs of all manifests, those without any rows too."""
        refuse_cuts_beyond(self._passed - self.rows.keys(), self._manifests)
        histories: dict[str, dict[str, list[Row]]] = {run: {} for run in self._manifests}
        for (run, process), rows in self.rows.items():
            histories[run][process] = rows
        holed: dict[str, set[str]] = {}
        for run, process in self.holed:
            holed.setdefault(run, set()).add(process)
        return [
            Run(manifest, histories[run], frozenset(holed.get(run, ())))
            for run, manifest in self._manifests.items()
        ]


def refuse_cuts_beyond(
    unfound: Collection[tuple[str, str]], manifests: Mapping[str, Manifest]
) -> None:
    """Refuse a trace if all that is found of a history, of these (run, process), was cut off."""
    for run, process in sorted(unfound):
        index = manifests[run].cuts[process].index
        raise DataError(f"run {run}: {process}'s history ends before its cut, index {index:,}")
