"""What the guides show and say, so that tests can try it."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from consoles import WHOLE, in_lines, parts, without_progress

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
GUIDES = sorted([README, ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[tuple[str, str]]:
    """Every ``$ command`` of a guide with the output written under it."""
    return [part for block in blocks(text, "console") for part in parts(block)]


def shows(shown: str, came: str) -> bool:
    """Whether a guide shows what came; a line of three dots stands for lines left out."""
    return re.fullmatch(r"(?:.*\n)+".join(map(re.escape, pieces(shown))), came) is not None


def pieces(shown: str) -> list[str]:
    """What stands between the lines of three dots."""
    return re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)


def play(guide: Path, tidings: Callable[..., Any], *, rewrite: bool) -> list[tuple[str, int]]:
    """Run the commands of a guide in their order: which there were, and how each ended.

    Every command prints what the guide shows under it. Where the guide leaves lines out, the
    whole output stands under the same command in a file of tests/consoles/whole, and is compared
    to the letter.
    """
    text, ran = guide.read_text(), []
    whole = WHOLE / f"{guide.stem}.txt"
    outputs = whole.read_text() if whole.exists() else ""
    for command, shown in commands(text):
        program, *words = shlex.split(command)
        if program == "cat":
            Path(*words).write_text(shown)
        elif shown:
            answer = tidings(*words)
            came = in_lines(answer.out) + without_progress(answer.err)
            if not shows(shown, came):
                assert rewrite, f"{command}\n{came}"
                text = text.replace(f"$ {command}\n{shown}", f"$ {command}\n{came}")
            if len(pieces(shown)) > 1:
                known = dict(parts(outputs))[command]
                if rewrite:
                    outputs = outputs.replace(f"$ {command}\n{known}", f"$ {command}\n{came}")
                else:
                    assert came == known, command
            ran.append((words[0], answer.status))
    if rewrite:
        guide.write_text(text)
        if outputs:
            whole.write_text(outputs)
    return ran


def columns_in(section: str) -> dict[str, str]:
    """The columns of a table and their types, as ``- `run`, `process` (string): where``."""
    return {
        column: kind
        for columns, kind in re.findall(r"^- (`[^(]+) \((\w+)\)", section, re.MULTILINE)
        for column in re.findall(r"`(\w+)`", columns)
    }


def slugs(text: str) -> set[str]:
    """The anchors of a page: its headings as GitHub links to them."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}
