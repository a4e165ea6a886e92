"""Groups on loopback for tests: their files, their members, the verdicts on their traces."""

import asyncio
import atexit
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import tidings
from tidings.core import Message
from tidings.node.authority import Authority
from tidings.node.config import Config, read_config
from tidings.node.group import Group
from tidings.node.wire import Hello
from tidings.spec import Value, judge
from tidings.testkit.fleet import free_ports as free_ports
from tidings.trace import Run, read_runs
from tidings.trace.segments import settle

Members = dict[str, Group]
NAME = "chat"
MEMORY = ("durable = false", "trace.on = false")
"""Settings of a group that leaves nothing on disk."""
DEADLINE_S = 120
"""Of any test: long enough for a busy machine, so that only what hangs fails by it."""


def group_file(
    folder: Path, size: int = 3, *lines: str, tls: bool = False, newcomers: tuple[str, ...] = ()
) -> Config:
    """A group of p1 to pN; the lines are settings like ``limits.window = 5``.

    Newcomers are not in the file, and have certificates.
    """
    names = [f"p{number}" for number in range(1, size + 1)]
    addresses = zip(names, free_ports(size), strict=True)
    text = [
        f'name = "{NAME}"',
        f'tls.folder = "{certificates(size, *newcomers)}"' if tls else "tls.plain = true",
        "links.back_off_ms_min = 5",
        "links.back_off_ms_max = 50",
        *lines,
        "[members]",
        *(f'{name} = "127.0.0.1:{port}"' for name, port in addresses),
    ]
    path = folder / "group.toml"
    path.write_text("\n".join(text))
    return read_config(path)


@cache
def certificates(size: int, *newcomers: str) -> Path:
    """Certificates of such a group, made once for all tests that do not change them."""
    folder = Path(tempfile.mkdtemp(prefix="tidings-certs-"))
    atexit.register(shutil.rmtree, folder)
    authority = Authority.found(folder / "authority", NAME)
    for member in (*(f"p{number}" for number in range(1, size + 1)), *newcomers):
        authority.issue(NAME, member, folder / "certs" / member)
    return folder / "certs"


def hello_of(config: Config, name: str, to: str) -> Hello:
    about = (config.name, config.members, config.protocol, config.options, config.alike())
    return Hello(name, to, *about, incarnation=77, session=4711)


def go(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end, or fail: nothing in a test waits for ever."""
    return asyncio.run(asyncio.wait_for(coroutine, DEADLINE_S))


@asynccontextmanager
async def joined(config: Config, *names: str, **options: Any) -> AsyncIterator[Members]:
    """These members, or all, in one process."""
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(tidings.join(name, config, **options))
            for name in names or config.members
        }


async def until(is_so: Callable[[], bool], every_s: float = 0.001) -> None:
    """Wait for a condition; the deadline is the test's."""
    while not is_so():
        await asyncio.sleep(every_s)


async def linked(groups: Members) -> None:
    """Wait until all of these are linked with each other."""
    names = set(groups)
    await until(
        lambda: all(names - {one} <= set(group.status().linked) for one, group in groups.items())
    )


async def everywhere_delivered(groups: Members, upto: dict[str, int]) -> None:
    """Wait until all of these have delivered so many of each origin in this life."""
    await until(lambda: all(group.status().delivered == upto for group in groups.values()))


async def take(group: Group, count: int) -> list[Message]:
    return [await anext(group) for _ in range(count)]


def traced(config: Config, up: Iterable[str] = (), crashed: Iterable[str] = ()) -> Run:
    """What the members wrote, with the runner's last word."""
    settle(config.trace_folder, config.name, up or config.members, time.time_ns())
    part = f'{{"schema": 1, "run": "{config.name}", "fates": {{%s}}}}'
    fates = ", ".join(f'"{name}": "crashed"' for name in crashed)
    (config.trace_folder / "runner.manifest.jsonl").write_text(part % fates)
    (run,) = read_runs(config.trace_folder)
    return run


def assert_all_hold(run: Run) -> None:
    """The five guarantees, and that there was something to judge."""
    for verdict in judge(run):
        first = verdict.violations[:1] or verdict.reason
        assert verdict.value is Value.HOLDS, f"{verdict.guarantee}: {verdict.violated}, {first}"
        assert verdict.judged, verdict.guarantee
