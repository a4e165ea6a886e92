"""What a digest shows on purpose: a text made to pass for another is found, or is not.

XXH64 is invertible but for what it forgets. A text of three words of eight bytes is one number that
each word changes in a way that can be undone; so two words may say anything, and the third leads to
any digest that one likes.
"""

from pathlib import Path

import pytest

from pipeline_ways import by_arrays, specified_by
from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.spec import Guarantee, Value
from tidings.trace import Manifest, Row, digest
from tidings.trace.cutting import summed
from tidings.trace.schema import DIGESTS
from traces import write_trace

BITS = 2**64
P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5

PAYS_ALICE = b"pay alice"


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 64 - by) % BITS


def _undone(factor: int) -> int:
    return pow(factor, -1, BITS)


def _unshifted(value: int, by: int) -> int:
    """What gave this value when it was combined with itself, shifted right by at least 22."""
    return value ^ value >> by ^ value >> 2 * by


def _with_digest_of(text: bytes, two_words: bytes) -> bytes:
    """Another text with the digest of this one: it begins with sixteen bytes of one's choice."""
    state = 42 + P5 + len(two_words) + 8
    for word in (two_words[:8], two_words[8:]):
        state ^= _rotated(int.from_bytes(word, "little") * P2 % BITS, 31) * P1 % BITS
        state = (_rotated(state, 27) * P1 + P4) % BITS
    wanted = int(digest(text, "xxh64-42"), 16)
    wanted = _unshifted(wanted, 32) * _undone(P3) % BITS
    wanted = _unshifted(wanted, 29) * _undone(P2) % BITS
    wanted = _unshifted(wanted, 33)
    wanted = _rotated((wanted - P4) * _undone(P1) % BITS, 64 - 27)
    last = _rotated((wanted ^ state) * _undone(P1) % BITS, 64 - 31) * _undone(P2) % BITS
    return two_words + last.to_bytes(8, "little")


PAYS_MALLORY = _with_digest_of(PAYS_ALICE, b"pay mallory 1000")


@pytest.mark.parametrize(
    ("kind", "found"), [("xxh64-42", Value.HOLDS), ("blake2b-64", Value.VIOLATED)]
)
def test_a_text_made_to_pass_for_another_fools_xxh64_and_not_blake2b(
    kind: str, found: Value, tmp_path: Path
) -> None:
    """p2 delivers another text under the name of the one that p1 broadcast."""

    def row(process: str, index: int, event: str, text: bytes = b"", **fields: int) -> Row:
        about = {"origin": "p1", "seq": 1, "digest": digest(text, kind)} if text else {}
        return Row(run="r", process=process, index=index, kind=event, time_ns=0, **about, **fields)

    rows = [
        row("p1", 0, "broadcast", PAYS_ALICE, view=0),
        row("p1", 1, "deliver", PAYS_ALICE),
        row("p1", 2, "settle"),
        row("p2", 0, "deliver", PAYS_MALLORY),
        row("p2", 1, "settle"),
    ]
    members = ("p1", "p2")
    manifest = Manifest(schema=2, run="r", names=members, views=(members,), digest=kind)
    folder = write_trace(tmp_path / "trace", [manifest], table=rows)
    (spool := tmp_path / "spool").mkdir()
    for judged in (specified_by(folder), by_arrays(folder, spool, JudgingLimits(), "at once")):
        verdicts = {verdict.guarantee: verdict.value for verdict in judged["r"]}
        assert verdicts.pop(Guarantee.NO_CREATION) is found
        assert set(verdicts.values()) == {Value.HOLDS}


def test_of_a_cut_xxh64_hides_such_a_text_and_blake2b_does_not() -> None:
    histories = ([b"hello", PAYS_ALICE], [b"hello", PAYS_MALLORY])
    sums = {kind: [summed(0, of(texts)) for texts in histories] for kind, of in DIGESTS.items()}
    assert sums["xxh64-42"][0] == sums["xxh64-42"][1]
    assert sums["blake2b-64"][0] != sums["blake2b-64"][1]
