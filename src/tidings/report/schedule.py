"""What the schedule in a manifest says that rows do not: texts, and how packets were lost.

Reports know nothing of the simulator. They read the schedule as what it is in the manifest: a list
of ``[time_ns, [kind, field, ...], draws]``; of what they do not understand they say nothing.
"""

import binascii
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import msgspec

from tidings.trace import Manifest, digest


class ScheduledStep(msgspec.Struct, frozen=True, array_like=True):
    """One choice that was made: when, which, and what the processes drew."""

    time_ns: int
    choice: tuple[Any, ...]
    draws: tuple[int, ...] = ()


def steps(manifest: Manifest) -> list[ScheduledStep]:
    """The schedule, or nothing where the manifest holds none that can be read."""
    try:
        return msgspec.json.decode(manifest.schedule, type=list[ScheduledStep])
    except msgspec.MsgspecError:
        return []


def can_be_replayed(manifest: Manifest) -> bool:
    return bool(steps(manifest))


MOST_STEPS = 60
"""As many as one likes to see pass by in a terminal."""


def is_long(manifest: Manifest) -> bool:
    return len(steps(manifest)) > MOST_STEPS


def texts(manifest: Manifest) -> dict[str, bytes]:
    """The texts that were broadcast, by the digests under which rows know them."""
    return {digest(text, manifest.digest): text for text in _texts(manifest)}


def _texts(manifest: Manifest) -> Iterator[bytes]:
    for step in steps(manifest):
        match step.choice:
            case ("broadcast", _, str() as encoded):
                try:
                    yield b64decode(encoded, validate=True)
                except binascii.Error:
                    continue


PacketId = tuple[str, str, int]
"""Sender, receiver, number on that link."""


def losses(manifest: Manifest) -> Iterator[tuple[PacketId, str]]:
    """Packets that were lost, each with the sender who took it along, or "" for a lossy link."""
    for step in steps(manifest):
        match step.choice:
            case ("drop", [[str() as sender, str() as receiver], int() as number]):
                yield (sender, receiver, number), ""
            case ("crash", str() as crashed, [*lost]):
                for packet in lost:
                    match packet:
                        case [[str() as sender, str() as receiver], int() as number]:
                            yield (sender, receiver, number), crashed
