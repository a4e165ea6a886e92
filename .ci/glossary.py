"""Refuse identifiers that docs/glossary.md rules out.

Bold words of its third column, and those in bold below its last heading. A word with a capital is
the name of a class; any other is a part of an identifier: ``told`` is found in ``was_told``.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LAST = "## Words that are not used at all"


def ruled_out(page: str) -> set[str]:
    tables, _, last = page.partition(LAST)
    cells = [line.split("|")[2] for line in tables.splitlines() if line.count("|") == 2]
    return set(re.findall(r"\*\*(\w+)\*\*", "\n".join([*cells, last])))


def identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The names that this file gives; names that it only uses are given elsewhere."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(name, ast.Store()) | ast.Attribute(_, name, ast.Store()):
                yield name, node.lineno
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node.lineno
            case ast.ClassDef(name=name) | ast.arg(arg=name) | ast.alias(asname=str(name)):
                yield name, node.lineno


def words_of(identifier: str) -> set[str]:
    """``_was_told`` has the words was and told, and ``Range`` is one word."""
    return {identifier.strip("_"), *identifier.split("_")}


def main() -> int:
    forbidden = ruled_out((ROOT / "docs/glossary.md").read_text(encoding="utf-8"))
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    files = subprocess.check_output(listed, cwd=ROOT, text=True).splitlines()
    found = 0
    for file in files:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        for name, line in identifiers(tree):
            for word in sorted(words_of(name) & forbidden):
                found += 1
                print(f"{file}:{line}: {name}: docs/glossary.md has another word for {word!r}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
