"""A member that talks through etcd: its own server, puts in transactions, and a watch.

    python etcd_member.py PORT PLACE MEMBERS

A member has one transaction under way at a time, with all texts that wait, since etcd promises no
order between two; so a window of 10 is one transaction of up to 10 puts. Only the messages of
etcd's API that are needed are described here, by their numbers in its rpc.proto.
"""

import asyncio
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

sys.path.append(str(Path(__file__).parents[1]))

from load.member import Member, run
from peers.milestone import Milestone

MOST_PUTS = 2_000
MOST_BYTES = 1 << 20
"""Of one transaction; etcd's own limit is 1.5 MiB unless it is set."""
KEYS = 10_000
"""Of each member, used again and again."""

FIELDS = {
    "PutRequest": {"key": (1, "bytes"), "value": (2, "bytes")},
    "RequestOp": {"request_put": (2, "PutRequest")},
    "TxnRequest": {"success": (2, "*RequestOp")},
    "TxnResponse": {"succeeded": (2, "bool")},
    "WatchCreateRequest": {
        "key": (1, "bytes"),
        "range_end": (2, "bytes"),
        "start_revision": (3, "int64"),
    },
    "WatchRequest": {"create_request": (1, "WatchCreateRequest")},
    "KeyValue": {"key": (1, "bytes"), "value": (5, "bytes")},
    "Event": {"kv": (2, "KeyValue")},
    "WatchResponse": {"created": (3, "bool"), "canceled": (4, "bool"), "events": (11, "*Event")},
}


def api() -> dict[str, Any]:
    """The classes of these messages."""
    file = descriptor_pb2.FileDescriptorProto(name="etcd.proto", package="etcd", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    simple = {"bytes": kinds.TYPE_BYTES, "bool": kinds.TYPE_BOOL, "int64": kinds.TYPE_INT64}
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            many = kinds.LABEL_REPEATED if kind.startswith("*") else kinds.LABEL_OPTIONAL
            kind = kind.removeprefix("*")
            added = message.field.add(name=field, number=number, label=many)
            added.type = simple.get(kind, kinds.TYPE_MESSAGE)
            if kind not in simple:
                added.type_name = f".etcd.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"etcd.{name}"))
        for name in FIELDS
    }


class EtcdPort:
    def __init__(self, channel: Any, member: Member) -> None:
        self._api = of = api()
        self._member = member
        self._waiting: list[bytes] = []
        self._work = asyncio.Event()
        self._sent = 0
        self._stored = Milestone()
        self._txn = channel.unary_unary(
            "/etcdserverpb.KV/Txn",
            request_serializer=of["TxnRequest"].SerializeToString,
            response_deserializer=of["TxnResponse"].FromString,
        )
        self._watch = channel.stream_stream(
            "/etcdserverpb.Watch/Watch",
            request_serializer=of["WatchRequest"].SerializeToString,
            response_deserializer=of["WatchResponse"].FromString,
        )

    async def broadcast(self, text: bytes) -> int:
        self._sent += 1
        self._waiting.append(text)
        self._work.set()
        return self._sent

    def answered(self, receipt: int) -> Awaitable[None]:
        return self._stored.reach(receipt)

    def commits(self) -> int:
        return 0

    async def write(self) -> None:
        """One transaction after the other, with all that waits and fits."""
        put, operation, txn = (self._api[one] for one in ("PutRequest", "RequestOp", "TxnRequest"))
        while True:
            await self._work.wait()
            most = min(MOST_PUTS, max(1, MOST_BYTES // len(self._waiting[0])))
            texts, self._waiting = self._waiting[:most], self._waiting[most:]
            if not self._waiting:
                self._work.clear()
            first = self._stored.reached
            puts = [
                operation(request_put=put(key=self._key(first + place), value=text))
                for place, text in enumerate(texts)
            ]
            answer = await self._txn(txn(success=puts))
            assert answer.succeeded, "a transaction without a condition has failed"
            self._stored.advance(len(texts))

    def _key(self, number: int) -> bytes:
        return b"t/%d/%d" % (self._member.place, number % KEYS)

    async def read(self, opened: asyncio.Event) -> None:
        create = self._api["WatchCreateRequest"](key=b"t/", range_end=b"t0", start_revision=1)
        call = self._watch()
        await call.write(self._api["WatchRequest"](create_request=create))
        async for answer in call:
            assert not answer.canceled, "etcd has ended the watch"
            if answer.created:
                opened.set()
            for event in answer.events:
                self._member.deliver(event.kv.value)


async def main(port: int, place: int, members: int) -> None:
    member = Member(place, members)
    no_limit = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", no_limit) as channel:
        await asyncio.wait_for(channel.channel_ready(), 30)
        etcd, opened = EtcdPort(channel, member), asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks_of_etcd = [
                tasks.create_task(etcd.read(opened)),
                tasks.create_task(etcd.write()),
            ]
            await opened.wait()
            await member.take_part(etcd)
            for task in tasks_of_etcd:
                task.cancel()


if __name__ == "__main__":
    run(main(*map(int, sys.argv[1:])))
