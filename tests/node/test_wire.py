"""What crosses the network: cut at any byte, it is the same; what is wrong is refused in words."""

import msgspec
import pytest

from tidings.core import MessageId, Packet
from tidings.node.wire import (
    FORMAT,
    GREETING,
    HELLO_BYTES,
    Came,
    Codec,
    Frame,
    FrameReader,
    Hello,
    Kind,
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
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier_packets import (
    Batch,
    Commit,
    Data,
    Holding,
    Known,
    Pull,
    Push,
    Range,
    Refusal,
    State,
    Upto,
)
from tidings.protocols.registry import PROTOCOLS

HELLO = Hello("p1", "p2", "chat", ("p1", "p2", "p3"), "frontier", {"mode": "all"}, 17)
DATA = Data(Batch(MessageId("p1", 4), (b"four", b"five"), Upto(all=(1, 2, 3))))
HOLDING = Holding(Upto(some=(MessageId("p2", 9),)))


MEMBERS = ("p1", "p2", "p3")


def read(data: bytes, reader: FrameReader | None = None) -> list[tuple[int, int, bytes]]:
    frames = (reader or FrameReader()).feed(data)
    return [(frame.kind, frame.number, bytes(frame.body)) for frame in frames]


def conversation() -> bytes:
    body = body_of([Codec(Frontier, MEMBERS).encode(packet) for packet in (DATA, HOLDING)])
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
    codec = Codec(Frontier, MEMBERS)
    encoded = [codec.encode(DATA), codec.encode(HOLDING)]
    assert codec.decode(Frame(Kind.PACKETS, 7, body_of(encoded)), "p1") == [
        Came(7, DATA, len(encoded[0])),
        Came(8, HOLDING, len(encoded[1])),
    ]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_protocol_has_a_codec_that_knows_what_it_says(name: str) -> None:
    kind = PROTOCOLS[name].kind
    assert packet_types(kind)
    Codec(kind, MEMBERS)  # two packets with one tag would be refused here


def test_of_two_packets_with_one_tag_the_derived_class_means_its_own() -> None:
    as_written = {kind.__module__ for kind in packet_types(PROTOCOLS["flawed/first-word"].kind)}
    assert as_written == {"tidings.protocols.two_phase"}
    rewritten = packet_types(PROTOCOLS["flawed/waiting-for-finack"].kind)
    assert {kind.__module__ for kind in rewritten} == {"tidings.protocols.flawed"}


@pytest.mark.parametrize(
    ("said", "complaint"),
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
def test_a_stranger_is_refused_before_anything_of_it_is_kept(said: bytes, complaint: str) -> None:
    if not complaint:
        assert read(said) == []
        return
    with pytest.raises(WireFault, match=complaint):
        read(said)


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
    return b"\xdd\x00\x00\x00\x01" + b"\x91" * depth + b"\x00"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc0",
        b"\xdd\xff\xff\xff\xff",
        body_of([msgspec.msgpack.encode(["no such packet", 1])]),
        body_of([msgspec.msgpack.encode(["data", 1])]),
        body_of([msgspec.msgpack.encode(["holding", [[["p1", "many"]]]])]),
        body_of([b"\xc6\xff\xff\xff\xff"]),
        body_of([b"\xd9\x02\xff\xff"]),
        nested(100_000),
    ],
)
def test_a_body_that_makes_no_sense_is_one_line(body: bytes) -> None:
    with pytest.raises(WireFault, match="a frame that makes no sense") as fault:
        Codec(Frontier, MEMBERS).decode(Frame(Kind.PACKETS, 1, body), "p1")
    assert len(str(fault.value).splitlines()) == 1


@pytest.mark.parametrize(
    "packet",
    [
        Data(Batch(MessageId("p9", 1), (b"text",))),
        Data(Batch(MessageId("p1", 1), (b"text",), Upto(all=(1, 2)))),
        Holding(Upto(some=(MessageId("p1", 1), MessageId("", 1)))),
        Commit((Known("p1", 1, 1), Known("p4", 1, 1))),
        Pull((Range("nobody", 1, 2),)),
        Push((Batch(MessageId("p1", 1), ()), Batch(MessageId("p0", 1), ()))),
        State((1, 2, 3), (1, 2, 3), (1, 2, 3), (1, 2, 3, 4)),
        Refusal("p5", 1, "lost disk"),
    ],
)
def test_a_packet_for_another_group_is_refused(packet: Packet) -> None:
    codec = Codec(Frontier, MEMBERS)
    frame = Frame(Kind.PACKETS, 1, body_of([codec.encode(packet)]))
    with pytest.raises(WireFault, match=f"a {packet.kind} that is not meant for this group"):
        codec.decode(frame, "p1")
    others = ("p0", "p1", "p4", "p5", "p9", "", "nobody")
    if not isinstance(packet, Data | State):
        assert Codec(Frontier, others).decode(frame, "p1")[0].packet == packet


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
    (frame,) = FrameReader().feed(GREETING + bye_frame("enough", is_final=True))
    assert (frame.number, read_bye(frame)) == (1, "enough")
    with pytest.raises(WireFault, match="farewell"):
        read_bye(Frame(Kind.BYE, 0, b"\x01"))


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
    assert read_bye(frame) == r"p2\np3: stopped: reason the disk is full\x1b[2J"
    assert read_bye(Frame(Kind.BYE, 0, msgspec.msgpack.encode("x" * 9_999))) == "x" * 1_000
    quarrel = HELLO.quarrel(msgspec.structs.replace(HELLO, name="p2", to="p1", protocol=FORGED))
    assert str(WireFault(quarrel)).isprintable()
    tag = body_of([msgspec.msgpack.encode([FORGED, 1])])
    with pytest.raises(WireFault) as fault:
        Codec(Frontier, MEMBERS).decode(Frame(Kind.PACKETS, 1, tag), "p1")
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
        ({"protocol": "two-phase", "options": {}}, "p2 runs two-phase, p1 frontier mode=all"),
    ],
)
def test_two_that_mean_different_groups_do_not_talk(
    change: dict[str, object], quarrel: str
) -> None:
    theirs = msgspec.structs.replace(HELLO, name="p2", to="p1")
    assert HELLO.quarrel(msgspec.structs.replace(theirs, **change)) == quarrel
