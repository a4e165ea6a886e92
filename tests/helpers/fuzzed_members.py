"""A group that is sent nonsense, and what it must keep."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import msgspec

from fuzzing import after_a_hello, before_the_handshake, instead_of_a_hello, shaken
from real_groups import MEMORY, go, group_file, joined, linked
from strangers import Papers, fingerprints, rss_bytes
from tidings.node.config import Config
from tidings.node.errors import Halted

ROUND = 1_000
FOR_REAL = 10
"""One in so many shakes hands before it talks nonsense."""


def endure(papers: Papers, folder: Path, count: int, seed: int) -> Counter[str]:
    """So many inputs, in rounds with a new group each; how many of which kind."""
    patient = ("links.calls_per_s = 1000000", "links.hello_ms = 600000")
    config = group_file(folder, 3, *MEMORY, *patient)
    config = msgspec.structs.replace(config, certificates=papers.certs)
    dice = random.Random(seed)
    done: Counter[str] = Counter()
    while done.total() < count:
        go(_strange(config, papers, dice, done))
        go(_mad(config, papers, dice, done))
    return done


async def _strange(config: Config, papers: Papers, dice: random.Random, done: Counter[str]) -> None:
    """Whoever has not said who it is changes nothing."""
    async with joined(config, "p1", "p3", listen=False, founding=True) as groups:
        await linked(groups)
        p1 = groups["p1"]
        await (await p1.broadcast(b"before")).delivered()
        state, memory = fingerprints([p1]), rss_bytes()
        for number in range(ROUND // 3):
            before_the_handshake(p1, papers, dice)
            name = dice.choice(["p2", "p3"])
            caller = shaken(p1, papers, name, for_real=number % FOR_REAL == 0)
            instead_of_a_hello(caller, config, dice)
            done.update(["before the handshake", "instead of a hello"])
        assert fingerprints([p1]) == state
        assert not p1._member.transport._strangers
        assert rss_bytes() < 1.1 * memory
        await (await p1.broadcast(b"after")).delivered()


async def _mad(config: Config, papers: Papers, dice: random.Random, done: Counter[str]) -> None:
    """What a member says may be true, and even stop another one: but in good order."""
    try:
        async with joined(config, "p1", "p3", listen=False, founding=True) as groups:
            await linked(groups)
            p1 = groups["p1"]
            for number in range(ROUND // 3):
                caller = shaken(p1, papers, "p2", for_real=number % FOR_REAL == 0)
                after_a_hello(caller, config, dice)
                done.update(["after a hello"])
                if number % 10 == 0:
                    await asyncio.sleep(0)
            if p1._member.joined().error is None:
                await (await p1.broadcast(b"after")).delivered()
    except Halted:
        done.update(["a hello that stopped a member"])
