"""Consoles: what commands print, whole, as their users see it."""

from pathlib import Path

import pytest

from consoles import FOLDER, played

CONSOLES = sorted(FOLDER.glob("*.txt"))


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("path", CONSOLES, ids=lambda path: path.stem)
def test_the_commands_print_what_the_console_shows(
    path: Path, tidings, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    came = played(path.read_text(), tidings, capsys)
    if request.config.getoption("--rewrite"):
        path.write_text(came)
    way_out = f"if it is right now: .venv/bin/pytest {__file__} -k {path.stem} --rewrite"
    assert came == path.read_text(), way_out
