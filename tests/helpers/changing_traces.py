"""Traces of groups that change by agreement, good and spoilt: simulated once, and then altered.

A run of the simulator becomes a draft without its packets. What is altered breaks a rule of
``spec.views``, or one of the five guarantees, or only hides the evidence (``traces``).
"""

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import msgspec

from tidings.trace import Run
from tidings.trace.schema import AGREED
from traces import BREAKING, HIDING, Draft
from views_runs import ChangingRun

KEPT = ("broadcast", "deliver", "rebind", "crash", "recover", "settle", *AGREED)
SEEDS = range(80)


@cache
def simulated() -> list[Run]:
    """Those in which the group changed; the same for all drafts."""
    runs = (ChangingRun(seed).play() for seed in SEEDS)
    return [run for run in runs if len(run.manifest.views) > 1]


class ChangingDraft(Draft):
    """A run as it was, its rows by process."""

    def __init__(self, run: str, rng: Random, played: Run) -> None:
        super().__init__(run, rng)
        self.members = list(played.manifest.names)
        self.views = list(played.manifest.views)
        self.events = {
            name: [_columns(row) for row in played.histories.get(name, ()) if row.kind in KEPT]
            for name in self.members
        }
        self.fates = dict(played.manifest.fates)

    def steps(self, *kinds: str) -> list[dict[str, Any]]:
        """The rows about agreed views, of these kinds or of all."""
        return [
            event
            for events in self.events.values()
            for event in events
            if event["kind"] in (kinds or AGREED) and "value" in event
        ]


def _columns(row: Any) -> dict[str, Any]:
    columns = msgspec.structs.asdict(row)
    left_out = ("run", "process", "index", "time_ns")
    return {
        name: value
        for name, value in columns.items()
        if name not in left_out and value is not msgspec.UNSET
    }


# --- what must not be


def install_another_list(draft: ChangingDraft) -> None:
    step = draft.rng.choice(draft.steps("view", "join"))
    step["view"] = draft.rng.randrange(len(draft.views))


def install_another_cut(draft: ChangingDraft) -> None:
    """One more or one less, at one process or at all."""
    step = draft.rng.choice(draft.steps("view", "join"))
    origin, change = draft.rng.choice(draft.members), draft.rng.choice((-2, -1, 1, 1, 2**62))
    everywhere = draft.rng.random() < 0.5
    for one in draft.steps("view", "join"):
        if one is step or (everywhere and one["value"] == step["value"]):
            last = max(0, one["vector"].get(origin, 0) + change)
            one["vector"] = one["vector"] | {origin: last}


def install_another_number(draft: ChangingDraft) -> None:
    step = draft.rng.choice(draft.steps())
    step["value"] = max(1, step["value"] + draft.rng.choice((-1, 1, 2)))


def join_once_more(draft: ChangingDraft) -> None:
    step = draft.rng.choice(draft.steps("view", "join"))
    step["kind"] = "join" if step["kind"] == "view" else "view"


def forget_a_view(draft: ChangingDraft) -> None:
    step = draft.rng.choice(draft.steps())
    for name, events in draft.events.items():
        draft.events[name] = [event for event in events if event is not step]


def move_a_view(draft: ChangingDraft) -> None:
    """Past its neighbours, so that they happen in another view."""
    name, events = draft.rng.choice(
        [(name, one) for name, one in draft.events.items() if any("value" in it for it in one)]
    )
    here = draft.rng.choice([at for at, event in enumerate(events) if "value" in event])
    step = events.pop(here)
    events.insert(draft.rng.randint(max(0, here - 3), max(0, min(here + 3, len(events) - 1))), step)
    draft.events[name] = events


def leave_for_no_reason(draft: ChangingDraft) -> None:
    process = draft.rng.choice([name for name in draft.members if draft.events[name]])
    number = draft.rng.randint(1, 3)
    if draft.events[process][-1]["kind"] in ("settle", "crash", "leave"):
        draft.events[process][-1] = {"kind": "leave", "value": number}


def start_again_under_its_name(draft: ChangingDraft) -> None:
    """Somebody else does, without the disk of one that left, which had not delivered all."""
    gone = [name for name, events in draft.events.items() if any(map(_is_leaving, events))]
    if not gone:
        return
    process = draft.rng.choice(gone)
    events = draft.events[process]
    missed = [event for event in events if event["kind"] == "deliver"][-1:]
    again = draft.rng.choice((["recover"], ["recover", "crash"], ["recover", "settle"]))
    kept = [event for event in events if event not in missed]
    draft.events[process] = [*kept, *({"kind": kind} for kind in again)]
    draft.fates[process] = "crashed" if "crash" in again else "up"


def _is_leaving(event: dict[str, Any]) -> bool:
    return event["kind"] == "leave" and "value" in event


def bind_elsewhere(draft: ChangingDraft) -> None:
    bound = [
        event
        for events in draft.events.values()
        for event in events
        if event["kind"] in ("broadcast", "rebind")
    ]
    draft.rng.choice(bound)["view"] = draft.rng.randrange(len(draft.views))


def rebind_again(draft: ChangingDraft) -> None:
    process, at = draft.rng.choice(draft.broadcasts())
    sent = draft.events[process][at]
    view = draft.rng.randrange(len(draft.views))
    moved = {"kind": "rebind", "origin": sent["origin"], "seq": sent["seq"], "view": view}
    draft.events[process].insert(draft.position(process), moved)


def forget_to_rebind(draft: ChangingDraft) -> None:
    for name, events in draft.events.items():
        draft.events[name] = [event for event in events if event["kind"] != "rebind"]


def crash_after_all(draft: ChangingDraft) -> None:
    """The last row of some says that they crashed."""
    for name in draft.rng.sample(draft.members, draft.rng.randint(1, len(draft.members))):
        if draft.events[name] and draft.events[name][-1]["kind"] == "settle":
            draft.events[name][-1] = {"kind": "crash"}
            draft.fates[name] = "crashed"


ALTERING: tuple[Callable[[Any], None], ...] = (
    install_another_list,
    install_another_cut,
    install_another_cut,
    install_another_number,
    join_once_more,
    forget_a_view,
    move_a_view,
    move_a_view,
    leave_for_no_reason,
    start_again_under_its_name,
    start_again_under_its_name,
    bind_elsewhere,
    rebind_again,
    forget_to_rebind,
    crash_after_all,
    crash_after_all,
)


def changing_run(run: str, seed: int) -> ChangingDraft:
    rng = Random(seed)
    draft = ChangingDraft(run, rng, rng.choice(simulated()))
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        faults: tuple[Callable[[Any], None], ...] = rng.choice((ALTERING, ALTERING, BREAKING))
        if draft.steps("view", "join") and draft.deliveries() and draft.broadcasts():
            rng.choice(faults)(draft)
    if rng.random() < 0.2:
        rng.choice(HIDING)(draft)
    _mend(draft)
    return draft


def _mend(draft: ChangingDraft) -> None:
    """What would be bad data is no use: after its end a process only comes back."""
    for name, events in draft.events.items():
        kept: list[dict[str, Any]] = []
        for event in events:
            is_over = bool(kept) and kept[-1]["kind"] in ("crash", "leave")
            if not is_over or event["kind"] in ("recover", "join"):
                kept.append(event | {"incarnation": max(event.get("incarnation", 0), _life(kept))})
        draft.events[name] = kept
        start, _ = draft.holes.get(name, (0, 0))
        if start > len(kept) or (start and kept[start - 1]["kind"] in ("crash", "leave")):
            del draft.holes[name]


def _life(events: list[dict[str, Any]]) -> int:
    return events[-1].get("incarnation", 0) if events else 0


def changing_runs(count: int, seed: int = 0) -> list[Draft]:
    return [changing_run(f"changing-{one}", seed * 1_000_003 + one) for one in range(count)]
