"""What members say to agree on a view, on the wire: what is wrong is refused at once."""

import random
import re

import msgspec
import pytest

from fuzzing import altered
from tidings.core import Members, MessageId, Packet, Receive, Span, Start
from tidings.node.config import Limits
from tidings.node.wire import Codec, WireFault
from tidings.protocols.frontier.packets import (
    Batch,
    Counts,
    Data,
    Holding,
    Pull,
    Push,
    Refusal,
    State,
)
from tidings.protocols.views import Views
from tidings.protocols.views.packets import (
    Accepted,
    Ballot,
    Behind,
    Canvass,
    Decided,
    InView,
    Missed,
    Prepare,
    Promise,
    Propose,
    Ready,
    View,
    Vote,
)

THREE, FOUR = ("p1", "p2", "p3"), ("p1", "p2", "p3", "p4")
LIMITS = Limits(text_bytes=1_000, packet_bytes=512 * 1024, batch_messages=1_000)
CUT = (MessageId("p1", 4), MessageId("p2", 0), MessageId("p3", 9))
ADDED = View(1, FOUR, CUT, "p4", "127.0.0.1:7004")
BALLOT = Ballot(1, "p2")
VOTE = Vote(BALLOT, ADDED)
DATA = Data(Batch(MessageId("p2", 1), (b"one", b"two"), Counts(all=(1, 0, 3))))
STATE = State((1, 2, 3), (1, 1, 1), (0, 0, 0), (0, 2, 3))
GENUINE = (
    InView(0, DATA),
    InView(0, Holding(Counts(some=(MessageId("p2", 1),)))),
    InView(0, STATE),
    InView(0, Pull((Span("p3", 1, 2),))),
    InView(0, Push((Batch(MessageId("p3", 1), (b"x",)),))),
    InView(0, Refusal("p2", 17, "lost disk")),
    InView(1, State((1, 2, 3, 4), (1, 1, 1, 1), (0, 0, 0, 0), (0, 2, 3, 4))),
    Canvass(1, 0, "p4"),
    Ready(1, 0, 0, (4, 0, 9)),
    Ready(1, 0),
    Prepare(1, BALLOT),
    Promise(1, BALLOT, (4, 0, 9), (VOTE,)),
    Propose(VOTE),
    Accepted(1, BALLOT),
    Decided((View(0, THREE), ADDED), 1, 1),
    Missed(0),
    Behind(0),
    Behind(-1),
)


def members_of(number: int) -> Members | None:
    return {0: THREE, 1: FOUR}.get(number)


CODEC = Codec(Views, None, LIMITS, members_of)


def decoded(packet: Packet | bytes, sender: str = "p2") -> Packet:
    encoded = packet if isinstance(packet, bytes) else msgspec.msgpack.encode(packet)
    return CODEC.decode(1, memoryview(encoded), sender).packet


@pytest.mark.parametrize("packet", GENUINE, ids=str)
def test_what_a_member_says_is_accepted(packet: Packet) -> None:
    assert decoded(packet) == packet


@pytest.mark.parametrize(
    ("packet", "complaint"),
    [
        (InView(1, STATE), "a state that is not meant for this group"),
        (InView(0, Data(DATA.batch, Counts(all=(1, 2, 3, 4)))), "a data that is not meant for"),
        (InView(0, Holding(Counts(some=(MessageId("p4", 1),)))), "a holding that is not meant"),
        (InView(0, Data(Batch(MessageId("p3", 1), (b"",)))), "a data of p3, and it is p2"),
        (InView(0, Data(Batch(MessageId("p2", 1), (bytes(1_001),)))), "a text of 1,001 bytes"),
        (Behind(-2), "a packet that makes no sense"),
        (InView(-1, STATE), "a state that is not meant for this group"),
        (InView(2**63, STATE), "a state that is not meant for this group"),
        (Ready(1, 0, 0, (4, 0)), "a ready that is not meant for this group"),
        (Promise(1, BALLOT, (4, 0, 9, 1)), "a promise that is not meant for this group"),
        (Promise(1, BALLOT, (4, 0, 9), (VOTE, VOTE)), "a packet that makes no sense"),
        (Prepare(1, Ballot(-1, "p2")), "a prepare that is not meant for this group"),
        (Propose(Vote(BALLOT, View(1, ()))), "a propose that is not meant for this group"),
        (Decided((View(0, ("p2", "p1")),), 0, 0), "a decided that is not meant for this group"),
        (Decided((View(0, ("p1", "p1")),), 0, 0), "a decided that is not meant for this group"),
        (Decided((View(0, ("p1", "a b")),), 0, 0), "a decided that is not meant for this group"),
        (
            Decided((View(1, THREE, CUT[:1] * 2),), 0, 0),
            "a decided that is not meant for this group",
        ),
        (Decided((View(1, THREE, CUT[:2]),), 0, 0), "a decided that is not meant for this group"),
        (Decided((View(1, FOUR, CUT),), 0, 0), "a decided that is not meant for this group"),
        (Decided((View(0, THREE), View(2, THREE, CUT)), 0, 0), "a decided that is not meant for"),
        (Decided((View(1, THREE, (), "p4"),), 0, 0), "a decided that is not meant for this group"),
        (Decided((View(-1, THREE),), 0, 0), "a decided that is not meant for this group"),
        (Decided((View(1, FOUR, (), "p4", "x" * 301),), 0, 0), "a packet that makes no sense"),
    ],
    ids=str,
)
def test_what_nobody_can_mean_is_refused(packet: Packet, complaint: str) -> None:
    with pytest.raises(WireFault, match=re.escape(complaint)):
        decoded(packet)


def test_of_a_view_that_is_not_known_yet_only_the_form_is_seen() -> None:
    ahead = InView(2, State((1,) * 5, (1,) * 5, (0,) * 5, (0,) * 5))
    assert decoded(ahead) == ahead
    with pytest.raises(WireFault):
        decoded(InView(2, State((), (), (), ())))
    with pytest.raises(WireFault):
        decoded(InView(2, Holding(Counts(some=(MessageId("no name", 1),)))))


def test_of_a_long_packet_in_a_view_the_texts_do_not_count() -> None:
    push = InView(0, Push((Batch(MessageId("p3", 1), (bytes(1_000),) * 900),)))
    assert decoded(push) == push
    causes = Counts(all=(2**60,) * 900)
    long = InView(0, Push((Batch(MessageId("p3", 1), (b"",), causes),) * 100))
    with pytest.raises(WireFault, match=r"bytes beside its texts; 524,288 is the limit"):
        decoded(long)


def test_what_came_too_early_to_be_judged_is_judged_when_its_view_is_installed() -> None:
    process = Views("p1", THREE)
    process.step(Start(founding=True))
    five = (1,) * 5
    for early in (
        InView(1, State(five, five, five, five)),
        InView(1, Holding(Counts(some=(MessageId("p9", 3),)))),
        Propose(Vote(BALLOT, View(2, FOUR, CUT))),
    ):
        process.step(Receive("p4", early))
    cut = tuple(MessageId(one, 0) for one in THREE)
    process.step(Receive("p2", Decided((View(1, FOUR, cut, "p4"),), 1, 1)))
    assert process.number == 1


def test_whatever_is_let_through_a_process_can_take() -> None:
    """A packet that was altered, and is still one, may be a lie; it is never an accident."""
    dice = random.Random(7)
    process = Views("p1", THREE)

    def known(number: int) -> Members | None:
        return process.chain[number].members if 0 <= number < len(process.chain) else None

    codec = Codec(Views, None, LIMITS, known)
    accepted = refused = 0
    for number in range(12_000):
        if number % 100 == 0:
            process = Views("p1", THREE)
            process.step(Start(founding=True))
            codec._bounds_in.clear()
        sender = dice.choice(("p2", "p2", "p3", "p9"))
        encoded = msgspec.msgpack.encode(dice.choice(GENUINE))
        data = altered(encoded, dice) if number % 10 else encoded
        try:
            packet = codec.decode(1, memoryview(data), sender).packet
        except WireFault:
            refused += 1
        else:
            process.step(Receive(sender, packet))
            accepted += 1
    assert accepted > 1_000, accepted
    assert refused > 1_000, refused
