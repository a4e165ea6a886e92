"""Programs that tests run as anybody would: started, typed to, listened to, killed."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from real_groups import until

TIDINGS = str(Path(sys.executable).with_name("tidings"))
WITH_SIGINT_IGNORED = ("sh", "-c", "trap '' INT; exec \"$@\"", "sh")
"""In front of a command: it starts as a background job of a script without job control does."""


class Program:
    """A command under way: what it has said, and a way to type."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.out: list[str] = []
        self.err: list[str] = []
        assert process.stdout is not None
        assert process.stderr is not None
        self.reading = [
            asyncio.create_task(self._read(process.stdout, self.out)),
            asyncio.create_task(self._read(process.stderr, self.err)),
        ]

    async def _read(self, stream: asyncio.StreamReader, lines: list[str]) -> None:
        async for line in stream:
            if line.endswith(b"\n"):  # who is killed may leave a part of one
                lines.append(line.decode().rstrip("\n"))

    def type(self, line: str | bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write((line if isinstance(line, bytes) else line.encode()) + b"\n")

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def says(self, line: str, times: int = 1) -> None:
        await until(lambda: self.out.count(line) >= times or self.has_ended, every_s=0.01)
        assert self.out.count(line) >= times, f"it ended without {line!r}: {self.out}, {self.err}"

    @property
    def has_ended(self) -> bool:
        return all(task.done() for task in self.reading)

    async def ends(self) -> int:
        status = await self.process.wait()
        await asyncio.wait(self.reading)
        return status


@asynccontextmanager
async def running(folder: Path, *command: str) -> AsyncIterator[Program]:
    """A command in this folder; whatever is left of it in the end is killed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    started = Program(process)
    try:
        yield started
    finally:
        if process.returncode is None:
            process.kill()
        await started.ends()
