"""One member as a program of its own, to be killed: ``python member.py p1 group.toml``.

It broadcasts what it is told to on standard input (``say 5 hello``: five texts) and prints what
happens to it, a line each:

    ready            it has joined
    sent p1#4        a receipt said delivered
    got p2#7 hello   a message was handed over
    again p2#7 hello the same after a restart

At the end of its input it leaves.
"""

import asyncio
import sys

import tidings
from tidings.node.group import Group, Replayed
from tidings.node.ledger import Receipt


def tell(*words: object) -> None:
    print(*words, flush=True)


async def report(receipts: "asyncio.Queue[Receipt]") -> None:
    while True:
        receipt = await receipts.get()
        tell("sent", await receipt.delivered())


async def read(group: Group) -> None:
    async for message in group:
        word = "again" if isinstance(message, Replayed) else "got"
        tell(word, message.id, message.text.decode())


async def obey(group: Group, receipts: "asyncio.Queue[Receipt]") -> None:
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    async for line in commands:
        _, count, text = line.decode().rstrip("\n").split(" ", 2)
        for _ in range(int(count)):
            receipts.put_nowait(await group.broadcast(text.encode()))


async def main(name: str, path: str) -> None:
    receipts: asyncio.Queue[Receipt] = asyncio.Queue()
    async with tidings.join(name, path) as group:
        tell("ready")
        tasks = [asyncio.create_task(report(receipts)), asyncio.create_task(read(group))]
        await obey(group, receipts)
        for task in tasks:
            task.cancel()


asyncio.run(main(*sys.argv[1:]))
