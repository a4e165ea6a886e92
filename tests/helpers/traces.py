"""Small random traces, good and bad, written down directly: no simulator, no protocol.

A run starts as a correct one: every process delivers every message addressed to it, causes
first. Then it is spoilt: some faults break a guarantee, others only hide the evidence. What that
amounts to is for the judges to say; here is only the variety.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from tidings.core import Members
from tidings.trace import SCHEMA_VERSION, Fate, HistoryCut, Manifest, Row, digest, parquet
from tidings.trace.cutting import summed
from tidings.trace.files import write_lines

STRANGER = "x1"
"""In the dictionary of names, but in no view."""


class Draft:
    """A run in the making: for each process its events in order, not yet numbered."""

    def __init__(self, run: str, rng: Random) -> None:
        self.run = run
        self.rng = rng
        count = rng.choice((1, 2, 3, 4, 5, 5))
        self.members = [f"p{number}" for number in rng.sample(range(1, 12), count)]
        self.views: list[Members] = [tuple(self.members)]
        if rng.random() < 0.6:
            fewer = rng.randint(1, rng.choice((count, 1 + count // 3)))
            self.views.append(tuple(rng.sample(self.members, fewer)))
        self.events: dict[str, list[dict[str, Any]]] = {name: [] for name in self.members}
        self.fates: dict[str, Fate] = {}
        self.split = rng.choice((0, 3, 100))
        """The index from which on the rows are in the second file."""
        self.holes: dict[str, tuple[int, int]] = {}
        """Where a file of a process is missing: from one index, up to another."""
        self.cuts: dict[str, HistoryCut] = {}
        self.is_in_sequence = False
        """Whether each process numbers its messages from 1 on."""

    def deliveries(self) -> list[tuple[str, int]]:
        """Where the deliveries are: a process and a position in its history."""
        return self._places("deliver")

    def broadcasts(self) -> list[tuple[str, int]]:
        return self._places("broadcast")

    def _places(self, kind: str) -> list[tuple[str, int]]:
        return [
            (process, position)
            for process, events in self.events.items()
            for position, event in enumerate(events)
            if event["kind"] == kind
        ]

    def position(self, process: str) -> int:
        """Anywhere in a history but at its very end, where it may have settled."""
        return self.rng.randint(0, max(0, len(self.events[process]) - 1))

    def manifest(self) -> Manifest:
        names = [*self.members, STRANGER]
        self.rng.shuffle(names)
        return Manifest(
            schema=SCHEMA_VERSION,
            run=self.run,
            names=tuple(names),
            views=tuple(self.views),
            fates=self.fates,
            cuts=self.cuts,
        )

    def rows(self) -> list[Row]:
        """From the cuts on. The ``value`` of a gap says how many places it takes."""
        rows = []
        for process, events in self.events.items():
            begin = self.cuts[process].index if process in self.cuts else 0
            index = 0
            for event in events:
                end = index + (event["value"] if event["kind"] == "gap" else 1)
                answer = event | {"value": end - 1} if event["kind"] == "gap" else event
                if index >= begin:
                    rows.append(
                        Row(run=self.run, process=process, index=index, time_ns=0, **answer)
                    )
                index = end
        return rows


def correct_run(run: str, rng: Random, is_in_sequence: bool = False) -> Draft:
    """Everything is delivered once, everywhere it is addressed to, causes first."""
    draft = Draft(run, rng)
    if is_in_sequence:
        draft.is_in_sequence = True
        del draft.views[1:]
    pasts: dict[str, set[tuple[str, int]]] = {name: set() for name in draft.members}
    waiting: dict[str, list[tuple[dict[str, Any], set[tuple[str, int]]]]] = {
        name: [] for name in draft.members
    }
    to_send = rng.randint(1, 10)
    while to_send or any(waiting.values()):
        process = rng.choice(draft.members)
        if to_send and rng.random() < 0.3:
            _broadcast(draft, process, pasts[process], waiting)
            to_send -= 1
        elif waiting[process]:
            _deliver(draft, process, pasts[process], waiting[process])
        elif rng.random() < 0.1:
            draft.events[process].append({"kind": "state", "name": "ids", "value": 1})
    for process in draft.members:
        draft.events[process].append({"kind": "settle"})
    return draft


def _broadcast(
    draft: Draft, process: str, past: set[tuple[str, int]], waiting: dict[str, list[Any]]
) -> None:
    used = {event.get("seq") for event in draft.events[process] if event["kind"] == "broadcast"}
    # A sequence number is only a name: neither contiguous nor growing.
    names = [number for number in range(1, 30) if number not in used]
    seq = names[0] if draft.is_in_sequence else draft.rng.choice(names)
    view = draft.rng.randrange(len(draft.views))
    text = digest(f"{process} {seq}".encode())
    message = {"origin": process, "seq": seq, "digest": text}
    draft.events[process].append({"kind": "broadcast", "view": view, **message})
    for addressee in draft.views[view]:
        waiting[addressee].append((message, set(past)))
    past.add((process, seq))


def _deliver(
    draft: Draft,
    process: str,
    past: set[tuple[str, int]],
    waiting: list[tuple[dict[str, Any], set[tuple[str, int]]]],
) -> None:
    """One of those whose causes, as far as they are addressed to it, are all delivered."""
    missing = {(message["origin"], message["seq"]) for message, _ in waiting}
    ready = [one for one in waiting if not one[1] & missing]
    message, causes = draft.rng.choice(ready)
    waiting.remove((message, causes))
    past |= causes | {(message["origin"], message["seq"])}
    draft.events[process].append({"kind": "deliver", **message})


# --- faults that break a guarantee


def repeat_a_delivery(draft: Draft) -> None:
    process, position = draft.rng.choice(draft.deliveries())
    last = len(draft.events[process]) - 1
    again = draft.rng.randint(min(position + 1, last), last)
    draft.events[process].insert(again, dict(draft.events[process][position]))


def alter_a_text(draft: Draft) -> None:
    process, position = draft.rng.choice(draft.deliveries())
    draft.events[process][position]["digest"] = digest(b"altered")


def invent_a_message(draft: Draft) -> None:
    process = draft.rng.choice(draft.members)
    invented = {
        "kind": "deliver",
        "origin": draft.rng.choice([*draft.members, STRANGER]),
        "seq": draft.rng.choice((31, 2**62)),
        "digest": digest(b"invented"),
    }
    draft.events[process].insert(draft.position(process), invented)


def use_a_name_twice(draft: Draft) -> None:
    process, position = draft.rng.choice(draft.broadcasts())
    again = dict(draft.events[process][position], view=draft.rng.randrange(len(draft.views)))
    if draft.rng.random() < 0.5:
        again["digest"] = digest(b"another text")
    draft.events[process].insert(draft.position(process), again)


def forget_a_delivery(draft: Draft) -> None:
    process, position = draft.rng.choice(draft.deliveries())
    del draft.events[process][position]


def forget_a_message(draft: Draft) -> None:
    """Nobody delivers it, not even its origin."""
    process, position = draft.rng.choice(draft.broadcasts())
    lost = draft.events[process][position]
    for name, events in draft.events.items():
        draft.events[name] = [
            event
            for event in events
            if event["kind"] != "deliver"
            or (event["origin"], event["seq"]) != (lost["origin"], lost["seq"])
        ]


def forget_ones_own(draft: Draft) -> None:
    process, _ = draft.rng.choice(draft.broadcasts())
    draft.events[process] = [
        event
        for event in draft.events[process]
        if event["kind"] != "deliver" or event["origin"] != process
    ]


def hold_back(draft: Draft) -> None:
    """One process never delivers a message, nor, as it should, anything that depends on it."""
    process, position = draft.rng.choice(draft.deliveries())
    lost = draft.events[process].pop(position)
    held = {(lost["origin"], lost["seq"])}
    while True:
        depending = {
            (event["origin"], event["seq"])
            for events in draft.events.values()
            for place, event in enumerate(events)
            if event["kind"] == "broadcast"
            and any((one.get("origin"), one.get("seq")) in held for one in events[:place])
        }
        if depending <= held:
            break
        held |= depending
        draft.events[process] = [
            event
            for event in draft.events[process]
            if event["kind"] != "deliver" or (event["origin"], event["seq"]) not in held
        ]


def shuffle_deliveries(draft: Draft) -> None:
    """At every process, so that those who come too early have causes that do as well."""
    for events in draft.events.values():
        here = [place for place, event in enumerate(events) if event["kind"] == "deliver"]
        for place, event in zip(
            here, draft.rng.sample([events[place] for place in here], len(here)), strict=True
        ):
            events[place] = event


def swap_two_deliveries(draft: Draft) -> None:
    """Any two of one process; also before its own broadcast, which no clock would allow."""
    process, _ = draft.rng.choice(draft.deliveries())
    here = [position for name, position in draft.deliveries() if name == process]
    one, other = draft.rng.choice(here), draft.rng.choice(here)
    events = draft.events[process]
    events[one], events[other] = events[other], events[one]


def move_an_event(draft: Draft) -> None:
    process, position = draft.rng.choice(draft.deliveries() + draft.broadcasts())
    event = draft.events[process].pop(position)
    draft.events[process].insert(draft.position(process), event)


# --- faults that hide the evidence, or excuse


def lose_a_history(draft: Draft) -> None:
    process = draft.rng.choice(draft.members)
    draft.events[process] = []
    if draft.rng.random() < 0.3:
        draft.fates[process] = draft.rng.choice(("up", "crashed"))


def cut_a_history(draft: Draft) -> None:
    process = draft.rng.choice(draft.members)
    del draft.events[process][draft.position(process) :]


def tear_a_hole(draft: Draft) -> None:
    process = draft.rng.choice(draft.members)
    start, end = sorted((draft.position(process), draft.position(process)))
    if start < end:
        draft.holes[process] = (start, end)


def leave_a_gap(draft: Draft) -> None:
    """Told by the history itself, unlike a hole."""
    process = draft.rng.choice(draft.members)
    start, end = sorted((draft.position(process), draft.position(process)))
    if start < end:
        draft.events[process][start:end] = [{"kind": "gap", "value": draft.rng.randint(1, 9)}]


def crash(draft: Draft, most: int = 1) -> None:
    """Told by the history, or by the runner alone."""
    count = draft.rng.randint(1, min(most, len(draft.members)))
    for process in draft.rng.sample(draft.members, count):
        del draft.events[process][draft.position(process) :]
        if draft.rng.random() < 0.6:
            draft.events[process].append({"kind": draft.rng.choice(("crash", "leave"))})
        else:
            draft.fates[process] = "crashed"


def crash_many(draft: Draft) -> None:
    crash(draft, most=len(draft.members))


def crash_a_list(draft: Draft) -> None:
    """Late, and only the members of the last list: what they sent before lives on elsewhere."""
    for process in draft.views[-1]:
        draft.events[process].pop()
        draft.events[process].append({"kind": "crash"})


def crash_and_recover(draft: Draft) -> None:
    process = draft.rng.choice(draft.members)
    position = draft.position(process)
    later = [dict(event, incarnation=1) for event in draft.events[process][position:]]
    between = [{"kind": "crash"}, {"kind": "recover", "incarnation": 1}]
    draft.events[process][position:] = [*between, *later]


BREAKING: tuple[Callable[[Draft], None], ...] = (
    repeat_a_delivery,
    repeat_a_delivery,
    alter_a_text,
    invent_a_message,
    use_a_name_twice,
    forget_a_delivery,
    forget_a_delivery,
    forget_a_message,
    forget_ones_own,
    hold_back,
    hold_back,
    shuffle_deliveries,
    swap_two_deliveries,
    swap_two_deliveries,
    move_an_event,
)
HIDING: tuple[Callable[[Draft], None], ...] = (
    lose_a_history,
    cut_a_history,
    tear_a_hole,
    leave_a_gap,
    crash,
    crash_many,
    crash_a_list,
    crash_a_list,
    crash_a_list,
    crash_and_recover,
)


# --- what may be cut off


def longest_cuts(draft: Draft, process: str) -> list[HistoryCut]:
    """Every cut that leaves something, and before which all happened in sequence."""
    cuts = [HistoryCut(index=0)]
    broadcast, delivered = 0, Counter[str]()
    for index, event in enumerate(draft.events[process][:-1]):
        match event["kind"], event.get("origin"), event.get("seq"):
            case "gap", _, _:
                break
            case "broadcast", _, seq:
                broadcast += 1
                if seq != broadcast:
                    break
            case "deliver", origin, seq:
                delivered[origin] += 1
                if seq != delivered[origin]:
                    break
        cuts.append(HistoryCut(index=index + 1, broadcast=broadcast, delivered=dict(delivered)))
    return cuts


def cut_histories(draft: Draft) -> None:
    for process in draft.members:
        if process not in draft.holes and draft.events[process] and draft.rng.random() < 0.7:
            cut = draft.rng.choice(longest_cuts(draft, process))
            if cut.index:
                draft.cuts[process] = cut


def note_digests(draft: Draft) -> None:
    """In each cut, of most origins; and now and then one that is not true."""
    for process, cut in draft.cuts.items():
        texts: dict[str, bytes] = {}
        for event in draft.events[process][: cut.index]:
            if event["kind"] == "deliver":
                texts.setdefault(event["origin"], b"")
                texts[event["origin"]] += bytes.fromhex(event["digest"])
        for origin in texts:
            if draft.rng.random() < 0.1:
                texts[origin] += b"altered"
        digests = {
            origin: f"{summed(0, of_origin):032x}"
            for origin, of_origin in texts.items()
            if draft.rng.random() < 0.9
        }
        draft.cuts[process] = msgspec.structs.replace(cut, digests=digests)


def random_cut_run(run: str, seed: int) -> Draft:
    draft = random_run(run, seed, is_in_sequence=True)
    cut_histories(draft)
    note_digests(draft)
    return draft


def random_cut_runs(count: int, seed: int = 0) -> list[Draft]:
    seeds = (seed * 1_000_003 + number for number in range(count))
    return [random_cut_run(f"cut-{number}", each) for number, each in enumerate(seeds)]


def random_run(run: str, seed: int, is_in_sequence: bool = False) -> Draft:
    """A run with up to two faults that break something and up to one that hides something."""
    rng = Random(seed)
    draft = correct_run(run, rng, is_in_sequence)
    for fault in rng.choices(BREAKING, k=rng.choice((0, 1, 2, 2))):
        if draft.deliveries() and draft.broadcasts():
            fault(draft)
    if rng.random() < 0.6:
        rng.choice(HIDING)(draft)
    return draft


def random_runs(count: int, seed: int = 0) -> list[Draft]:
    return [random_run(f"run-{number}", seed * 1_000_003 + number) for number in range(count)]


def write_drafts(folder: Path, drafts: Sequence[Draft]) -> None:
    """Two files of rows, one of each format; a hole is a gap between the two."""
    manifests = {draft.run: draft.manifest() for draft in drafts}
    lines: list[Row] = []
    table: list[Row] = []
    for draft in drafts:
        for row in draft.rows():
            start, end = draft.holes.get(row.process, (draft.split, draft.split))
            if row.index < start:
                lines.append(row)
            elif row.index >= end:
                table.append(row)
    write_trace(folder, manifests.values(), lines=lines, table=table)


def known_violations(folder: Path) -> None:
    """A run called ``known``: all is broken but Uniform Agreement, in lines and in tables."""
    draft = correct_run("known", Random(12))
    for fault in (repeat_a_delivery, alter_a_text, swap_two_deliveries):
        fault(draft)
    draft.split = 3
    write_drafts(folder, [draft])


def write_trace(
    folder: Path,
    manifests: Iterable[Manifest],
    *,
    lines: Sequence[Row] = (),
    table: Sequence[Row] = (),
) -> Path:
    """A trace as it lies on disk, without asking whether it is valid."""
    folder.mkdir(parents=True, exist_ok=True)
    by_run = {manifest.run: manifest for manifest in manifests}
    parts = b"".join(msgspec.json.encode(manifest) + b"\n" for manifest in by_run.values())
    (folder / "manifest.jsonl").write_bytes(parts)
    if lines:
        write_lines(folder / "rows.jsonl", lines)
    if table:
        parquet.write_rows(folder / "rows.parquet", table, by_run)
    return folder
