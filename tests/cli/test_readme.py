"""The README is a promise: what it shows is run, and must come out as shown.

All guides together stay short, can be found from the index, and link to what exists.
"""

import re
from pathlib import Path

import pytest

from consoles import WHOLE, parts
from guides import GUIDES, README, ROOT, blocks, commands, pieces, shows, slugs
from tidings.testkit.fleet import free_ports


def verb(name: str) -> str:
    """What the Makefile runs for a verb."""
    recipe = re.search(rf"^{name}:.*\n\t@\$\(BIN\)/(.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert recipe is not None, f"the Makefile has no verb {name!r}"
    return recipe[1]


LIVE = ("make demo",)
"""Commands that start real processes: no two runs of them are the same."""


def shape(command: str, shown: str) -> str:
    """What must come out as shown: everything, but for what is another at every live run."""
    if command not in LIVE:
        return shown
    shown = re.sub(r"demo-[0-9a-f]{8}", "demo-ID", shown)
    shown = re.sub(r"arrived; .* delivered it", "arrived; SOME delivered it", shown)
    return re.sub(r" +", " ", re.sub(r"(?<!\bp)\d[\d,]*", "N", shown))


@pytest.mark.usefixtures("spark")
def test_the_readme_shows_what_the_commands_print(tidings, request) -> None:
    rewritten = README.read_text()
    ran = 0
    for command, output in commands(rewritten):
        if command.startswith("make "):
            command_run = verb(command.removeprefix("make "))
        else:
            command_run = command
        if command_run.startswith("cat "):
            Path(command_run.removeprefix("cat ")).write_text(output)
        elif command_run.startswith("tidings "):
            answer = tidings(*command_run.split()[1:])
            ran += 1
            shown = "\n".join(line.rstrip() for line in answer.out.splitlines()) + "\n"
            if shape(command, shown) == shape(command, output):
                continue
            assert request.config.getoption("--rewrite"), f"{command}\n{shown}"
            rewritten = rewritten.replace(f"$ {command}\n{output}", f"$ {command}\n{shown}")
        else:
            assert command_run == "pytest -n 2 --dist loadgroup", f"cannot check {command!r}"
    if request.config.getoption("--rewrite"):
        README.write_text(rewritten)
    assert ran == 2


def test_the_python_of_the_readme_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = README.read_text()
    (group,) = blocks(text, "toml")
    for shown, free in zip(("7001", "7002", "7003"), free_ports(3), strict=True):
        group = group.replace(shown, str(free))
    (tmp_path / "group.toml").write_text(group)
    monkeypatch.chdir(tmp_path)
    pairs = list(zip(blocks(text, "python"), blocks(text, "text"), strict=True))
    assert len(pairs) == 2
    for code, output in pairs:
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
        assert capsys.readouterr().out == output


# --- all guides


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, _, anchor in re.findall(r"\]\(([^)#\s]*)(#([^)\s]+))?\)", page.read_text()):
        there = page.parent / target if target else page
        assert there.exists(), f"{page.name} -> {target}"
        if anchor:
            assert anchor in slugs(there.read_text()), f"{page.name} -> {target}#{anchor}"


def test_what_a_guide_leaves_out_must_be_there_and_the_rest_must_fit() -> None:
    assert shows("a\n...\nd\n", "a\nb\nc\nd\n")
    assert not shows("a\n...\nd\n", "a\nd\n")
    assert not shows("a\n...\nd\n", "a\nb\nc\n")


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_what_a_guide_leaves_out_is_known_whole(page: Path) -> None:
    outputs = WHOLE / f"{page.stem}.txt"
    whole = parts(outputs.read_text()) if outputs.exists() else []
    shown = [one for one in commands(page.read_text()) if len(pieces(one[1])) > 1]
    assert [command for command, _ in shown] == [command for command, _ in whole]
    for (_, some), (command, output) in zip(shown, whole, strict=True):
        assert shows(some, output), command


def test_the_guides_stay_short() -> None:
    assert len(README.read_text().splitlines()) <= 200
    words = {page.name: len(page.read_text().split()) for page in GUIDES if page != README}
    assert sum(words.values()) <= 28_600, words


def test_the_index_gives_every_guide_to_one_reader() -> None:
    index = ROOT / "docs" / "README.md"
    listed = re.findall(r"\| \[.*\]\(([\w-]+\.md)\) \|", index.read_text())
    there = [page.name for page in (ROOT / "docs").glob("*.md") if page != index]
    assert sorted(listed) == sorted(there)
    assert "(docs/README.md)" in README.read_text()


def test_the_scenario_in_the_documentation_is_answered_as_written(tidings, tmp_path) -> None:
    (example,) = blocks((ROOT / "docs" / "simulate.md").read_text(), "scenario")
    (tmp_path / "example.txt").write_text(example)
    answer = tidings("simulate", "example.txt")
    assert answer.status == 0, answer.err


def test_every_column_and_kind_is_documented() -> None:
    from tidings.trace.manifest import Manifest
    from tidings.trace.schema import COLUMNS, KINDS

    text = (ROOT / "docs" / "trace-format.md").read_text()
    for word in (*COLUMNS, *KINDS, *Manifest.__struct_fields__):
        assert f"`{word}`" in text, word
