"""Settings that are changed anywhere and arrive everywhere, also where a service was down.

    tidings group web worker mail
    python examples/settings.py web

and the same for worker and mail, each in a terminal of its own. Type ``colour = blue`` in any of
them: all three print it and keep it, in web.json, worker.json and mail.json, and the first says
when everybody has it. Who is down, or killed with ``kill -9``, gets what it missed when it is back.

Two members may change one setting at the same time. Each change has a version, one more than its
author had seen: so whoever knew of another change overrules it. Between two that did not know of
each other their names decide, and everywhere alike.
"""

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path

import tidings


class Settings:
    """Each with the change that made it: its version, its author, and the author's count."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.table = json.loads(path.read_text()) if path.exists() else {}

    def change(self, key: str, value: str) -> bytes:
        """What is broadcast to change a setting."""
        (version, *_), _ = self.table.get(key, ((0,), ""))
        return json.dumps([key, value, version + 1]).encode()

    def apply(self, message: tidings.Message) -> None:
        """A change that comes again, after a restart, changes nothing: so nobody has to look."""
        key, value, version = json.loads(message.text)
        stamp = [version, *message.id]
        if stamp > self.table.get(key, ([0], ""))[0]:
            self.table[key] = stamp, value
            draft = self.path.with_suffix(".draft")
            draft.write_text(json.dumps(self.table))
            draft.replace(self.path)
            print(f"{key} = {value}", flush=True)


async def listen(group: tidings.Group, settings: Settings) -> None:
    async for message in group:
        settings.apply(message)


async def report(receipt: tidings.Receipt, line: str) -> None:
    with suppress(tidings.Closed):  # we have left before everybody had it; everybody will
        await receipt.stable()
        print(f"everybody has: {line}", flush=True)


async def main(name: str) -> None:
    settings = Settings(Path(f"{name}.json"))
    async with asyncio.TaskGroup() as tasks, tidings.join(name, "group.toml") as group:
        tasks.create_task(listen(group, settings))
        async for line in tidings.lines(sys.stdin.buffer):
            key, is_change, value = (part.strip() for part in line.decode().partition("="))
            if is_change:
                receipt = await group.broadcast(settings.change(key, value))
                tasks.create_task(report(receipt, f"{key} = {value}"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: python examples/settings.py NAME", file=sys.stderr)
        sys.exit(64)
    with suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1]))
