"""A chat of which every member keeps the transcript: complete, nothing twice, no answer too early.

    tidings group alice bob carol
    python examples/chat.py alice

and the same for bob and carol, each in a terminal of its own. What is typed is broadcast; what
anybody says is printed and kept in alice.txt, bob.txt and carol.txt. Kill one with ``kill -9`` in
the middle of it all and start it again: its transcript goes on where it ended, with everything
that was said meanwhile. Nobody ever reads an answer before its question, since a message comes
after everything that its author had read. Ctrl-D leaves.
"""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

import tidings


async def keep(group: tidings.Group, transcript: Path) -> None:
    """Write down every message once.

    Asking for the next one says that the last one is written. Killed in between, we are handed the
    last one again; but it has the same name again, and is found in the transcript.
    """
    transcript.touch()
    kept = {line.split()[0] for line in transcript.read_text().splitlines()}
    with transcript.open("a") as file:
        async for message in group:
            if str(message.id) not in kept:
                line = f"{message.id} {message.text.decode(errors='replace')}"
                print(line, file=file, flush=True)
                print(line, flush=True)


async def main(name: str) -> None:
    async with asyncio.TaskGroup() as tasks, tidings.join(name, "group.toml") as group:
        tasks.create_task(keep(group, Path(f"{name}.txt")))
        async for line in tidings.lines(sys.stdin.buffer):
            await group.broadcast(line)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: python examples/chat.py NAME", file=sys.stderr)
        sys.exit(64)
    with suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1]))
