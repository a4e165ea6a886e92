"""``tidings proxy``: links that misbehave, line by line."""

import re
import sys
import time
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from tidings.cli.common import app, err, say
from tidings.core import DataError, Exit, UsageError
from tidings.disk.files import whole_file
from tidings.node.config import Address, parse_config, read_config
from tidings.report import many
from tidings.testkit.faulty_links import FaultyLink, Flow
from tidings.testkit.proxy import Do, Proxy, in_background

MARK = "# Made by tidings proxy: "
DAY_MS = 24 * 60 * 60 * 1000


@app.command(
    name="proxy",
    epilog="Example: tidings proxy --member p1=127.0.0.1:7001 --member p2=127.0.0.1:7002",
)
def proxy_command(
    file: Annotated[
        Path | None,
        typer.Argument(help="A group file; for each member one is written beside it."),
    ] = None,
    member: Annotated[
        list[str] | None,
        typer.Option(help="Instead, a member and where it listens: p1=127.0.0.1:7001."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides the jitter.")] = 0,
) -> None:
    """Stand between the members of a group and make their links misbehave.

    Each member calls the others through the proxy, at addresses that are
    printed; with a group file (group.toml) it is enough to start each with
    its own (group-p1.toml). Commands come from standard input, one per
    line, until it ends:

    delay LINKS 20ms, delay LINKS 20ms jitter 10ms
    throttle LINKS 64kB/s, throttle LINKS off
    cut LINKS, hole LINKS, refuse LINKS, half-open LINKS
    reset LINKS, reset LINKS after 100 bytes
    heal, heal LINKS, show, show LINKS
    at 500ms COMMAND

    LINKS are p1->p2 and others like it, or all those between two sides, as in
    p1 p2 | p3, or all. Exits 64 if there was a line that it did not understand.
    """
    proxy = Proxy(_addresses(file, member or []), seed=seed)
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # what is no text is no command either
    mistakes = 0
    with in_background(proxy) as do:
        say(f"seed   {seed}")
        _introduce(proxy, file)
        commands = Commands(proxy, do)
        say("ready")
        for number, line in enumerate(sys.stdin, start=1):
            try:
                for answer in commands.obey(line):
                    say(answer)
            except UsageError as fault:
                mistakes += 1
                err.print(f"tidings: line {number}: {fault}", soft_wrap=True)
    raise typer.Exit(Exit.USAGE if mistakes else 0)


def _addresses(file: Path | None, given: list[str]) -> dict[str, Address]:
    if file is not None and given:
        raise UsageError("the group file says who is in the group; leave --member out")
    if file is not None:
        return read_config(file).addresses
    if not given:
        raise UsageError("name a group file, or each member as --member p1=127.0.0.1:7001")
    members: dict[str, str] = {}
    for words in given:
        name, mark, address = words.partition("=")
        if not mark or re.search(r"['\s]", words):
            raise UsageError(f"write --member p1=127.0.0.1:7001, not {words!r}")
        if name in members:
            raise UsageError(f"--member: {name} stands twice in the group")
        members[name] = address
    lines = [f"'{name}' = '{address}'" for name, address in members.items()]
    try:
        text = "\n".join(["name = 'proxied'", "tls.plain = true", "[members]", *lines])
        return parse_config(text, Path("--member")).addresses
    except DataError as fault:
        _, _, what = str(fault).partition(": ")
        raise UsageError(f"--member: {what}") from None


def _introduce(proxy: Proxy, file: Path | None) -> None:
    for link in proxy:
        say(f"{link.sender} calls {link.receiver} at {link.door.address}")
    if file is None:
        return
    text = file.read_text(encoding="utf-8")
    for name in proxy.members:
        seen = file.with_name(f"{file.stem}-{name}{file.suffix}")
        if seen.exists() and not seen.read_text(encoding="utf-8").startswith(MARK):
            raise UsageError(f"{seen} is there already, and not made by tidings proxy")
        described = f"{MARK}{file.name} as {name} sees it.\n"
        with whole_file(seen) as draft:
            draft.write_text(described + proxy.group_file_for(name, text, file), encoding="utf-8")
        say(f"{name} reads {seen}")


class Commands:
    """What can be said to the links, in the manner of scenario files."""

    def __init__(self, proxy: Proxy, do: Do) -> None:
        self.proxy = proxy
        self._do = do
        self._start_s = time.monotonic()

    def obey(self, line: str) -> list[str]:
        """Do what one line says, and answer with the links that it was about."""
        line = line.strip()
        if not line or line.startswith("#"):
            return []
        name, _, rest = line.partition(" ")
        if name == "at":
            return self._at(rest.strip())
        if name not in VERBS:
            raise UsageError(f"unknown command {name!r}; known: {', '.join([*VERBS, 'at'])}")
        verb = VERBS[name]
        words = re.fullmatch(verb.how, rest.strip())
        if words is None:
            raise UsageError(f"write: {verb.example}")
        links = self._links(words["links"] or "all")

        def act() -> list[str]:
            for link in links:
                verb.act(link, words)
            return [described(link) for link in links]

        return self._do(act)

    def _at(self, rest: str) -> list[str]:
        when, _, line = rest.partition(" ")
        if not line.strip():
            raise UsageError("write: at 500ms COMMAND")
        time.sleep(max(0.0, self._start_s + _ms(when) / 1e3 - time.monotonic()))
        return self.obey(line)

    def _links(self, words: str) -> list[FaultyLink]:
        """The links that these words mean; all of them are known before anything is done."""
        if words == "all":
            return list(self.proxy)
        if "|" in words:
            one, other = (side.split() for side in words.split("|", maxsplit=1))
            links = self.proxy.between(one, other)
        else:
            links = [self.proxy[_pair(word)] for word in words.split()]
        if not links:
            raise UsageError("name somebody on both sides: p1 p2 | p3")
        return links


def described(link: FaultyLink) -> str:
    """What a link is like, in words."""
    faults = [
        *([link.flow.value] if link.flow is not Flow.OPEN else []),
        *(["refuses calls"] if link.is_refusing else []),
        *([f"reset after {many(link.bytes_to_reset, 'byte')}"] if link.bytes_to_reset else []),
        *([f"delay {link.delay_ms:g}ms"] if link.delay_ms or link.jitter_ms else []),
        *([f"jitter {link.jitter_ms:g}ms"] if link.jitter_ms else []),
        *([f"throttle {link.bytes_per_s:.0f}B/s"] if link.bytes_per_s else []),
    ]
    return (
        f"{link}  {', '.join(faults) or 'open'}; {many(len(link.pipes), 'connection')}, "
        f"{link.bytes_passed:,} bytes passed, {link.bytes_waiting:,} waiting, "
        f"{link.bytes_swallowed:,} swallowed"
    )


def _pair(word: str) -> tuple[str, str]:
    sender, arrow, receiver = word.partition("->")
    if not (sender and arrow and receiver):
        raise UsageError(f"{word!r} is not a link; write it as p1->p2, or p1 p2 | p3, or all")
    return sender, receiver


def _ms(word: str) -> float:
    number = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s)", word)
    if number is None:
        raise UsageError(f"{word!r} is not a time; write it as 20ms or 2s")
    ms = float(number[1]) * (1 if number[2] == "ms" else 1000)
    if ms > DAY_MS:
        raise UsageError(f"{word} is longer than a day")
    return ms


def _bytes_per_s(word: str) -> float | None:
    if word == "off":
        return None
    number = re.fullmatch(r"(\d+(?:\.\d+)?)([kM]?)B/s", word)
    if number is None:
        raise UsageError(f"{word!r} is no speed; write it as 64kB/s, or off")
    return float(number[1]) * {"": 1, "k": 1_000, "M": 1_000_000}[number[2]]


class Verb(NamedTuple):
    how: str
    """What may follow, as a pattern."""
    act: Callable[[FaultyLink, re.Match[str]], None]
    example: str


_LINKS = r"(?P<links>\S.*?)"
VERBS = {
    "delay": Verb(
        rf"{_LINKS}\s+(?P<ms>[\d.]\S*)(?:\s+jitter\s+(?P<jitter>\S+))?",
        lambda link, words: link.delay(_ms(words["ms"]), _ms(words["jitter"] or "0ms")),
        "delay p1->p2 20ms, or: delay p1->p2 20ms jitter 10ms",
    ),
    "throttle": Verb(
        rf"{_LINKS}\s+(?P<speed>[\d.]\S*|off)",
        lambda link, words: link.throttle(_bytes_per_s(words["speed"])),
        "throttle p1->p2 64kB/s, or: throttle p1->p2 off",
    ),
    "cut": Verb(_LINKS, lambda link, _: link.cut(), "cut p1->p2, or: cut p1 p2 | p3"),
    "hole": Verb(_LINKS, lambda link, _: link.hole(), "hole p1->p2"),
    "refuse": Verb(_LINKS, lambda link, _: link.refuse(), "refuse p1->p2"),
    "reset": Verb(
        rf"{_LINKS}(?:\s+after\s+(?P<bytes>\d{{1,15}})\s+bytes?)?",
        lambda link, words: link.reset(int(words["bytes"] or 0)),
        "reset p1->p2, or: reset p1->p2 after 100 bytes",
    ),
    "half-open": Verb(_LINKS, lambda link, _: link.half_open(), "half-open p1->p2"),
    "heal": Verb(f"{_LINKS}?", lambda link, _: link.heal(), "heal, or: heal p1->p2"),
    "show": Verb(f"{_LINKS}?", lambda link, _: None, "show, or: show p1->p2"),
}
