"""What really happened, from the trace alone: a fault that did not happen has shown nothing."""

from collections import Counter
from collections.abc import Iterator

from tidings.trace import Row, Run

Link = tuple[str, str]


def packets(run: Run, kind: str) -> Iterator[tuple[Link, int]]:
    """Those sent, or received: from whom to whom, and under which number."""
    for process, history in run.histories.items():
        for row in history:
            if row.kind == kind:
                assert isinstance(row.peer, str)
                assert isinstance(row.packet, int)
                link = (process, row.peer) if kind == "send" else (row.peer, process)
                yield link, row.packet


def lost(run: Run) -> Counter[Link]:
    """How many packets were sent on each link and never came."""
    missing = set(packets(run, "send")) - set(packets(run, "receive"))
    return Counter(link for link, _ in missing)


def repeated(run: Run) -> int:
    """How many packets came once more."""
    came = Counter(packets(run, "receive"))
    return came.total() - len(came)


def overtaken(run: Run) -> int:
    """How many packets came after one that was sent later on the same link."""
    newest: dict[Link, int] = {}
    count = 0
    for link, number in packets(run, "receive"):
        count += number < newest.get(link, 0)
        newest[link] = max(number, newest.get(link, 0))
    return count


def lives(run: Run, process: str) -> list[list[Row]]:
    """Its history, from one start to the next."""
    found: list[list[Row]] = [[]]
    for row in run.histories[process]:
        if row.kind == "recover":
            found.append([])
        found[-1].append(row)
    return found


def unfinished(run: Run, process: str) -> int:
    """How many of its broadcasts were on their way when its first life ended."""
    mine = Counter(row.kind for row in lives(run, process)[0] if row.origin == process)
    return mine["broadcast"] - mine["deliver"]


def delivered(run: Run, process: str) -> list[str]:
    """The messages it delivered, in their order."""
    return [str(row.message) for row in run.histories[process] if row.kind == "deliver"]
