"""Packets print their contents; tests/scenarios shows the rest of them in use."""

import pytest

from tidings.core import MessageId, Packet, Span
from tidings.protocols import history_sets, interval_history, majority_relay, stage_gossip
from tidings.protocols.frontier.packets import Batch, Counts, Data, Known, Pull, Push, State
from tidings.protocols.holdback import Stamped

FIRST, SECOND = MessageId("p1", 1), MessageId("p2", 2)
ANSWER = Stamped(SECOND, b"text", (1, 1, 0))
BATCH = Batch(MessageId("p1", 3), (b"a", b"b", b"c"), Counts(some=(MessageId("p2", 4),)))
VIEWS = (("p1", "p2"), ("p1", "p2", "p3"))


@pytest.mark.parametrize(
    ("packet", "printed"),
    [
        (
            majority_relay.Copy(ANSWER, ("p1", "p2"), (0, 1, 0), 3),
            "copy p2#2 after (1, 1, 0), relayed by p1 p2, delivered (0, 1, 0), hop 3",
        ),
        (majority_relay.RelayPull((FIRST, SECOND)), "pull p1#1, p2#2"),
        (majority_relay.RelayPush((ANSWER,)), "push p2#2 after (1, 1, 0)"),
        (history_sets.CopyWithPast(SECOND, b"text", (FIRST,)), "copy p2#2 after p1#1"),
        (
            interval_history.CopyWithRanges(SECOND, b"", (("p1", ((1, 3), (5, 5))),), 1, VIEWS[:1]),
            "copy p2#2 to p1 p2 after p1#1..3, p1#5, settled 1",
        ),
        (
            interval_history.CopyWithRanges(SECOND, b"", (), 0, VIEWS, (("p2", ((1, 0), (2, 1))),)),
            "copy p2#2 to p1 p2 p3; p2#1.. to p1 p2; p2#2.. to p1 p2 p3",
        ),
        (stage_gossip.Gossip(ANSWER, "110"), "gossip p2#2 after (1, 1, 0), stages 110"),
        (
            Data(BATCH, Counts(all=(0, 4, 0)), (Known("p1", 2, 1, 2, ("p3",)),), (("p2", b"\1"),)),
            "data p1#3..5 after p2<=4, holding (0, 4, 0), p2=01, "
            "commit p1 safe 2 stable 1 reached 2 lacking p3",
        ),
        (Pull((Span("p1", 1, 4), Span("p2", 2, 2))), "pull p1#1..4, p2#2"),
        (Push((BATCH,), ("p1",)), "push p1#3..5 after p2<=4, p1 restarted"),
        (
            State((1, 0), (1, 0), (0, 0), (1, 0), asks=True, digests=(b"\xab\xcd\xef", b"")),
            "state held (1, 0), safe (1, 0), yours (1, 0), digests (abcd, -), asks",
        ),
    ],
    ids=str,
)
def test_a_packet_prints_what_is_in_it(packet: Packet, printed: str) -> None:
    assert str(packet) == printed
