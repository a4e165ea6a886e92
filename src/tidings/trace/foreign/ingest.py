"""From logs and a mapping to the folder of a trace: whole, or not at all."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from tidings.core import DataError, Members, UsageError
from tidings.trace.foreign.mapping import Mapping
from tidings.trace.foreign.meaning import Interpreter, about_messages
from tidings.trace.foreign.naming import BY_ID, Inventor, named, with_keys
from tidings.trace.foreign.numbering import Ends, Numbering
from tidings.trace.foreign.sorting import Sorter
from tidings.trace.foreign.sources import batches
from tidings.trace.foreign.writing import Dictionary, Writer
from tidings.trace.layout import MANIFEST, refuse_to_overwrite
from tidings.trace.manifest import Manifest, check
from tidings.trace.schema import KINDS, SCHEMA_VERSION

Show = Callable[[str], None]


class Ingested(msgspec.Struct, frozen=True):
    """What became of a log."""

    read: int
    """How many rows the log has, those ignored included."""
    ignored: int
    rows: int
    """How many rows the trace has, those told by the mapping included."""
    kinds: dict[str, int]
    manifests: tuple[Manifest, ...]
    untold: dict[str, Members]
    """For each run those of whose end neither the log nor the mapping says anything."""


def ingest(
    logs: Sequence[Path], mapping: Mapping, folder: Path, *, progress: Show = lambda words: None
) -> Ingested:
    """Make a trace of the logs in a new folder, or nothing at all."""
    refuse_to_overwrite(folder)
    for log in logs:
        if not log.is_file():
            raise UsageError(f"{log}: no such file")
        if logs.count(log) > 1:
            raise UsageError(f"{log} is given twice")
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as draft:
        done = _Ingest(logs, mapping, folder.name, Path(draft), progress).done()
        (Path(draft) / "trace").rename(folder)
    return done


class _Ingest:
    def __init__(
        self, logs: Sequence[Path], mapping: Mapping, name: str, draft: Path, progress: Show
    ) -> None:
        self.logs = logs
        self.mapping = mapping
        self.draft = draft
        self.progress = progress
        self.read = 0
        self.interpreter = Interpreter(mapping, logs, mapping.run or name)
        self.numbering = Numbering(self.interpreter)

    def done(self) -> Ingested:
        events = Sorter(self.draft / "by-order", ("history", "order", "place"))
        for table in self._read():
            events.add(table)
        self.ends = Ends(self.interpreter, self.numbering.endings)
        events.add(self.ends.settled_by_mapping(like=table))
        rows = self.numbering.numbered(events.blocks())
        return self._written(rows if self.mapping.columns.id is None else self._named(rows))

    def _read(self) -> Iterator[Any]:
        for number, log in enumerate(self.logs):
            total = max(1, log.stat().st_size)
            for batch in batches(log, self.mapping.read_columns, self.mapping.csv):
                self.read += len(batch.lines)
                yield self.interpreter.events(batch, number)
                share = 100 * batch.read_bytes // total
                self.progress(f"reading {log}: {share} %, {self.read:,} rows so far")
        if self.read == self.interpreter.ignored:
            raise DataError(f"{self.logs[0]}: no row to judge ({self.read:,} ignored)")

    def _followed(self, what: str, blocks: Iterable[Any]) -> Iterator[Any]:
        """The blocks, with a word about how far it is before each of them."""
        total, done = max(1, self.read - self.interpreter.ignored), 0
        for block in blocks:
            self.progress(f"{what}: {min(100, 100 * done // total)} % of {total:,} rows")
            done += block.num_rows
            yield block

    # --- messages known by ids

    def _named(self, rows: Iterable[Any]) -> Iterator[Any]:
        """The same rows, messages by their names instead of their ids."""
        by_id = Sorter(self.draft / "by-id", BY_ID)
        back = Sorter(self.draft / "by-index", ("history", "index"))
        for block in self._followed("putting the rows of each process in order", rows):
            about = about_messages(block["kind"].to_numpy())
            by_id.add(with_keys(block.filter(pa.array(about))))
            back.add(block.filter(pa.array(~about)).drop_columns(["id_high", "id_low"]))
        messages = named(by_id, self.interpreter, Inventor(self.interpreter, self.ends))
        for block in self._followed("finding the broadcast of each message", messages):
            back.add(block)
        return back.blocks()

    # --- the trace

    def _written(self, rows: Iterable[Any]) -> Ingested:
        runs, trace = self.interpreter.runs.words, self.draft / "trace"
        trace.mkdir()
        members = (
            self.ends.history(run, name)
            for run in range(len(runs))
            for name in self.ends.members(run)
        )
        dictionary = Dictionary({*self.interpreter.mentioned, *members}, len(runs))
        manifests = tuple(self._manifest(run, dictionary) for run in range(len(runs)))
        writer = Writer(trace, dictionary, runs)
        kinds: Counter[str] = Counter()
        for block in self._followed("writing the trace", rows):
            writer.add(block)
            counts = block["kind"].value_counts().to_pylist()
            kinds.update({KINDS[one["values"]]: one["counts"] for one in counts})
        writer.close()
        (trace / MANIFEST).write_bytes(msgspec.json.Encoder().encode_lines(manifests))
        return Ingested(
            read=self.read,
            ignored=self.interpreter.ignored,
            rows=writer.rows,
            kinds=dict(kinds),
            manifests=manifests,
            untold={name: self.ends.untold(run) for run, name in enumerate(runs)},
        )

    def _manifest(self, run: int, dictionary: Dictionary) -> Manifest:
        manifest = Manifest(
            schema=SCHEMA_VERSION,
            run=self.interpreter.runs.words[run],
            names=tuple(self.interpreter.names.words[code] for code in dictionary.names(run)),
            views=(self.ends.members(run),),
            protocol=self.mapping.system,
            fates=self.ends.fates(run),
            clock=None if self.mapping.columns.time is None else "wall",
        )
        check(manifest)
        return manifest
