"""group.toml: what it says by default, and every mistake with its line."""

from pathlib import Path

import pytest

from tidings.core import DataError, UsageError, take_first
from tidings.core.toml_file import line_of
from tidings.node.config import Address, Config, parse_config, read_config
from tidings.protocols.frontier import Frontier

GOOD = """\
name = "chat"
durable = false

[members]
p1 = "127.0.0.1:7001"
p10 = "localhost:7010"
p2 = "[::1]:7002"

[limits]
window = 100

[tls]
plain = true
"""


def parse(text: str) -> Config:
    return parse_config(text, Path("some/group.toml"))


def test_a_group_file_in_few_lines() -> None:
    config = parse(GOOD)
    assert config.members == ("p1", "p2", "p10")
    assert config.addresses["p2"] == Address("::1", 7002)
    assert str(config.addresses["p2"]) == "[::1]:7002"
    assert config.protocol == "frontier"
    assert config.limits.window == 100
    assert config.data == Path("some/data")
    assert config.trace_folder == Path("some/trace")


def test_what_the_node_decides_reaches_the_process() -> None:
    process = parse(GOOD).process("p2", take_first)
    assert isinstance(process, Frontier)
    assert (process.broadcasting.window, process.log.until_processed) == (100, False)
    durable = parse(GOOD.replace("false", "true")).process("p2", take_first)
    assert isinstance(durable, Frontier)
    assert durable.log.until_processed
    relay = parse(GOOD.replace("durable", 'protocol = "majority-relay"\ndurable'))
    assert relay.process("p1", take_first).members == ("p1", "p2", "p10")
    with pytest.raises(UsageError, match="p3 is not in the group; its members: p1, p2, p10"):
        relay.process("p3", take_first)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("window = 100", "window = 0", "10: limits.window: expected int >= 1"),
        ("window = 100", "window = 'many'", "10: limits.window: expected int, got str"),
        (
            "window = 100",
            "widow = 100",
            "10: limits.widow: there is no such setting; did you mean limits.window?",
        ),
        (
            "durable = false",
            "window = 100",
            "2: window: there is no such setting; did you mean limits.window?",
        ),
        (
            "[limits]",
            "[metrics]\np11 = '[::1]:9'\n[limits]",
            "10: metrics.p11: not a member of the group; did you mean p1",
        ),
        (
            "window = 100",
            "window 100",
            "10: Expected '=' after a key in a key/value pair, in 'window 100'",
        ),
        ("window = 100", "window = [", "12: Invalid value"),
        ("window = 100", "window = 1\nwindow = 2", "11: Cannot overwrite a value, in 'window = 2'"),
        ("[limits]", "[limit]", "9: limit: there is no such setting; did you mean limits?"),
        ("durable = false", "durable = 1", "2: durable: expected bool, got int"),
        ('name = "chat"', "", "1: missing: name"),
        ('name = "chat"', 'name = "a b"', "1: name: 'a b' is not a name"),
        ('p1 = "127.0.0.1:7001"', "p1 = 7001", "5: members.p1: expected str, got int"),
        ('p1 = "127.0.0.1:7001"', '"p 1" = "[::1]:1"', "5: members.p 1: not a name"),
        ('p1 = "127.0.0.1:7001"', 'p1 = "7001"', "5: members.p1: '7001' is not an address"),
        ('p1 = "127.0.0.1:7001"', 'p1 = "[::1]:0"', "5: members.p1: '[::1]:0' is not an address"),
        ('p1 = "127.0.0.1:7001"', 'p1 = "10.0.0.1:1"', "5: members.p1: 10.0.0.1:1 is not on loop"),
        ('p1 = "127.0.0.1:7001"', 'p1 = "db.host:1"', "5: members.p1: db.host:1 is not on loop"),
        ('p1 = "127.0.0.1:7001"', 'p1 = "0.0.0.0:1"', "5: members.p1: 0.0.0.0:1 is not on loop"),
        ('"localhost:7010"', '"[::1]:7002"', "7: members.p2: [::1]:7002 is the address of p10"),
        ("durable = false", 'protocol = "urb"', "2: protocol: unknown protocol 'urb'"),
        ("durable = false", "options.mood = 1", "2: options.mood: frontier has no option 'mood'"),
        ("durable = false", "options.mode = 'x'", "2: options.mode: mode is auto or all or "),
        ("durable = false", "options.window = 5", "2: options.window: set limits.window instead"),
        ("durable = false", "options.batch_ms = 'x'", "2: options.batch_ms: batch_ms is a num"),
        ("durable = false", "limits.frame_bytes = 1000", "9: "),
        ("window = 100", "frame_bytes = 1000", "10: limits.frame_bytes: texts of up to"),
        ("window = 100", "queue_bytes = 1000", "10: limits.queue_bytes: limits.queue_b"),
        (
            "window = 100",
            "text_bytes = 20000000",
            "10: limits.text_bytes: texts of up to 20,000,000 bytes (limits.text_bytes) need "
            "limits.frame_bytes = 21048576 or more, not 2097152",
        ),
        (
            "window = 100",
            "frame_bytes = 90000000",
            "10: limits.frame_bytes: limits.queue_bytes = 67108864 is less than one frame, ",
        ),
        ("[limits]", "[links]\nsilence_ms = 9\n[limits]", "10: links.silence_ms: must be more"),
        ("[limits]", "[links]\nback_off_ms_max = 9\n[limits]", "10: links.back_off_ms_max: less"),
        ("[limits]", "[links]\nrefused_ms_max = 9\n[limits]", "10: links.refused_ms_max: less"),
        ("[limits]", "[metrics]\np9 = '[::1]:9'\n[limits]", "10: metrics.p9: not a member"),
        ("[limits]", "[metrics]\np1 = '8.8.8.8:9'\n[limits]", "10: metrics.p1: 8.8.8.8:9 is not"),
        (
            "[limits]",
            "[metrics]\np1 = '127.0.0.1:7001'\n[limits]",
            "10: metrics.p1: 127.0.0.1:7001 is where p1 listens to the others",
        ),
        (GOOD, 'name = "x"\n[members]\n', "2: members: a group has at least one member"),
        (
            "durable = false",
            'protocol = "two-phase"',
            "2: protocol: two-phase keeps nothing on disk; write durable = false, or take frontier",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_line(old: str, new: str, complaint: str) -> None:
    assert old in GOOD
    with pytest.raises(DataError) as fault:
        parse(GOOD.replace(old, new))
    assert str(fault.value).startswith(f"some/group.toml:{complaint}")
    assert len(str(fault.value).splitlines()) == 1


def test_lines_of_keys_however_they_are_written() -> None:
    text = 'a.b = 1\n[x]\ny = 2\n[ x . "z" ]\nw = 3\n'
    assert line_of(text, ["a", "b"]) == 1
    assert line_of("x = 1\n\n[y.z]\nw = 2\n", ["y"]) == 3
    assert line_of(text, ["x", "y"]) == 3
    assert line_of(text, ["x", "z"]) == 4
    assert line_of(text, ["x", "z", "w"]) == 5
    assert line_of(text, ["x", "z", "nowhere"]) == 4
    assert line_of(text, []) == 1


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"No such file .*; tidings group p1 p2 p3 makes one"):
        read_config(tmp_path / "group.toml")
    with pytest.raises(UsageError, match=r"; tidings group alice OTHER \.\.\. makes one"):
        read_config(tmp_path / "group.toml", "alice")
    (tmp_path / "group.toml").write_bytes(b'name = "\xff"')
    with pytest.raises(DataError, match="not UTF-8"):
        read_config(tmp_path / "group.toml")
