"""The page of one audit: a trace, its verdicts, and what its rows say beside them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from os import PathLike
from shlex import join
from types import MappingProxyType
from typing import TYPE_CHECKING

from tidings.core import MessageId, ordered
from tidings.report import schedule
from tidings.report.causality import Causality
from tidings.report.causes import causes_of, what_went_wrong
from tidings.report.charts.model import Axis, Point, Spread, SpreadChart, StateChart, StateLine
from tidings.report.crashes import Crash, around, crashes_of
from tidings.report.explain import however, in_the_log, replay_command, shrink_command
from tidings.report.page.measure import growth_of
from tidings.report.page.model import (
    MOST_EVENTS,
    MOST_PICTURES,
    CauseRow,
    CauseTable,
    Cell,
    CostRow,
    CostTable,
    Entry,
    Episode,
    Fact,
    Matrix,
    Page,
    Picture,
)
from tidings.report.page.pictures import can_be_drawn, picture_of
from tidings.report.words import judged, listed, many, with_options
from tidings.spec import JUDGED, Extra, Guarantee, Place, Value, Verdict, Violation
from tidings.trace import Manifest, Run

if TYPE_CHECKING:
    from tidings.pipeline.queries.measures.overview import Overview, Quantiles

_MS = 1_000_000
MOST_ROWS = 250_000
"""Traces with more are judged and measured, but not drawn: for that they are read into memory."""
MOST_ROWS_OF_A_WHOLE_RUN = 120
"""A run that broke nothing is drawn if it has no more."""
MOST_CRASHES = 8
"""Of a run, whose surroundings are drawn; beyond that they are only told."""


def page_of_trace(
    folder: PathLike[str] | str,
    rows: int,
    manifests: Mapping[str, Manifest],
    verdicts: Mapping[str, Sequence[Verdict]],
    runs: Sequence[Run],
    measured: "Overview | None" = None,
    how: str = "",
    *,
    log: Mapping[str, Mapping[Place | MessageId, str]] = MappingProxyType({}),
) -> Page:
    """A page of what an audit found in the trace at ``folder``, and what was measured there.

    ``runs`` is the trace itself, or nothing where it is too long to be read into memory. ``how``
    is the command that made the page, ``log`` what to look up where the trace comes from.
    """
    trace = _Trace(folder, manifests, verdicts, runs, how, log, on_spark=measured is not None)
    pictures, undrawn = trace.pictures()
    too_long = f"The trace has {rows:,} rows; only up to {MOST_ROWS:,} are drawn."
    return Page(
        title=f"Audit of {folder}",
        answer=_answer(verdicts),
        value=_worst([verdict.value for of_run in verdicts.values() for verdict in of_run]),
        about=f"A trace of {many(rows, 'row')} of {many(len(verdicts), 'run')} was judged. Every "
        "verdict comes from the recorded events alone, in the order in which each process recorded "
        "them; clocks serve latencies only.",
        facts=trace.facts(rows),
        episodes=trace.episodes({picture.key for picture in pictures}),
        matrix=trace.matrix({picture.key for picture in pictures}),
        causes=trace.causes(),
        cost_table=trace.costs(measured) if measured else None,
        latencies=trace.latencies(measured) if measured else (),
        states=trace.states(measured) if measured else (),
        pictures=pictures,
        reproduce=trace.reproduce(),
        left_out=(*undrawn, *([] if runs else [too_long])),
    )


def _worst(values: Sequence[Value]) -> Value:
    severe = (value for value in (Value.VIOLATED, Value.UNKNOWN) if value in values)
    return next(severe, Value.HOLDS)


def _answer(verdicts: Mapping[str, Sequence[Verdict]]) -> str:
    """One sentence."""
    of = {
        value: [
            guarantee.value
            for guarantee in JUDGED
            if any(
                verdict.guarantee is guarantee and verdict.value is value
                for of_run in verdicts.values()
                for verdict in of_run
            )
        ]
        for value in Value
    }
    where = "" if len(verdicts) == 1 else f" in {len(verdicts):,} runs"
    violated, unknown = of[Value.VIOLATED], of[Value.UNKNOWN]
    if violated:
        were = "was" if len(violated) == 1 else "were"
        sentence = f"{listed(violated)} {were} violated{where}"
        rest = f"; {listed(unknown)} cannot be judged" if set(unknown) - set(violated) else ""
    elif unknown:
        sentence, rest = f"{listed(unknown)} cannot be judged{where}", "; nothing was seen violated"
    else:
        views = " and so do views" if Extra.VIEWS.value in of[Value.HOLDS] else ""
        sentence, rest = f"all {len(Guarantee)} guarantees hold{views}{where}", ""
    return f"{sentence[0].upper()}{sentence[1:]}{rest}."


class _Trace:
    """A trace and its verdicts, told part by part."""

    def __init__(
        self,
        folder: PathLike[str] | str,
        manifests: Mapping[str, Manifest],
        verdicts: Mapping[str, Sequence[Verdict]],
        runs: Sequence[Run],
        how: str,
        log: Mapping[str, Mapping[Place | MessageId, str]],
        *,
        on_spark: bool,
    ) -> None:
        self.folder = str(folder)
        self.log = log
        self.manifests = manifests
        self.verdicts = verdicts
        self.runs = runs
        self.how = how
        self.on_spark = on_spark
        self.is_one = len(verdicts) == 1
        self.numbers = {run: number for number, run in enumerate(manifests, start=1)}

    def facts(self, rows: int) -> tuple[Fact, ...]:
        facts = [Fact("trace", self.folder), Fact("rows", f"{rows:,}")]
        if not self.is_one:
            return (*facts, Fact("runs", f"{len(self.verdicts):,}"))
        (manifest,) = self.manifests.values()
        crashed = [name for name, fate in manifest.fates.items() if fate == "crashed"]
        back = ordered(crash.process for crash in self.crashes if crash.back)
        facts += [
            Fact("run", manifest.run),
            Fact("protocol", _entry_of(manifest)),
            Fact("processes", f"{len(manifest.members):,}"),
            *([Fact("crashed", listed(crashed))] if crashed else []),
            *([Fact("came back", listed(back))] if back else []),
            *([Fact("seed", str(manifest.seed))] if manifest.seed is not None else []),
            *([Fact("commit", manifest.commit)] if manifest.commit else []),
        ]
        return tuple(facts)

    # --- what happened

    @cached_property
    def _causalities(self) -> dict[str, Causality]:
        """Of the runs that are drawn or told, each made once."""
        return {}

    def _causality(self, run: Run) -> Causality:
        return self._causalities.setdefault(run.manifest.run, Causality(run))

    @cached_property
    def crashes(self) -> list[Crash]:
        """Of a single run."""
        return crashes_of(self._causality(self.runs[0])) if self.is_one and self.runs else []

    def episodes(self, pictures: set[str]) -> tuple[Episode, ...]:
        """How members went down and came back, in the order in which they did."""
        (run,) = self.manifests if self.is_one else ("",)
        happened: list[tuple[int, Episode]] = []
        for crash in self.crashes:
            keys = [self._key_of(crash), self._key(run)]
            shown = next((key for key in keys if key in pictures), None)
            happened.append((self._time_of(crash.end), Episode(f"{crash.in_words()}.", shown)))
            if crash.back is not None:
                back = Episode(f"{crash.return_in_words()}.", shown)
                happened.append((self._time_of(crash.back), back))
        return tuple(episode for _, episode in sorted(happened, key=lambda one: one[0]))

    def _time_of(self, where: Place) -> int:
        rows = self.runs[0].histories[where.process]
        return next(row.time_ns for row in rows if row.index == where.index)

    def _key_of(self, crash: Crash) -> str:
        """By numbers: names of processes may be anything."""
        (run,) = self.manifests
        return f"{self._key(run)}-crash-{self.crashes.index(crash) + 1}"

    # --- verdicts

    def matrix(self, pictures: set[str]) -> Matrix:
        by_entry: dict[str, list[str]] = {}
        for run, entry in entries_of(self.manifests).items():
            by_entry.setdefault(entry, []).append(run)
        entries = tuple(
            Entry(
                name=name,
                flawed=name.startswith("flawed/"),
                note="" if self.is_one else many(len(runs), "run"),
                cells=self._cells(runs, pictures),
            )
            for name, runs in by_entry.items()
        )
        return Matrix(entries=entries, what="protocol", how=self._again())

    def _cells(self, runs: Sequence[str], pictures: set[str]) -> dict[Guarantee | Extra, Cell]:
        """Of views only if there are any."""
        judged = {verdict.guarantee for run in runs for verdict in self.verdicts[run]}
        return {one: self._cell(one, runs, pictures) for one in JUDGED if one in judged}

    def _cell(self, guarantee: Guarantee | Extra, runs: Sequence[str], pictures: set[str]) -> Cell:
        of_runs = {
            run: verdict
            for run in runs
            for verdict in self.verdicts[run]
            if verdict.guarantee is guarantee
        }
        values = [verdict.value for verdict in of_runs.values()]
        keys = [self._key(run, guarantee) for run in of_runs]
        return Cell(
            value=_worst(values),
            runs=len(values),
            violated=values.count(Value.VIOLATED),
            unknown=values.count(Value.UNKNOWN),
            note=_note(list(of_runs.values())),
            picture=next((key for key in keys if key in pictures), None),
        )

    def causes(self) -> CauseTable | None:
        rows, notes = [], []
        for run, verdicts in self.verdicts.items():
            causes, more = causes_of(verdicts)
            rows += [CauseRow(run, what_went_wrong(one), one.violated) for one in causes]
            notes += [f"{more} in run {run}"] if more else []
        if not rows:
            return None
        rows.sort(key=lambda row: -sum(row.violated.values()))
        note = "How many violations of each guarantee follow from one message at one process."
        also = f" Not listed: {listed(notes[:_MOST_NOTES])}." if notes else ""
        return CauseTable(rows=tuple(rows), note=note + also, how=self._again())

    # --- prices

    def costs(self, measured: "Overview") -> CostTable | None:
        count = measured.broadcasts
        if not count or not measured.sent:
            return None
        return CostTable(
            title="What was sent for one broadcast",
            rows=tuple(
                CostRow(one.kind, one.packets / count, one.bytes / count) for one in measured.sent
            ),
            broadcasts=count,
            note="Every packet counts where it is sent, whether it arrives or not.",
            how=self.how,
        )

    def latencies(self, measured: "Overview") -> tuple[SpreadChart, ...]:
        """Until one, a majority or all have a message; of many runs, until all, by protocol."""
        entries = [*dict.fromkeys(entries_of(self.manifests).values())]
        named = {entry: (entry, "last") for entry in entries}
        if self.is_one:
            named = {words: (entries[0], measure) for measure, words in _UNTIL.items()}
        waits = measured.waits
        spreads = tuple(_spread(name, waits[key]) for name, key in named.items() if key in waits)
        if not spreads:
            return ()
        note = "From the broadcast of a message; those that not everybody delivered have no last."
        if {manifest.clock for manifest in self.manifests.values()} != {"simulated"}:
            note += " The clocks of two machines may differ by as much as these times."
        chart = SpreadChart(
            title="Time to delivery" if self.is_one else "Time to the last delivery",
            x=Axis("time from the broadcast", "ms"),
            spreads=spreads,
            note=note,
            how=self.how,
        )
        return (chart,)

    def states(self, measured: "Overview") -> tuple[StateChart, ...]:
        kept = measured.kept
        start = min((one.time_ns for samples in kept.values() for one in samples), default=0)
        lines = {
            process: [Point((one.time_ns - start) / _MS, float(one.bytes)) for one in kept[process]]
            for process in ordered(kept)
        }
        if max(map(len, lines.values()), default=0) < 2:
            return ()
        chart = StateChart(
            title="What each process keeps",
            x=Axis("time since the first sample", "ms"),
            y=Axis("kept by the process", "bytes"),
            lines=tuple(
                StateLine(name, tuple(points), growth_of(points)) for name, points in lines.items()
            ),
            how=self.how,
        )
        return (chart,)

    # --- pictures

    def pictures(self) -> tuple[tuple[Picture, ...], list[str]]:
        """Of the first violation of each guarantee in each run, or of a small run that is well."""
        drawn: list[Picture] = []
        undrawn: list[str] = [] if self.runs else list(islice(self._only_in_words(), MOST_PICTURES))
        breaches = 0
        for run in self.runs:
            verdicts = self.verdicts[run.manifest.run]
            shown = [violation for verdict in verdicts for violation in verdict.violations[:1]]
            breaches += len(shown)
            room = MOST_PICTURES - len(drawn)
            is_small = self.is_one and sum(1 for _ in run.rows) <= MOST_ROWS_OF_A_WHOLE_RUN
            crashes = [] if is_small else [one for one in self.crashes if one.message]
            if not room or not (shown or is_small or crashes):
                continue
            causality = self._causality(run)
            if not can_be_drawn(causality):
                undrawn.append(f"Run {run.manifest.run} is not drawn: its group is too large.")
                continue
            wanted: list[Violation | None] = [*shown] or [None] * is_small
            drawn += [self._picture(causality, violation) for violation in wanted[:room]]
            room = min(MOST_CRASHES, MOST_PICTURES - len(drawn))
            drawn += [self._crash(causality, crash) for crash in crashes[:room]]
        if breaches > MOST_PICTURES:
            undrawn.append(f"Only {MOST_PICTURES} of {breaches:,} violated verdicts are drawn.")
        if self.is_one and self.runs and not drawn and not undrawn:
            undrawn.append(
                "The run is not drawn: it violates nothing, and it has more than "
                f"{MOST_ROWS_OF_A_WHOLE_RUN} rows."
            )
        return tuple(drawn), undrawn

    def _only_in_words(self) -> Iterator[str]:
        """What is wrong in a trace that is too long to be drawn; the audit prints the proofs."""
        for run, verdicts in self.verdicts.items():
            where = "" if self.is_one else f" in run {run}"
            for violation in (one for verdict in verdicts for one in verdict.violations[:1]):
                name = violation.guarantee.capitalize()
                found = "; ".join(in_the_log(violation, self.log.get(run, {})))
                looked_up = f" In the log: {found}." if found else ""
                yield f"Not drawn: {name} violated{where}. {however(violation)}{looked_up}"

    def _key(self, run: str, *guarantee: str) -> str:
        """The number of the run and not its name, which may be anything."""
        return "-".join(["run", str(self.numbers[run]), *(" ".join(guarantee).split())])

    def _picture(self, causality: Causality, violation: Violation | None) -> Picture:
        manifest = causality.run.manifest
        key, replay, shrink = self._key(manifest.run), "", ""
        if violation is not None:
            key = self._key(manifest.run, violation.guarantee)
            if schedule.can_be_replayed(manifest):
                named = None if self.is_one else manifest.run
                is_long = schedule.is_long(manifest)
                replay = replay_command(violation, self.folder, named, is_long=is_long)
                if violation.guarantee is not Extra.VIEWS:  # which nothing shrinks
                    shrink = shrink_command(
                        self.folder, named, self._which(manifest.run, violation)
                    )
        return picture_of(
            causality,
            violation,
            key=key,
            entry=_entry_of(manifest),
            replay=replay,
            shrink=shrink,
            log=self.log.get(manifest.run, {}),
        )

    def _which(self, run: str, violation: Violation) -> str | None:
        """The guarantee, where the run violates others too."""
        broken = [one for one in self.verdicts[run] if one.violations]
        return violation.guarantee.value if len(broken) > 1 else None

    def _crash(self, causality: Causality, crash: Crash) -> Picture:
        when = "while it broadcasts" if crash.is_in_mid_broadcast else "after its broadcast of"
        return picture_of(
            causality,
            key=self._key_of(crash),
            entry=_entry_of(causality.run.manifest),
            title=f"{crash.process} goes down {when} {crash.message}",
            summary=f"{crash.in_words()}.",
            view=around(crash, causality, MOST_EVENTS),
        )

    # --- once more

    def reproduce(self) -> tuple[Fact, ...]:
        page = [Fact("this page", self.how)] if self.how else []
        return (*page, Fact("the verdicts", self._again()))

    def _again(self) -> str:
        """The verdicts alone; what is measured beside them only the page shows."""
        return join(["tidings", "audit", self.folder, *([] if self.on_spark else ["--local"])])


_UNTIL = {
    "own": "until its origin delivers it",
    "first": "until the first does",
    "majority": "until a majority has",
    "last": "until all correct ones have",
}


_MOST_NOTES = 3
"""Of so many runs it is said that they have more causes."""


def _spread(name: str, waits: "Quantiles") -> Spread:
    return Spread(
        name=name,
        count=waits.known,
        least=waits.least / _MS,
        p25=waits.p25 / _MS,
        p50=waits.p50 / _MS,
        p75=waits.p75 / _MS,
        p95=waits.p95 / _MS,
        p99=waits.p99 / _MS,
        most=waits.most / _MS,
    )


def entries_of(manifests: Mapping[str, Manifest]) -> dict[str, str]:
    """Of every run what was run: the rows of the matrix."""
    return {run: _entry_of(manifest) for run, manifest in manifests.items()}


def _entry_of(manifest: Manifest) -> str:
    return with_options(manifest.protocol or "unknown protocol", manifest.options)


def _note(verdicts: Sequence[Verdict]) -> str:
    """What was counted, over all runs."""
    of_all = judged(sum(one.judged for one in verdicts), verdicts[0].guarantee)
    causes, violated = sum(one.causes for one in verdicts), sum(one.violated for one in verdicts)
    not_owed = sum(one.not_owed for one in verdicts)
    reasons = [one.reason for one in verdicts if one.reason]
    notes = [one.note for one in verdicts if one.note]
    return "; ".join(
        [
            f"{many(causes, 'cause')}, {many(violated, 'violation')} in {of_all}"
            if violated
            else of_all,
            *([f"{not_owed:,} not owed"] if not_owed else []),
            *reasons[:1],
            *(notes if len(notes) < 2 else [f"{len(notes):,} runs are judged from a cut on"]),
        ]
    )
