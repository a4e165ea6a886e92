"""The README is a promise: what it shows is run, and must come out as shown."""

import re
from pathlib import Path

import pytest

from tidings.testkit.fleet import free_ports

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCK.findall(README.read_text()) if name == language]


def commands() -> list[tuple[str, str]]:
    """Every ``$ command`` of the README with the output written under it."""
    found = []
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


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


def test_the_readme_shows_what_the_commands_print(tidings, request) -> None:
    rewritten = README.read_text()
    ran = 0
    for command, output in commands():
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
    assert ran >= 5


def test_the_python_of_the_readme_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (group,) = blocks("toml")
    for shown, free in zip(("7001", "7002", "7003"), free_ports(3), strict=True):
        group = group.replace(shown, str(free))
    (tmp_path / "group.toml").write_text(group)
    monkeypatch.chdir(tmp_path)
    pairs = list(zip(blocks("python"), blocks("text"), strict=True))
    assert len(pairs) == 3
    for code, output in pairs:
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
        assert capsys.readouterr().out == output


def test_links_lead_somewhere() -> None:
    for page in [README, ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} -> {target}"


def test_the_scenario_in_the_documentation_is_answered_as_written(tidings, tmp_path) -> None:
    text = (ROOT / "docs" / "scenarios.md").read_text()
    example = "\n".join(line[4:] for line in text.splitlines() if re.match(r" {4}|$", line))
    (tmp_path / "example.txt").write_text(example.strip() + "\n")
    answer = tidings("simulate", "example.txt")
    assert answer.status == 0, answer.err


def test_every_column_and_kind_is_documented() -> None:
    from tidings.trace.manifest import Manifest
    from tidings.trace.schema import COLUMNS, KINDS

    text = (ROOT / "docs" / "trace-format.md").read_text()
    for word in (*COLUMNS, *KINDS, *Manifest.__struct_fields__):
        assert f"`{word}`" in text, word
