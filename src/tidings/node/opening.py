"""What a member finds on its disk when it starts, and as whom it calls the others."""

import random
import secrets
from collections.abc import Iterable, Sequence

from tidings.core import EnvironmentMissing, MessageId, Process
from tidings.disk.files import InUse
from tidings.node import tracing
from tidings.node.config import NO_LIMIT, Config
from tidings.node.engine import Engine
from tidings.node.log import About, DurableLog, Recovered, open_log
from tidings.node.tracing import Standing, Tracer
from tidings.node.transport import Injecting, Transport
from tidings.node.wire import Codec, Hello
from tidings.protocols.views.records import Installed


def choose(label: str, weights: Sequence[int]) -> int:
    """What a process leaves to chance."""
    return random.choices(range(len(weights)), weights)[0]


def opened_log(
    config: Config, name: str, kind: type, incarnation: int
) -> tuple[DurableLog | None, Recovered | None]:
    if not config.durable:
        return None, None
    trace = config.trace
    is_founding = name in config.members
    members = config.members if is_founding else ()
    address = "" if is_founding else str(config.addresses.get(name, ""))
    about = (config.name, name, members, config.protocol, trace.on, trace.digest, address)
    try:
        return open_log(config.data / name, About(*about), kind, incarnation, config.limits)
    except InUse as held:
        words = f"{name} runs already: {held.path} is held by process {held.owner}"
        raise EnvironmentMissing(words) from None


def has_a_view(records: Iterable[object] | None) -> bool:
    """Whether an earlier life was in a group; a newcomer's may have ended before."""
    return any(isinstance(record, Installed) for record in records or ())


def last_of(name: str, process: Process, log: DurableLog, recovered: Recovered) -> int:
    """The number of the last message that this member has broadcast in its earlier lives.

    What of it was not delivered yet is few, and is looked up in the log.
    """
    last = recovered.delivered.get(name, 0)
    while True:
        found = process.messages_in(log.recall(name, last + 1, NO_LIMIT))
        own = [one.id.seq for one, _ in found if one.id.origin == name and one.id.seq > last]
        if not own:
            return last
        last = max(own)


def begun_trace(
    config: Config, process: Process, log: DurableLog | None, recovered: Recovered | None, own: int
) -> Tracer:
    """What is on disk already comes first."""
    if recovered is None or log is None:
        return tracing.begin(config, process.me, process.changes)

    def holds(message: MessageId) -> bool:
        found = process.messages_in(log.recall(message.origin, message.seq, message.seq))
        return any(one.id == message for one, _ in found)

    standing, life = Standing(recovered.delivered, own, holds), log.identity.life
    return tracing.resume(config, process.me, life, recovered.index, recovered.records, standing)


def links_of(engine: Engine, incarnation: int, life: int, injector: Injecting | None) -> Transport:
    """With what a member says of itself whenever it calls."""
    config = engine.config
    hello = Hello(
        name=engine.me,
        to=engine.me,
        group=config.name,
        members=config.members,
        protocol=config.protocol,
        options=config.options,
        settings=config.alike(),
        incarnation=incarnation,
        session=secrets.randbits(62),
    )
    membership = engine.membership
    members = None if membership.changes else config.members
    kind, limits = type(engine.process), config.limits
    return Transport(
        hello,
        life,
        config,
        Codec(kind, members, limits, membership.members_of),
        engine,
        membership,
        resends=not engine.process.recovers,
        injector=injector,
    )
