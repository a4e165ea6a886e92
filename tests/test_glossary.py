"""make lint refuses identifiers that the glossary rules out; here is what it refuses."""

import ast
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

FILE = Path(__file__).parents[1] / ".ci" / "glossary.py"
SPEC = spec_from_file_location("glossary", FILE)
assert SPEC is not None
assert SPEC.loader is not None
glossary = module_from_spec(SPEC)
SPEC.loader.exec_module(glossary)

PAGE = """
thing | word | not
---|---|---
by name: `p1#3..7` | `Span` | **Range**, stretch
the program is done with it | processed | **taken**, "taken to heart"

## Words that are not used at all

**told** (say what it is: `reported`), "one's own" in names.
"""
FORBIDDEN = {"Range", "taken", "told"}


def test_the_words_in_bold_are_ruled_out() -> None:
    assert glossary.ruled_out(PAGE) == FORBIDDEN


@pytest.mark.parametrize(
    "line",
    [
        "told = 1",
        "_was_told: int = 1",
        "self.taken = 1",
        "def told_so(): ...",
        "async def is_taken(): ...",
        "class _Range: ...",
        "def f(told): ...",
        "def f(*, told=1): ...",
        "from elsewhere import reported as told",
        "for told in (): ...",
        "lambda taken: 1",
        "[told for told in ()]",
        "with open('x') as told: ...",
        "(told := 1)",
    ],
)
def test_a_name_with_such_a_word_is_refused(line: str) -> None:
    assert _found(line)


@pytest.mark.parametrize(
    "line",
    [
        "untold = mistaken = 1",
        "elsewhere.told()",
        "class RangeOfPorts: ...",
        "for number in range(3): ...",
        '"told and taken"',
    ],
)
def test_other_names_are_not(line: str) -> None:
    assert not _found(line)


def _found(line: str) -> set[str]:
    words = [glossary.words_of(name) for name, _ in glossary.identifiers(ast.parse(line))]
    return set().union(*words) & FORBIDDEN
