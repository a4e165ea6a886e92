"""The answer in one sentence, and what else is said in words."""

from collections.abc import Iterator

from tidings import __version__
from tidings.campaign.numbers import again, column_of
from tidings.campaign.page.found import CampaignResults, status_of
from tidings.core import Exit
from tidings.report.page.model import Fact
from tidings.report.words import listed, many
from tidings.spec import Guarantee, Value


def value(found: CampaignResults) -> Value:
    if found.worse:
        return Value.VIOLATED
    of_status = {Exit.VIOLATED: Value.VIOLATED, Exit.UNKNOWN: Value.UNKNOWN}
    return of_status.get(status_of(found.folder), Value.HOLDS)


def answer(found: CampaignResults) -> str:
    """One sentence about those that should hold, one about those that should not."""
    broken = found.broken
    unknown = [name for name in found.sound if found.count("unknown", name)]
    runs = many(sum(not row["flawed"] for row in found.runs), "run")
    if broken:
        text = f"Violated: a guarantee by {listed([_share(found, name) for name in broken])}"
    elif unknown:
        text = f"Nothing was seen violated in {runs}, but some of {listed(unknown)} is unknown"
    else:
        text = f"All five guarantees held in {runs} of {many(len(found.sound), 'algorithm')}"
    flawed = list(dict.fromkeys(row["algorithm"] for row in found.verdicts if row["flawed"]))
    if flawed:
        caught = sum(bool(found.count("violated", name)) for name in flawed)
        text += f"; caught: {caught} of {many(len(flawed), 'flawed form')}"
    if found.worse:
        text += f"; worse than {found.compared[0]['baseline']} in {many(found.worse, 'comparison')}"
    return f"{text}."


def _share(found: CampaignResults, algorithm: str) -> str:
    """In how many of its runs anything was violated."""
    runs = [row for row in found.runs if row["algorithm"] == algorithm]
    wrong = sum(
        any(row[column_of(one)] == Value.VIOLATED.value for one in Guarantee) for row in runs
    )
    return f"{algorithm} in {wrong:,} of {many(len(runs), 'run')}"


def facts(found: CampaignResults) -> tuple[Fact, ...]:
    campaign = found.folder.campaign
    outcomes = [row["outcome"] for row in found.runs]
    rows = sum(row["rows"] for row in found.runs)
    return (
        Fact("runs", f"{len(found.runs):,}"),
        Fact("events", f"{rows:,}"),
        Fact("sizes", listed([str(size) for size in campaign.sizes])),
        Fact("loads", listed(list(campaign.workloads))),
        Fact("faults", listed(list(campaign.faults))),
        Fact("seeds", f"0 to {campaign.seeds - 1}" if campaign.seeds > 1 else "0"),
        Fact("tidings", __version__),
        *(
            Fact(f"{word} runs", f"{outcomes.count(word):,}")
            for word in ("cut", "failed")
            if word in outcomes
        ),
    )


def reproduce(found: CampaignResults, how: str) -> tuple[Fact, ...]:
    return (
        *([Fact("this page", how)] if how else []),
        Fact("the numbers, anew", found.again),
        Fact("one run", again(found.folder.shown, "RUN")),
    )


def left_out(found: CampaignResults, drawn: int) -> Iterator[str]:
    """``drawn`` is how many counterexamples have pictures."""
    for (outcome, algorithm), rows in found.ended.items():
        first = rows[0]
        yield (
            f"{many(len(rows), 'run')} of {algorithm} {outcome}, the first of them "
            f"{first['run']}: {first['reason']} ({first['replay']})."
        )
    undrawn = len(found.counterexamples) - drawn
    if undrawn:
        yield f"{many(undrawn, 'counterexample')} not drawn: see counterexamples.csv."
