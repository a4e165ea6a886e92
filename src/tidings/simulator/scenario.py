"""Scenario files: a run written by hand, one command per line.

    group p1 p2 p3
    protocol majority-relay

    broadcast p1 hello
    ----
    p1 -> p2  copy p1#1
    p1 -> p3  copy p1#1

    receive p1->p2
    crash p1 losing p1->p3
    settle

A block of commands may be followed by ``----`` and the group's answer; where an answer is
written, it must be the one that comes. docs/simulate.md lists the commands.
"""

from pathlib import Path

import msgspec

from tidings.core import DataError, UsageError
from tidings.simulator.script import Script
from tidings.trace import Run, digest


class Passage(msgspec.Struct):
    """Commands that belong together, and the answer written under them, if any."""

    line: int
    commands: list[str] = []
    answer: list[str] | None = None


def parse(text: str) -> list[Passage]:
    """Split a scenario into its blocks; blank lines separate them."""
    blocks: list[Passage] = []
    block: Passage | None = None
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.rstrip()
        if not line:
            block = None
        elif block is not None and block.answer is not None:
            block.answer.append(line)
        elif line == "----" and block is not None:
            block.answer = []
        else:
            if block is None:
                block = Passage(line=number)
                blocks.append(block)
            block.commands.append(line)
    return blocks


class Played(msgspec.Struct):
    """A scenario that was played: the run, and what the group answered to each block."""

    path: Path
    run: Run
    blocks: list[Passage]
    answers: list[list[str]]

    def conversation(self) -> str:
        """Commands and answers in the format of scenario files."""
        pairs = zip(self.blocks, self.answers, strict=True)
        return "\n\n".join("\n".join(_with_answer(block, answer)) for block, answer in pairs) + "\n"

    def surprise(self) -> str | None:
        """The first answer that is not the one written in the file, if any."""
        for block, came in zip(self.blocks, self.answers, strict=True):
            for position, wanted in enumerate(block.answer or ()):
                answer = came[position] if position < len(came) else "nothing"
                if answer != wanted:
                    line = block.line + len(block.commands) + 1 + position
                    return f"{self.path}:{line}: expected {wanted!r}, but the group says {answer!r}"
            if block.answer is not None and len(came) > len(block.answer):
                line = block.line + len(block.commands)
                return f"{self.path}:{line}: the group also says {came[len(block.answer)]!r}"
        return None


def _with_answer(block: Passage, answer: list[str]) -> list[str]:
    return [*block.commands, "----", *answer] if answer else block.commands


def play_scenario(path: Path) -> Played:
    """Play a scenario file from its first line to its last."""
    text = _read(path)
    blocks = parse(text)
    script = Script(run=digest(text.encode())[:8])
    answers = []
    for block in blocks:
        answer: list[str] = []
        for offset, line in enumerate(block.commands):
            try:
                answer += script.command(line)
            except UsageError as fault:
                raise UsageError(f"{path}:{block.line + offset}: {fault}") from None
        answers.append(answer)
    if not script.members:
        raise UsageError(f"{path}: an empty scenario; start it with: group p1 p2 p3")
    return Played(path, script.run(), blocks, answers)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"{path}: no such scenario file") from None
    except OSError as fault:
        raise UsageError(f"{path}: {fault.strerror}") from None
    except UnicodeDecodeError as fault:
        raise DataError(f"{path}: not a scenario: no UTF-8 at byte {fault.start}") from None
