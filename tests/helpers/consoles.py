"""Consoles: commands, and under each what it prints, to the letter.

A console is a file of tests/consoles. After ``$ cat > FILE`` follows what is in the file, after
``$ head -9 FILE`` what a command has written into it; ``$ python FILE`` runs a program. An exit
status other than 0 is a line of its own under the output, as in ``[1]``.
"""

import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "consoles"
WHOLE = FOLDER / "whole"
"""What commands of the guides print where a guide leaves lines out."""


def parts(console: str) -> list[tuple[str, str]]:
    """Every command, with what stands under it."""
    found = re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]
    return [(command, shown) for command, _, shown in (part.partition("\n") for part in found)]


def in_lines(printed: str) -> str:
    """What was printed, without the spaces that end its lines."""
    return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


def without_progress(printed: str) -> str:
    """Lines of progress come as often as the machine is slow."""
    return "".join(line for line in in_lines(printed).splitlines(True) if line[:4] != "... ")


def played(console: str, tidings: Any, capsys: pytest.CaptureFixture[str]) -> str:
    """The console as it comes out now."""
    head = console.partition("\n$ ")[0] + "\n"
    return head + "".join(
        f"$ {command}\n{_printed(command, shown, tidings, capsys)}"
        for command, shown in parts(console)
    )


def _printed(command: str, shown: str, tidings: Any, capsys: pytest.CaptureFixture[str]) -> str:
    match shlex.split(command):
        case ["cat", ">", file]:
            Path(file).write_text(shown)
            return shown
        case ["head", number, file]:
            return in_lines("".join(Path(file).open().readlines()[: -int(number)]))
        case ["python", file]:
            runpy.run_path(file, run_name="__main__")
            return in_lines(capsys.readouterr().out)
        case ["tidings", *words]:
            answer = tidings(
                *(str(ROOT / word) if (ROOT / word).is_file() else word for word in words)
            )
            status = f"[{answer.status}]\n" if answer.status else ""
            return in_lines(answer.out) + without_progress(answer.err) + status
    raise AssertionError(f"a console cannot play {command!r}")
