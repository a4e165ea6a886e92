"""docs/security.md is true: every test that it names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "security.md").read_text()
NAMED = re.findall(r"`((?:tests/\w+/)?test_\w+\.py)(?:: (test_\w+))?`", GUIDE)


def test_every_test_that_the_page_names_exists() -> None:
    assert len(NAMED) > 12
    for file, name in NAMED:
        path = ROOT / file if "/" in file else ROOT / "tests/security" / file
        assert f"def {name}(" in path.read_text() if name else path.exists(), (file, name)


def test_every_reason_that_is_counted_is_in_the_guide() -> None:
    """The words of a refusal differ; what the metrics call it does not."""
    guide = (ROOT / "docs" / "node.md").read_text()
    (row,) = (line for line in guide.splitlines() if line.startswith("`tidings_refused_total`"))
    documented = set(re.findall(r"`(\w+)`", row.partition("by `reason`")[2]))
    sources = "".join(path.read_text() for path in (ROOT / "src/tidings/node").glob("*.py"))
    used = set(
        re.findall(r"(?:WireFault|Refusal)\([^()]*(?:\([^()]*\)[^()]*)*, \"(\w+)\"\)", sources)
    )
    used |= set(re.findall(r"refused\[\"(\w+)\"\]", sources))
    assert used <= documented, used - documented
    assert len(used) > 6
