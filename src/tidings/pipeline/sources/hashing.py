"""XXH64 of many texts at once, the digest of a trace: lane by lane, all texts side by side."""

from typing import Any

import numpy as np

_1 = np.uint64(0x9E3779B185EBCA87)
_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_3 = np.uint64(0x165667B19E3779F9)
_4 = np.uint64(0x85EBCA77C2B2AE63)
_5 = np.uint64(0x27D4EB2F165667C5)
_LOW = np.uint64(0xFFFFFFFF)
_STRIPE = 32
SEED = 42
"""That of the digests (``trace.schema.DIGEST``)."""


def hashed(texts: Any, *seeds: int) -> list[Any]:
    """For each seed the hash of each text, or of its bytes; nulls count as empty."""
    ends = np.frombuffer(texts.buffers()[1], np.int32)
    ends = ends[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]]
    # Lanes are read from any byte on, those of the last text too.
    data = np.concatenate([data, np.zeros(8, np.uint8)])
    lanes = np.ndarray((len(data) - 7,), np.dtype("<u8"), data, strides=(1,))
    at, ends = ends[:-1] - ends[0], ends[1:] - ends[0]
    left = ends - at
    found = [np.full(len(at), np.uint64(seed) + _5) for seed in seeds]
    with np.errstate(over="ignore"):
        long = np.flatnonzero(left >= _STRIPE)
        if len(long):
            for hashes, seed in zip(found, seeds, strict=True):
                hashes[long] = _stripes(lanes, at[long], ends[long], np.uint64(seed))
            at[long] += left[long] // _STRIPE * _STRIPE
        for hashes in found:
            hashes += left.view(np.uint64)
        left = ends - at
        while len(those := np.flatnonzero(left >= 8)):
            lane = _round(np.uint64(0), lanes[at[those]])
            for hashes in found:
                hashes[those] = _turned(hashes[those] ^ lane, 27) * _1 + _4
            at[those] += 8
            left[those] -= 8
        if len(those := np.flatnonzero(left >= 4)):
            lane = (lanes[at[those]] & _LOW) * _1
            for hashes in found:
                hashes[those] = _turned(hashes[those] ^ lane, 23) * _2 + _3
            at[those] += 4
            left[those] -= 4
        while len(those := np.flatnonzero(left > 0)):
            lane = data[at[those]] * _5
            for hashes in found:
                hashes[those] = _turned(hashes[those] ^ lane, 11) * _1
            at[those] += 1
            left[those] -= 1
    return list(map(mixed, found))


def mixed(hashes: Any) -> Any:
    """Every bit of a number spread over all bits of another."""
    with np.errstate(over="ignore"):
        hashes = (hashes ^ (hashes >> np.uint64(33))) * _2
        hashes = (hashes ^ (hashes >> np.uint64(29))) * _3
        return hashes ^ (hashes >> np.uint64(32))


def _stripes(lanes: Any, at: Any, ends: Any, start: Any) -> Any:
    """Texts of 32 bytes and more: four lanes at a time, as long as there are four."""
    four = [np.full(len(at), one) for one in (start + _1 + _2, start + _2, start, start - _1)]
    those = np.arange(len(at))
    while len(those):
        for number, one in enumerate(four):
            one[those] = _round(one[those], lanes[at[those] + 8 * number])
        at[those] += _STRIPE
        those = those[at[those] + _STRIPE <= ends[those]]
    turns = (1, 7, 12, 18)
    hashes = sum((_turned(one, turn) for one, turn in zip(four, turns, strict=True)), np.uint64(0))
    for one in four:
        hashes = (hashes ^ _round(np.uint64(0), one)) * _1 + _4
    return hashes


def _round(hashes: Any, lane: Any) -> Any:
    return _turned(hashes + lane * _2, 31) * _1


def _turned(hashes: Any, bits: int) -> Any:
    return (hashes << np.uint64(bits)) | (hashes >> np.uint64(64 - bits))
