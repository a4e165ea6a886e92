"""docs/ARCHITECTURE.md leads to the code: what it names is there, under that name."""

import ast
import re

import pytest

from guides import ROOT

PAGE = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
SOURCES = ROOT / "src" / "tidings"
PLACE = re.compile(r"`([\w/]+\.py)` \| `([\w.]+)`|`([\w.]+)` in `([\w/]+\.py)`")
"""A row with a file and what it defines, or the same in a sentence, the other way round."""


def places(page: str) -> list[tuple[str, str]]:
    found = PLACE.findall(page)
    return [
        (file or other_file, name or other_name) for file, name, other_name, other_file in found
    ]


def defined_in(file: str) -> set[str]:
    """The functions and classes of a file; methods as ``Class.method``."""
    names = set()
    for node in ast.parse((SOURCES / file).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = (
                one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            )
            names |= {f"{node.name}.{one.name}" for one in inner}
    return names


def misnamed(page: str) -> list[str]:
    """What the page names and the sources do not have."""
    files = {path for path in re.findall(r"`([\w/]+\.py|[\w/]+/)`", page) if "/" in path}
    lost = [path for path in files if not any((at / path).exists() for at in (SOURCES, ROOT))]
    named = [(file, name) for file, name in places(page) if file not in lost]
    return sorted(
        [*lost, *(f"{file}: {name}" for file, name in named if name not in defined_in(file))]
    )


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_every_file_and_every_function_that_the_page_names_exists() -> None:
    assert misnamed(PAGE) == []
    assert len(places(section("Four questions"))) >= 4
    hops = [line for line in section("The way of a text").splitlines() if re.match(r"\d+ \|", line)]
    assert len(places("\n".join(hops))) == len(hops) >= 10


def test_what_a_member_says_when_its_disk_is_full_is_quoted_as_it_is() -> None:
    ((file, words),) = re.findall(r"is full\? \| `(.+?)` .*No space left on device; (.+?)`", PAGE)
    assert words in (SOURCES / file).read_text()


@pytest.mark.parametrize(
    ("named", "misspelt"),
    [
        ("`Knowledge.count`", "`Knowledge.counts`"),
        ("`Group.broadcast`", "`Grop.broadcast`"),
        ("`Engine.fail`", "`Engine.fails`"),
        ("`node/log/reader.py`", "`node/log/readers.py`"),
        ("`spec/guarantees.py`", "`spec/guarantee.py`"),
    ],
)
def test_a_misspelt_name_is_noticed(named: str, misspelt: str) -> None:
    assert named in PAGE
    assert misnamed(PAGE.replace(named, misspelt)) != []


def test_every_package_has_its_question() -> None:
    packages = {path.parent.name for path in SOURCES.glob("*/__init__.py")} | {"compare"}
    rows = PAGE.partition("\n---|---\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", rows.replace("`World`", ""))) == packages


def test_examples_import_only_the_public_api() -> None:
    """``tidings`` for programs, ``tidings.core`` for processes; nothing below."""
    files = [*(ROOT / "examples").rglob("*.py")]
    imported = {
        str(name)
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
        )
    }
    ours = {name for name in imported if name.split(".")[0] == "tidings"}
    assert ours == {"tidings", "tidings.core"}
