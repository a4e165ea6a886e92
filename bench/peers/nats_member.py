"""A member that talks through NATS: its own server, and a client as lean as we could write it.

    python nats_member.py PORT PLACE MEMBERS KIND STORAGE

Kinds: ``core`` (a subject, no copies, no receipts: what stands for one is that the sender has its
own text back), ``jetstream`` (a stream with three replicas, our lean client) and ``nats-py`` (the
same stream, the client of the project). Storage is ``memory`` or ``file``.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

from load.member import Member, run
from load.texts import FIRST
from peers.milestone import Milestone
from peers.nats_link import NatsLink

STREAM, SUBJECT, INBOX, DELIVERY = "T", "t", "inbox", "d"
STREAM_BYTES = 256 << 20
"""How much of the stream is kept, so that memory is bounded; the oldest goes first."""
PATIENCE_S = 30.0


def stream_config(storage: str) -> dict[str, Any]:
    return {
        "name": STREAM,
        "subjects": [SUBJECT],
        "storage": storage,
        "num_replicas": 3,
        "max_bytes": STREAM_BYTES,
        "discard": "old",
    }


class CorePort:
    def __init__(self, link: NatsLink, member: Member) -> None:
        self._link = link
        self._member = member
        self._sent = 0
        self._back = Milestone()
        self._met: set[bytes] = set()
        link.subscribe(SUBJECT.encode(), self._delivered)
        link.subscribe(b"hello", self._meet)

    async def open(self, members: int) -> None:
        """Until all others have reached us: servers learn of subscriptions one after the other.

        A member that reaches us with a greeting reaches us with a text too, as we have subscribed
        to texts before.
        """
        for _ in range(int(PATIENCE_S / 0.05)):
            if len(self._met) == members:
                return
            self._link.publish(b"hello", b"?%d" % self._member.place)
            await asyncio.sleep(0.05)
        raise SystemExit(f"heard only of {self._met}")

    def _meet(self, greeting: bytes) -> None:
        self._met.add(greeting[1:])
        if greeting.startswith(b"?"):
            self._link.publish(b"hello", b"!%d" % self._member.place)

    def _delivered(self, text: bytes) -> None:
        self._member.deliver(text)
        if text[0] - FIRST == self._member.place:
            self._back.advance()

    async def broadcast(self, text: bytes) -> int:
        self._sent += 1
        self._link.publish(b"t", text)
        return self._sent

    def answered(self, receipt: int) -> Awaitable[None]:
        return self._back.reach(receipt)

    def commits(self) -> int:
        return 0


class JetStreamPort:
    def __init__(self, link: NatsLink, member: Member) -> None:
        self._link = link
        self._sent = 0
        self._stored = Milestone()
        self._place = member.place
        self._inbox = f"{INBOX}.{self._place}".encode()
        link.subscribe(self._inbox, self._acknowledged)
        self._delivery = f"{DELIVERY}.{self._place}"
        link.subscribe(self._delivery.encode(), member.deliver)

    async def open(self, storage: str, creates: bool) -> None:
        if creates:
            await self._ask(f"STREAM.CREATE.{STREAM}", stream_config(storage))
        # Named, so that asking again after a slow answer is not asking for a second one.
        name = f"c{self._place}"
        consumer = {
            "name": name,
            "deliver_subject": self._delivery,
            "ack_policy": "none",
            "deliver_policy": "all",
            "max_deliver": 1,
            "mem_storage": True,
            "num_replicas": 1,
        }
        asked = {"stream_name": STREAM, "config": consumer}
        await self._ask(f"CONSUMER.CREATE.{STREAM}.{name}", asked)

    async def _ask(self, what: str, asked: dict[str, Any]) -> None:
        """Again until it is granted: at first the servers have no leader."""
        answers = asyncio.Queue[bytes]()
        reply = self._inbox + b"." + what.encode()
        self._link.subscribe(reply, answers.put_nowait)
        until = asyncio.get_running_loop().time() + PATIENCE_S
        answer: dict[str, Any] = {}
        while asyncio.get_running_loop().time() < until:
            self._link.publish(f"$JS.API.{what}".encode(), json.dumps(asked).encode(), reply)
            try:
                answer = json.loads(await asyncio.wait_for(answers.get(), 2) or b'{"error": 0}')
            except TimeoutError:
                continue
            if "error" not in answer:
                return
            await asyncio.sleep(0.2)
        raise SystemExit(f"{what} is not granted: {answer}")

    def _acknowledged(self, answer: bytes) -> None:
        assert answer.startswith(b'{"stream"'), f"a broadcast is not stored: {answer!r}"
        self._stored.advance()

    async def broadcast(self, text: bytes) -> int:
        self._sent += 1
        self._link.publish(b"t", text, self._inbox)
        return self._sent

    def answered(self, receipt: int) -> Awaitable[None]:
        return self._stored.reach(receipt)

    def commits(self) -> int:
        return 0


class NatsPyPort:
    """As the documentation of nats-py has it: ``publish_async``, and an ordered consumer."""

    def __init__(self, port: int, member: Member) -> None:
        self._port = port
        self._member = member

    async def open(self, storage: str, creates: bool) -> None:
        import nats
        from nats.js.api import StreamConfig

        link = await nats.connect(f"nats://127.0.0.1:{self._port}")
        self._stream = link.jetstream(publish_async_max_pending=100_000)
        if creates:
            await _until_granted(
                lambda: self._stream.add_stream(StreamConfig(**stream_config(storage)))
            )
        await _until_granted(self._subscribe)

    async def _subscribe(self) -> None:
        await self._stream.subscribe(
            SUBJECT,
            stream=STREAM,
            cb=self._delivered,
            ordered_consumer=True,
            pending_msgs_limit=1_000_000,
            pending_bytes_limit=1 << 30,
        )

    async def _delivered(self, message: Any) -> None:
        self._member.deliver(message.data)

    async def broadcast(self, text: bytes) -> Any:
        return await self._stream.publish_async(SUBJECT, text)

    def answered(self, receipt: Any) -> Any:
        return receipt

    def commits(self) -> int:
        return 0


async def _until_granted(request: Any) -> None:
    from nats.errors import Error

    until = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        try:
            await request()
            return
        except Error:
            if asyncio.get_running_loop().time() > until:
                raise
            await asyncio.sleep(0.2)


async def main(port: int, place: int, members: int, kind: str, storage: str) -> None:
    member = Member(place, members)
    if kind == "nats-py":
        official = NatsPyPort(port, member)
        await official.open(storage, creates=place == 0)
        await member.take_part(official)
        return
    link = await NatsLink.to(port)
    lean: CorePort | JetStreamPort
    if kind == "core":
        lean = CorePort(link, member)
        await lean.open(members)
    else:
        lean = JetStreamPort(link, member)
        await lean.open(storage, creates=place == 0)
    taking_part = asyncio.ensure_future(member.take_part(lean))
    await asyncio.wait([taking_part, link.ended], return_when=asyncio.FIRST_COMPLETED)
    # Whatever came first: an error of the link ends the program, and so does the crew.
    (link.ended if link.ended.done() else taking_part).result()


if __name__ == "__main__":
    port, place, members, kind, storage = sys.argv[1:]
    run(main(int(port), int(place), int(members), kind, storage))
