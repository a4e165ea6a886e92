"""The command ``tidings``, also as ``python -m tidings``."""

import sys
from collections.abc import Sequence
from typing import NoReturn

JUDGES = (
    *("simulate", "audit", "report", "campaign", "demo", "explore", "replay", "shrink"),
    *("conform", "check", "watch"),
)
"""Commands that end with verdicts: interrupted, they say that these are unknown."""


def judges(words: Sequence[str]) -> bool:
    return any(word in JUDGES for word in words[:1])


def run() -> NoReturn:
    """Load the commands, which takes a moment in which Ctrl-C may come, and run one."""
    try:
        from tidings.cli import run_and_exit
    except KeyboardInterrupt:
        if judges(sys.argv[1:]):
            print("UNKNOWN")
        print("tidings: interrupted", file=sys.stderr)
        sys.exit(130)
    run_and_exit()


if __name__ == "__main__":
    run()
