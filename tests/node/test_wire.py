"""What crosses the network: cut at any byte, it is the same; what is wrong is refused in words."""

import re

import msgspec
import pytest

from tidings.core import Members, MessageId, Packet, Span
from tidings.node.config import Limits
from tidings.node.wire import (
    FORMAT,
    GREETING,
    HELLO_BYTES,
    Bye,
    Came,
    Codec,
    Frame,
    FrameReader,
    Hello,
    Kind,
    Why,
    WireFault,
    body_of,
    bye_frame,
    framed,
    head_of_packets,
    hello_frame,
    packet_types,
    read_bye,
    read_hello,
)
from tidings.protocols import majority_relay
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier.packets import (
    Asking,
    Batch,
    Commit,
    Counts,
    Data,
    Holding,
    Known,
    Pull,
    Push,
    Refusal,
    State,
    Twins,
)
from tidings.protocols.holdback import Stamped
from tidings.protocols.majority_relay import MajorityRelay
from tidings.protocols.registry import PROTOCOLS

SETTINGS = {"durable": True, "limits.text_bytes": 1_000}
HELLO = Hello(
    "p1", "p2", "chat", ("p1", "p2", "p3"), "frontier", {"mode": "all"}, SETTINGS, 17, 4711
)
DATA = Data(Batch(MessageId("p1", 4), (b"four", b"five"), Counts(all=(1, 2, 3))))
HOLDING = Holding(Counts(some=(MessageId("p2", 9),)))


MEMBERS = ("p1", "p2", "p3")
LIMITS = Limits(text_bytes=1_000, frame_packets=100, packet_bytes=10_000, batch_messages=50)


def codec(members: Members = MEMBERS) -> Codec:
    return Codec(Frontier, members, LIMITS)


def decoded(body: bytes, number: int = 1, members: Members = MEMBERS) -> list[Came]:
    packets = codec(members).cut(Frame(Kind.PACKETS, number, body))
    return [codec(members).decode(at, one, "p1") for at, one in enumerate(packets, start=number)]


def read(data: bytes, reader: FrameReader | None = None) -> list[tuple[int, int, bytes]]:
    frames = (reader or FrameReader()).feed(data)
    return [(frame.kind, frame.number, bytes(frame.body)) for frame in frames]


def conversation() -> bytes:
    body = body_of([msgspec.msgpack.encode(packet) for packet in (DATA, HOLDING)])
    return GREETING + hello_frame(HELLO) + head_of_packets(7, body) + body + bye_frame("enough")


def test_frames_are_the_same_wherever_the_stream_is_cut() -> None:
    whole = read(conversation())
    assert [kind for kind, _, _ in whole] == [Kind.HELLO, Kind.PACKETS, Kind.BYE]
    for cut in range(len(conversation())):
        reader = FrameReader()
        parts = [conversation()[:cut], conversation()[cut:]]
        assert [frame for part in parts for frame in read(part, reader)] == whole


def test_frames_are_the_same_when_every_byte_comes_alone() -> None:
    reader = FrameReader()
    one_by_one = [frame for byte in conversation() for frame in read(bytes([byte]), reader)]
    assert one_by_one == read(conversation())


def test_packets_come_back_as_they_went_with_their_lengths() -> None:
    encoded = [msgspec.msgpack.encode(DATA), msgspec.msgpack.encode(HOLDING)]
    assert decoded(body_of(encoded), number=7) == [
        Came(7, DATA, len(encoded[0])),
        Came(8, HOLDING, len(encoded[1])),
    ]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_protocol_has_a_codec_that_knows_what_it_says(name: str) -> None:
    kind = PROTOCOLS[name].kind
    assert packet_types(kind)
    Codec(kind, MEMBERS, LIMITS)  # two packets with one tag would be refused here


def test_of_two_packets_with_one_tag_the_derived_class_means_its_own() -> None:
    as_written = {kind.__module__ for kind in packet_types(PROTOCOLS["flawed/first-word"].kind)}
    assert as_written == {"tidings.protocols.two_phase"}
    rewritten = packet_types(PROTOCOLS["flawed/waiting-for-finack"].kind)
    assert {kind.__module__ for kind in rewritten} == {"tidings.protocols.flawed"}


@pytest.mark.parametrize(
    ("spoken", "complaint"),
    [
        (b"GET / HTTP/1.1\r\n", "it does not speak our language"),
        (b"t", ""),
        (b"x", ""),
        (b"tx", ""),
        (b"txx", "it does not speak our language"),
        (GREETING[:-1] + b"\x63", f"it speaks format 99, this tidings speaks {FORMAT}"),
        (GREETING + b"\xff\xff\xff\xff" + bytes(20), "4,294,967,295 bytes, and 65,536 is"),
        (GREETING + b"\x00\x00\x00\x03" + bytes(20), "a frame of 3 bytes is too short"),
    ],
)
def test_a_stranger_is_refused_before_anything_of_it_is_kept(spoken: bytes, complaint: str) -> None:
    if not complaint:
        assert read(spoken) == []
        return
    with pytest.raises(WireFault, match=complaint):
        read(spoken)


def test_the_limit_for_strangers_ends_with_their_hello() -> None:
    long = framed(Kind.PACKETS, 1, bytes(HELLO_BYTES))
    with pytest.raises(WireFault, match="the limit"):
        read(GREETING + hello_frame(HELLO) + long)
    reader = FrameReader()
    frames = []
    for frame in reader.feed(GREETING + hello_frame(HELLO) + long):
        frames.append(frame.kind)
        reader.limit = 2 * HELLO_BYTES  # as soon as the hello is read, even if more has come
    assert frames == [Kind.HELLO, Kind.PACKETS]


def nested(depth: int) -> bytes:
    return b"\x91" * depth + b"\x00"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc0",
        b"\xdd\x00",
        b"\xdc\x00\x03\xc4\x00",
        b"\x91\x00",
        nested(100_000),
        body_of([msgspec.msgpack.encode(["no such packet", 1])]),
        body_of([msgspec.msgpack.encode(["data", 1])]),
        body_of([msgspec.msgpack.encode(["holding", [[["p1", "many"]]]])]),
        body_of([b"\xc6\xff\xff\xff\xff"]),
        body_of([b"\xd9\x02\xff\xff"]),
        body_of([nested(100_000)]),
    ],
)
def test_a_body_that_makes_no_sense_is_one_line(body: bytes) -> None:
    with pytest.raises(WireFault, match=r"a (frame|packet) that makes no sense") as fault:
        decoded(body)
    assert len(str(fault.value).splitlines()) == 1


@pytest.mark.parametrize(
    "packet",
    [
        Data(Batch(MessageId("p9", 1), (b"text",))),
        Data(Batch(MessageId("p1", 1), (b"text",), Counts(all=(1, 2)))),
        Holding(Counts(some=(MessageId("p1", 1), MessageId("", 1)))),
        Commit((Known("p1", 1, 1), Known("p4", 1, 1))),
        Pull((Span("nobody", 1, 2),)),
        Push((Batch(MessageId("p1", 1), ()), Batch(MessageId("p0", 1), ()))),
        State((1, 2, 3), (1, 2, 3), (1, 2, 3), (1, 2, 3, 4)),
        Refusal("p5", 1, "lost disk"),
    ],
)
def test_a_packet_for_another_group_is_refused(packet: Packet) -> None:
    body = body_of([msgspec.msgpack.encode(packet)])
    with pytest.raises(WireFault, match=f"a {packet.kind} that is not meant for this group"):
        decoded(body)
    others = ("p0", "p1", "p4", "p5", "p9", "", "nobody")
    if not isinstance(packet, Data | State):
        assert decoded(body, members=others)[0].packet == packet


def many(count: int) -> bytes:
    """Packets that need not be looked at: there are too many of them, or so it says."""
    return b"\xdd" + count.to_bytes(4) + b"\xc4\x00" * min(count, 1_000)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (many(101), "a frame of 101 packets; 100 is the limit (frame_packets)"),
        (many(2**32 - 1), "a frame of 4,294,967,295 packets"),
        (b"\xdc\xff\xff", "a frame of 65,535 packets"),
        (b"\x90", "a frame without packets"),
        (many(0), "a frame without packets"),
    ],
)
def test_how_many_packets_a_frame_has_is_seen_before_the_first_one(
    body: bytes, complaint: str
) -> None:
    with pytest.raises(WireFault, match=re.escape(complaint)):
        codec().cut(Frame(Kind.PACKETS, 1, body))


def test_a_frame_of_as_many_packets_as_it_may_have_is_cut() -> None:
    assert codec().cut(Frame(Kind.PACKETS, 1, many(100))) == [b""] * 100


TOO_LONG = bytes(1_001)


@pytest.mark.parametrize(
    ("packet", "complaint"),
    [
        (Data(Batch(MessageId("p1", 1), (b"x", TOO_LONG))), "a data with a text of 1,001 bytes"),
        (Push((Batch(MessageId("p2", 1), (TOO_LONG,)),)), "a push with a text of 1,001 bytes"),
        (Data(Batch(MessageId("p1", 1), (b"x",) * 51)), "a data with 51 texts; 50 is the limit"),
        (
            Push(tuple(Batch(MessageId("p2", seq), (b"",)) for seq in range(1, 52))),
            "a push with 51 texts; 50 is the limit (batch_messages)",
        ),
        (
            Push((Batch(MessageId("p2", 1), (b"x" * 900,), Counts(all=(2**60,) * 900)),) * 2),
            "bytes beside its texts; 10,000 is the limit (packet_bytes)",
        ),
        (Holding(Counts(some=(MessageId("p2", 9),) * 4)), "a holding that is not meant for"),
        (Asking(Counts(some=(MessageId("p2", 9),) * 1_001)), "a packet that makes no sense"),
        (Holding(Counts(all=(1,) * 1_001)), "a packet that makes no sense"),
        (Commit((Known("p1", 1, 1),) * 4), "a commit that is not meant for"),
        (Commit((Known("p1", 1, 1),) * 1_001), "a packet that makes no sense"),
        (Pull((Span("p1", 1, 2),) * 1_001), "a packet that makes no sense"),
    ],
)
def test_what_is_longer_than_it_can_be_is_refused_with_the_limit(
    packet: Packet, complaint: str
) -> None:
    with pytest.raises(WireFault, match=re.escape(complaint)):
        decoded(body_of([msgspec.msgpack.encode(packet)]))


def test_of_a_long_packet_the_texts_do_not_count() -> None:
    push = Push((Batch(MessageId("p2", 1), (bytes(1_000),) * 40),))
    assert decoded(body_of([msgspec.msgpack.encode(push)]))[0].packet == push


@pytest.mark.parametrize(
    "packet",
    [
        Data(DATA.batch, held=HOLDING.held, commit=(Known("p1", 3, 1, 2, ("p3",)),)),
        Holding(Counts(all=(1, 2, 3))),
        Asking(Counts(some=(MessageId("p2", 9), MessageId("p3", 1)))),
        Commit((Known("p1", 1, 1), Known("p2", 7, 5, 6, ("p1", "p3")))),
        Pull((Span("p1", 1, 2), Span("p3", 4, 4))),
        Push((Batch(MessageId("p1", 1), (b"", b"text")), Batch(MessageId("p3", 9), (b"x",)))),
        State((1, 2, 3), (1, 1, 1), (0, 0, 0), (0, 2, 3), asks=True),
        Twins("p2", ("p1", "p3"), 7),
        Holding(Counts(some=(MessageId("p2", 7),)), (("p2", bytes(16)),)),
        Refusal("p1", 17, "lost disk"),
    ],
    ids=lambda packet: packet.kind,
)
def test_what_a_member_says_is_accepted(packet: Packet) -> None:
    assert decoded(body_of([msgspec.msgpack.encode(packet)]))[0].packet == packet


def test_a_digest_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """However short the longest text is."""
    monkeypatch.setitem(globals(), "LIMITS", Limits(text_bytes=1))
    vector, digest, upto = (0, 0, 0), bytes(16), Counts(some=(MessageId("p2", 7),))
    for packet in (
        State(*(vector,) * 4, digests=(digest,) * 3),
        Holding(upto, (("p2", digest),)),
    ):
        assert decoded(body_of([msgspec.msgpack.encode(packet)]))[0].packet == packet
    for packet in (
        State(*(vector,) * 4, digests=(digest,) * 2),
        State(*(vector,) * 4, digests=(digest, digest, bytes(65))),
        Holding(upto, (("p2", bytes(65)),)),
        Holding(upto, (("p9", digest),)),
        Twins("p9", ("p1", "p2"), 7),
        Twins("p3", ("p1", "p9"), 7),
    ):
        with pytest.raises(WireFault, match="that is not meant for this group"):
            decoded(body_of([msgspec.msgpack.encode(packet)]))


def test_of_a_text_in_a_message_the_length_is_looked_at_too() -> None:
    of_relay = Codec(MajorityRelay, MEMBERS, LIMITS)
    stamped = Stamped(MessageId("p1", 1), TOO_LONG, (1, 0, 0))
    encoded = msgspec.msgpack.encode(majority_relay.RelayPush((stamped,)))
    with pytest.raises(WireFault, match="a push with a text of 1,001 bytes"):
        of_relay.decode(1, memoryview(encoded), "p1")


def test_hello_comes_back_as_it_went_and_nonsense_does_not() -> None:
    (frame,) = FrameReader().feed(GREETING + hello_frame(HELLO))
    assert read_hello(frame) == HELLO
    for wrong in (
        Frame(Kind.PACKETS, 0, b""),
        Frame(Kind.HELLO, 0, b"\xc0"),
        Frame(Kind.HELLO, 0, nested(100_000)),
        Frame(Kind.HELLO, 0, msgspec.msgpack.encode(["p" * 65, *msgspec.structs.astuple(HELLO)])),
    ):
        with pytest.raises(WireFault, match="hello"):
            read_hello(wrong)


def test_a_farewell_says_why() -> None:
    (frame,) = FrameReader().feed(GREETING + bye_frame("enough", Why.LATE, 17))
    assert read_bye(frame) == Bye("enough", Why.LATE, 17)
    with pytest.raises(WireFault, match="farewell"):
        read_bye(Frame(Kind.BYE, 0, b"\x01"))
    with pytest.raises(WireFault, match="farewell"):
        read_bye(Frame(Kind.BYE, 0, msgspec.msgpack.encode(["enough", 99, 17])))


FORGED = "p2\np3: stopped: reason the disk is full\x1b[2J"


@pytest.mark.parametrize("field", ["name", "to", "group", "members"])
def test_a_hello_with_a_name_that_is_none_is_refused(field: str) -> None:
    forged = (FORGED,) if field == "members" else FORGED
    hello = msgspec.structs.replace(HELLO, **{field: forged})
    (frame,) = FrameReader().feed(GREETING + hello_frame(hello))
    with pytest.raises(WireFault, match="its hello makes no sense") as fault:
        read_hello(frame)
    assert "stopped" not in str(fault.value)


def test_words_of_the_other_side_stay_in_one_line_of_some_length() -> None:
    (frame,) = FrameReader().feed(GREETING + bye_frame(FORGED))
    assert read_bye(frame).reason == r"p2\np3: stopped: reason the disk is full\x1b[2J"
    long = msgspec.msgpack.encode(["x" * 9_999])
    assert read_bye(Frame(Kind.BYE, 0, long)).reason == "x" * 1_000
    quarrel = HELLO.quarrel(msgspec.structs.replace(HELLO, name="p2", to="p1", protocol=FORGED))
    assert str(WireFault(quarrel)).isprintable()
    tag = body_of([msgspec.msgpack.encode([FORGED, 1])])
    with pytest.raises(WireFault) as fault:
        decoded(tag)
    assert str(fault.value).isprintable()


@pytest.mark.parametrize(
    ("change", "quarrel"),
    [
        ({}, ""),
        ({"incarnation": 99, "received": 5}, ""),
        ({"group": "talk"}, "p2 is in group 'talk', p1 in 'chat'"),
        ({"to": "p3"}, "p2 looks for p3, and here is p1"),
        ({"members": ("p1", "p2")}, "the group of p2 is p1, p2; that of p1 is p1, p2, p3"),
        ({"name": "p9"}, "p9 is no other member of 'chat'"),
        ({"name": "p1"}, "p1 is no other member of 'chat'"),
        ({"settings": SETTINGS | {"durable": False}}, "p2 has durable = false, p1 has true"),
        (
            {"settings": SETTINGS | {"limits.text_bytes": 2_000}},
            "p2 has limits.text_bytes = 2000, p1 has 1000",
        ),
        ({"settings": {"durable": True}}, "p2 has limits.text_bytes = nothing, p1 has 1000"),
        (
            {"settings": SETTINGS | {"trace.digest": "blake2b-64"}},
            'p2 has trace.digest = "blake2b-64", p1 has nothing',
        ),
        ({"settings": SETTINGS | {"limits.text_bytes": True}}, "p2 has limits.text_bytes = true"),
        ({"protocol": "two-phase", "options": {}}, "p2 runs two-phase, p1 frontier mode=all"),
    ],
)
def test_two_that_mean_different_groups_do_not_talk(
    change: dict[str, object], quarrel: str
) -> None:
    theirs = msgspec.structs.replace(HELLO, name="p2", to="p1")
    answer = HELLO.quarrel(msgspec.structs.replace(theirs, **change))
    assert answer.startswith(quarrel) if quarrel else not answer
