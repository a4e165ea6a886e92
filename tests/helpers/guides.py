"""What the guides show and say, so that tests can try it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
GUIDES = sorted([README, ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[tuple[str, str]]:
    """Every ``$ command`` of a guide with the output written under it."""
    found = []
    for block in blocks(text, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def shows(shown: str, came: str) -> bool:
    """Whether a guide shows what came; a line of three dots stands for lines left out."""
    parts = re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)
    return re.fullmatch(r"(?:.*\n)+".join(map(re.escape, parts)), came) is not None


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
