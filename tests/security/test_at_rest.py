"""What is on disk: for its owner alone, without a key where none belongs, and never a program."""

import pickle
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from real_groups import everywhere_delivered, go, group_file, joined, linked
from strangers import shout
from tidings.core import DataError
from tidings.node.config import read_config
from tidings.node.identity import Identity
from tidings.node.wire import GREETING, Kind, framed

ROOT = Path(__file__).parents[2]
SPARK = ("pipeline/spark/workers.py", "pipeline/spark/exchange.py", "pipeline/local.py")
"""Where a judge hands objects to its own workers, and nobody else can put any."""


def test_folders_are_for_their_owner_alone(tmp_path: Path, tidings: Any) -> None:
    assert tidings("group", "p1", "p2").status == 0
    config = read_config(tmp_path / "group.toml")

    async def scenario() -> None:
        async with joined(config, listen=False, founding=True) as groups:
            await linked(groups)
            await (await groups["p1"].broadcast(b"hello")).delivered()
            await everywhere_delivered(groups, {"p1": 1})

    go(scenario())
    folders = [tmp_path / name for name in ("data", "data/p1", "trace", "certs", "certs/p1")]
    folders += [tmp_path / "authority"]
    for folder in folders:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
    keys = sorted(tmp_path.rglob("key.pem"))
    assert len(keys) == 3
    assert all(stat.S_IMODE(key.stat().st_mode) == 0o600 for key in keys)


def test_keys_are_nowhere_else(
    tmp_path: Path, tidings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in a log, a trace, an error or any answer of a command."""
    caplog.set_level("DEBUG")
    answers = [tidings("group", "p1", "p2")]
    config = read_config(tmp_path / "group.toml")

    async def scenario() -> None:
        async with joined(config, listen=False, founding=True) as groups:
            await linked(groups)

    go(scenario())
    answers += [
        tidings("certs", "show", "--json"),
        tidings("certs", "renew", "p1"),
        tidings("certs", "revoke", "p2"),
    ]
    key = (tmp_path / "certs/p1/key.pem").read_text()
    secrets = [line for line in key.splitlines() if len(line) > 20 and "KEY" not in line]
    assert len(secrets) >= 2
    (tmp_path / "certs/p1/cert.pem").write_text(key)
    with pytest.raises(DataError) as fault:
        Identity(tmp_path / "certs/p1", "group", "p1")
    shown = [*(one.out + one.err for one in answers), *caplog.messages, str(fault.value)]
    elsewhere = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and path.name not in ("key.pem", "cert.pem")
    ]
    shown += [path.read_bytes().decode("latin-1") for path in elsewhere]
    assert not any(secret in words for secret in secrets for words in shown)


def test_no_program_is_read_from_a_file_or_a_network() -> None:
    """Only the judges' own workers exchange pickles."""
    used = re.compile(r"(?m)^\s*(import|from) (pickle|marshal|shelve|dill|cloudpickle)\b")
    sources = ROOT / "src/tidings"
    using = [path for path in sorted(sources.rglob("*.py")) if used.search(path.read_text())]
    assert [str(path.relative_to(sources)) for path in using] == sorted(SPARK)


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("exploded"),))


def test_a_pickle_that_is_sent_or_stored_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bomb = pickle.dumps(Bomb())
    config = group_file(tmp_path, 2)

    async def scenario() -> None:
        async with joined(config, "p1") as groups:
            for data in (bomb, GREETING + bomb, GREETING + framed(Kind.HELLO, 0, bomb)):
                await shout(config, "p1", data, None)
            assert groups["p1"]._member.transport.refused.total() == 3

    go(scenario())
    (log,) = sorted(tmp_path.glob("data/p1/*.log"))
    log.write_bytes(log.read_bytes()[:4] + bomb)
    with pytest.raises(DataError, match=re.escape(str(log))):
        go(scenario())
    assert not Path("exploded").exists()
