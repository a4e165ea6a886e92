"""frontier against the five algorithms of the notes, and against what no algorithm can beat.

    python bench/frontier.py            prints the tables
    python bench/frontier.py --write    and puts them into docs/frontier.md

The stream, 50 messages from each of 20 processes through every algorithm, takes some minutes.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tidings.compare import SIZES, Contender, Cost, measure, named_bounds
from tidings.core import quorum

PAGE = Path(__file__).parents[1] / "docs" / "frontier.md"

CONTENDERS = (
    Contender("majority-relay"),
    Contender("history-sets"),
    Contender("interval-history"),
    Contender("two-phase"),
    Contender("stage-gossip"),
    Contender("frontier", {"mode": "all"}),
    Contender("frontier", {"mode": "origin"}),
)

STREAM = (20, 1000)
"""How many processes, how many messages in all."""


def one_broadcast() -> str:
    """Packets and delays of one fault-free broadcast, and the bounds."""
    rows = []
    for contender in CONTENDERS:
        costs = [measure(contender, "one", size, 1) for size in SIZES]
        for until, packets in counted(contender, costs).items():
            figures = [f"{one:,.0f}" for one in packets]
            rows.append([f"`{contender}`, {until}", *figures, f"{costs[-1].delays:g}"])
    for name, bound in named_bounds().items():
        least = [bound(size, quorum(size) - 1) for size in SIZES]
        rows.append([f"at least {name}", *(f"{packets:,}" for packets in least), "-"])
    return table(["packets", *(f"n={size}" for size in SIZES), "delays"], rows)


def counted(contender: Contender, costs: Sequence[Cost]) -> dict[str, list[float]]:
    """Packets until safe, and in all: frontier ends when all is stable, the others never know."""
    until_safe = [cost.packets_until_safe for cost in costs]
    in_all = [cost.packets for cost in costs]
    if contender.protocol == "frontier":
        return {"until safe": until_safe, "until stable": in_all}
    more = {"in all": in_all} if in_all != until_safe else {}
    return {"until safe": until_safe} | more


def stream(contenders: Sequence[Contender] = CONTENDERS) -> dict[str, Cost]:
    processes, messages = STREAM
    return {
        str(one): measure(one, "stream", processes, messages, budget=10_000_000)
        for one in contenders
    }


def stream_table(costs: Mapping[str, Cost]) -> str:
    heads = ["per broadcast", "packets", "bytes (JSON)", "bytes (msgpack)", "delays", "state"]
    return table(heads, [stream_row(name, cost) for name, cost in costs.items()])


def stream_row(name: str, cost: Cost) -> list[str]:
    return [
        f"`{name}`",
        f"{cost.packets:,.0f}",
        f"{cost.json_bytes:,.0f}",
        f"{cost.bytes:,.0f}",
        f"{cost.delays:.1f}",
        f"{cost.kept_bytes:,.0f}",
    ]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown, figures to the right."""
    rule = ["---", *("---:" for _ in heads[1:])]
    return "\n".join(" | ".join(cells) for cells in (heads, rule, *rows))


def put(name: str, text: str) -> None:
    """Replace what stands between the marks of this name."""
    mark = f"<!-- {name} -->"
    page = re.sub(
        f"{mark}\n.*?{mark}", f"{mark}\n{text}\n{mark}", PAGE.read_text("utf-8"), flags=re.DOTALL
    )
    PAGE.write_text(page, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="frontier against the five, and the bounds")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/frontier.md")
    asked = parser.parse_args()
    tables = {"one broadcast": one_broadcast(), "stream": stream_table(stream())}
    for name, text in tables.items():
        print(f"{name}\n\n{text}\n")
        if asked.write:
            put(name, text)


if __name__ == "__main__":
    main()
