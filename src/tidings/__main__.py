"""The command ``tidings``, also as ``python -m tidings``."""

import sys
from typing import NoReturn


def run() -> NoReturn:
    """Load the commands, which takes a moment in which Ctrl-C may come, and run one."""
    try:
        from tidings.cli import run_and_exit
    except KeyboardInterrupt:
        print("UNKNOWN")
        print("tidings: interrupted", file=sys.stderr)
        sys.exit(130)
    run_and_exit()


if __name__ == "__main__":
    run()
