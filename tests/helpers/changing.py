"""Groups of views on loopback, for tests that change them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import tidings
from real_groups import free_ports
from tidings.node.config import Config
from tidings.node.group import Group

VIEWS = 'protocol = "views"'


@asynccontextmanager
async def newcomer(config: Config, name: str, **options: Any) -> AsyncIterator[tuple[Group, str]]:
    """Somebody that waits to be added, and where it is."""
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    async with tidings.join(name, config, address=address, **options) as group:
        yield group, address


async def speak(group: Group, is_over: asyncio.Event) -> int:
    """Broadcast until it is over, and until all of it is stable; how many that are."""
    count = 0
    while not is_over.is_set():
        receipt = await group.broadcast(b"x" * 100)
        count += 1
        if count % 10 == 0:
            await asyncio.sleep(0)
    await receipt.stable()
    return count
