"""docs/node.md is tried: its terminals, its programs, its tables."""

import importlib
import pkgutil
import re
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import generate_latest

import tidings
import tidings.node
from programs import TIDINGS, Program, running
from real_groups import assert_all_hold, free_ports, go, group_file, joined, until
from tidings.core import DataError
from tidings.node.condition import Status
from tidings.node.config import (
    GIB,
    KIB,
    MIB,
    GroupFile,
    Tls,
    new_group_file,
    parse_config,
    read_config,
)
from tidings.node.group import join
from tidings.node.ledger import Receipt
from tidings.node.metrics import Metrics
from tidings.trace import read_runs

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "node.md").read_text()
WORDS = " ".join(GUIDE.split())


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def table(first_cell: str) -> list[list[str]]:
    """The rows of the table whose head begins with this, as cells."""
    _, _, rest = GUIDE.partition(f"\n{first_cell} |")
    rows = re.match(r".*\n[-|]+\n((?:.+\|.*\n)+)", rest)
    assert rows is not None, f"there is no table of {first_cell}"
    lines = rows[1].replace(r"\|", "/").splitlines()
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


# --- the terminals and the programs


def test_the_guide_goes_as_written(tmp_path: Path, tidings: Any) -> None:
    made, alone, together, settled = blocks("console")
    hello, _, _, patient, _ = blocks("python")
    shown = WORDS.partition("With nobody else up it prints `")[2].partition("`")[0]
    prints = WORDS.partition("It prints `")[2].partition("`")[0]

    async def scenario() -> None:
        command, *lines = alone.splitlines()
        async with running(tmp_path, TIDINGS, *command.split()[2:]) as alice:
            typed = lines.index("hello")
            for line in lines[:typed]:
                await alice.says(line)
            alice.type("hello")
            for line in lines[typed + 1 :]:
                await alice.says(line)
            async with running(tmp_path, TIDINGS, "chat", "bob") as bob:
                for line in together.splitlines()[:2]:
                    await alice.says(line)
                async with running(tmp_path, TIDINGS, "chat", "carol") as carol:
                    for line in together.splitlines()[2:]:
                        await alice.says(line)
                    bob.type("hello yourself")
                    carol.type("hello both")
                    for one in (alice, bob, carol):
                        await one.says("carol: hello both")
                    carol.process.kill()
                    await carol.ends()
                bob.type("where is carol?")
                await alice.says("bob: where is carol?")
                async with running(tmp_path, TIDINGS, "chat", "carol") as carol:
                    await carol.says("bob: where is carol?")
                    assert "alice: hello" not in carol.out, "it comes twice"
                    alice.type("/quit")
                    assert await alice.ends() == 0
                    await run_hello(carol)
                    for one in (bob, carol):
                        one.close_input()
                        assert await one.ends() == 0, one.err
        async with running(tmp_path, sys.executable, "-c", patient) as program:
            assert await program.ends() == 0, program.err
            assert program.out == [shown]
        async with joined(read_config(tmp_path / "group.toml")) as groups:
            await until(
                lambda: all(one.status().delivered["alice"] == 2 for one in groups.values())
            )

    async def run_hello(carol: Program) -> None:
        async with running(tmp_path, sys.executable, "-u", "-c", hello) as program:
            await program.says(prints)
            carol.type("hello, Python")
            await program.says("carol#2 hello, Python")
            program.process.send_signal(signal.SIGINT)
            await program.ends()

    command, output = made.split("\n", maxsplit=1)
    (port,) = free_ports(1)
    answer = tidings(*command.split()[2:], "--port", str(port))
    assert re.sub(r":\d+", ":", answer.out) == re.sub(r":\d+", ":", output)
    go(scenario())
    command, output = settled.split("\n", maxsplit=1)
    assert tidings(*command.split()[2:]).out == output
    (run,) = read_runs(tmp_path / "trace")
    assert_all_hold(run)


def test_the_sample_of_a_group_file_is_what_tidings_group_writes() -> None:
    (sample,) = blocks("toml")
    ports = {"alice": 7001, "bob": 7002, "carol": 7003}
    addresses = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    assert sample == new_group_file("group", addresses)
    complaint = WORDS.partition("reported with its line, as in `")[2].partition("`")[0]
    with pytest.raises(DataError, match=re.escape(complaint)):
        parse_config(sample.replace("127.0.0.1:7001", "7001"), Path("group.toml"))


# --- the tables


def settings(kind: type[msgspec.Struct] = GroupFile, prefix: str = "") -> dict[str, Any]:
    """Every setting that a group file may have, with its type and its default."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        name = prefix + field.name
        kind = Tls if field.name == "tls" else field.type  # which must be there, and has defaults
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            found |= settings(kind, f"{name}.")
        else:
            found[name] = field
    return found


def in_words(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int):
        units = ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))
        fits = (f"{value // unit} {name}" for unit, name in units if value and value % unit == 0)
        return next(fits, f"{value:,}")
    if isinstance(value, str):
        return f"`{value}`"
    return "" if value is msgspec.NODEFAULT else "none"


def default_of(field: Any) -> Any:
    made = field.default_factory
    return made() if made is not msgspec.NODEFAULT else field.default


def test_every_setting_is_in_the_table_with_its_default_and_its_limit() -> None:
    rows = {names_in(name)[0]: (default, least) for name, default, least, _ in table("setting")}
    expected = {name: in_words(default_of(field)) for name, field in settings().items()}
    assert {name: default for name, (default, _) in rows.items()} == expected
    for name, field in settings().items():
        meta = getattr(field.type, "__metadata__", ())
        least = rows[name][1]
        if meta and least.isdigit():
            assert meta[0].ge == int(least), name


def test_what_the_api_offers_is_in_the_tables() -> None:
    documented = {name for row in table("`status()`") for name in names_in(row[0])}
    assert documented == set(Status.__struct_fields__)
    arguments = [names_in(row[0])[0] for row in table("argument of `join`")]
    assert arguments == list(join.__kwdefaults__ or {})


def test_a_group_offers_what_the_guide_says_and_nothing_else(tmp_path: Path) -> None:
    calls = " ".join(row[0] for row in table("call"))
    group = join("p1", group_file(tmp_path))
    for kind, one in (("group", group), ("receipt", Receipt)):
        offered = {name for name in dir(one) if not name.startswith("_")}
        assert offered == set(re.findall(rf"\b{kind}\.(\w+)", calls)), kind
        for name in offered:
            is_call = callable(getattr(type(one) if one is group else one, name))
            assert f"{kind}.{name}{'(' * is_call}" in calls, name


def test_the_config_in_code_is_that_of_the_sample() -> None:
    (sample,), *_, program = blocks("toml"), *blocks("python")
    made, joining = program.split("with ")
    space: dict[str, Any] = {}
    exec(made, space)
    assert space["config"] == parse_config(sample, Path("group.toml"))
    compile(f"with {joining}", "node.md", "exec")


def test_every_error_is_in_the_table_and_can_be_caught() -> None:
    documented = {name for row in table("error") for name in names_in(row[0])}
    exported = {
        name
        for name in tidings.__all__
        if isinstance(getattr(tidings, name), type)
        and issubclass(getattr(tidings, name), tidings.TidingsError)
    }
    assert documented == exported - {"TidingsError"}
    assert all(all(row) for row in table("error")), "when, and what to do"


def test_every_error_of_a_member_is_exported() -> None:
    """But those that never leave the node: a peer's, an operator's, a terminal's."""
    for module in pkgutil.walk_packages(tidings.node.__path__, "tidings.node."):
        importlib.import_module(module.name)
    inside = {"WireFault", "HttpFault", "TooMany", "Broken", "Unsaid"}
    found = {
        one.__name__
        for one in below(tidings.TidingsError)
        if one.__module__.startswith("tidings.node.")
    }
    assert found - inside == found & set(tidings.__all__)


def below(kind: type) -> list[type]:
    return [one for near in kind.__subclasses__() for one in (near, *below(near))]


def test_every_line_of_the_log_is_in_the_table() -> None:
    documented = {name for row in table("event") for name in names_in(row[0])}
    call = re.compile(r"log(?:ger)?(?:\.(?:info|warning|error))?\(\s*\"([^\"]+)\"")
    places = [*(ROOT / "src/tidings/node").glob("*.py"), ROOT / "src/tidings/cli/node.py"]
    assert {event for path in places for event in call.findall(path.read_text())} == documented


def test_every_metric_is_in_the_table(tmp_path: Path) -> None:
    documented = {name for row in table("metric") for name in names_in(row[0])}

    async def scenario() -> str:
        async with joined(group_file(tmp_path, 2)) as groups:
            return generate_latest(Metrics(groups["p1"]._member).registry).decode()

    text = go(scenario())
    exposed = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    waiting = re.findall(r"^# HELP tidings_waiting (.*)\.$", text, re.MULTILINE)
    (described,) = (cell for names, cell in table("metric") if "tidings_waiting" in names)
    assert [words.lower() for words in waiting] == described.split("; ")[:1]
    assert {name for name in exposed if not name.endswith("_created")} == documented
