"""A violation as a test that anybody can run: the schedule as plain data, and what comes of it.

The test needs nothing but Tidings: no trace, no seed. It is laid out as ``ruff format`` would.
"""

import re
import textwrap
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from tidings.core import DataError
from tidings.report.explain import explain
from tidings.report.schedule import ScheduledStep, steps
from tidings.report.words import packet_of
from tidings.spec import Extra, Guarantee, Violation, broken, judge
from tidings.spec.evidence import place
from tidings.trace import Run

_WIDTH = 100
_FOLDED = textwrap.TextWrapper(_WIDTH, subsequent_indent=" " * 6, break_on_hyphens=False)

_FILE = '''\
"""A reproduction, as ``tidings`` found it.

{proof}
"""

{library}import msgspec

{imports}

GROUP = {group}
PROTOCOL = {protocol}
OPTIONS = {options}

{helpers}SCHEDULE = [
{schedule}
]

# Once the flaw is mended, this line makes a regression test of it: EXPECTED = None
EXPECTED = {violation}


def play() -> Run:
    """The run again. A step that no longer fits, since other packets are sent now, is named."""
    manifest = Manifest(
        schema=SCHEMA_VERSION,
        run={run},
        names=GROUP,
        views=(GROUP,),
        protocol={found},
        options=OPTIONS,{plan}
        schedule=msgspec.Raw(msgspec.json.encode(SCHEDULE)),
    )
    world = world_of(manifest)
    return recorded(world, replay(world, SCHEDULE), protocol=PROTOCOL, options=OPTIONS)


def test_{name}_is_violated() -> None:
    assert broken(play(), {guarantee}{most}) == EXPECTED


def test_nothing_else_is_violated() -> None:
    violated = {{verdict.guarantee for verdict in judge(play()) if verdict.violations}}
    assert violated - {{{guarantee}}} == {others}
'''

_SEARCH = '''\
def found(protocol: str) -> str:
    """A class in a file: looked for where this test was made, then in the folders around it."""
    here = Path(__file__).resolve().parent
    folders = [(here / {made_in}).resolve(), here, *here.parents]
    file = protocol.rpartition(".py")[0] + ".py"
    for folder in folders:
        if (folder / file).is_file():
            return str(folder / protocol)
    raise FileNotFoundError(f"{{file}} is in none of {{', '.join(map(str, folders))}}")
'''

_PACKET = '''\
def packet(sender: str, receiver: str, number: int) -> PacketId:
    """A packet is named by its link and its number on it."""
    return PacketId(Link(sender, receiver), number)
'''


def file_name(run: Run, violation: Violation) -> str:
    """A name of its own: pytest wants no two files of one name in the folders that it is given."""
    return re.sub(r"[^\w.]+", "_", f"test_{run.manifest.run}_{violation.guarantee}.py")


def as_pytest(run: Run, violation: Violation, *, made_in: str = ".") -> str:
    """A pytest file that plays the run again and expects exactly this violation, the first.

    ``made_in`` leads from its folder to the one from which the run's protocol was named, if that
    is a class in a file.
    """
    manifest = run.manifest
    is_own = ".py" in str(manifest.protocol)
    most_packets = _allowed(run, violation) if violation.guarantee is Extra.COST else None
    first = broken(run, violation.guarantee, most_packets)
    # Where it comes from takes more than one guarantee to see.
    alone = msgspec.structs.replace(violation, root=None)
    assert first == alone, f"{violation} is not the first in the run, which is {first}"
    schedule = [_step(step) for step in steps(manifest)]
    if not schedule:
        raise DataError(f"run {manifest.run} has no schedule and cannot be played again")
    links = manifest.plan.get("links", "retrying")
    used = set(_names(schedule))
    violated = [verdict.guarantee for verdict in judge(run) if verdict.violations]
    others = [_member(one) for one in violated if one is not violation.guarantee]
    proof = explain(violation, manifest.run, manifest.seed, trace=run)
    helpers = [_SEARCH.format(made_in=_quoted(made_in))] if is_own else []
    helpers += [_PACKET] if "packet" in used else []
    return _FILE.format(
        proof="\n".join(line for long in proof.splitlines() for line in _FOLDED.wrap(long)),
        imports="\n".join(_imports(used, [_member(violation.guarantee), *others])),
        group=_laid_out(_tuple(map(_quoted, manifest.views[0])), room=len("GROUP = ")),
        library="from pathlib import Path\n\n" if is_own else "",
        found="found(PROTOCOL)" if is_own else "PROTOCOL",
        protocol=_quoted(str(manifest.protocol)),
        options=_laid_out(_value(manifest.options), room=len("OPTIONS = ")),
        helpers="".join(f"\n{helper}\n" for helper in helpers) + "\n" * bool(helpers),
        schedule="\n".join(_schedule(run, schedule)),
        violation=_laid_out(_violation(violation), room=len("EXPECTED = ")),
        run=_quoted(manifest.run),
        plan="" if links == "retrying" else f'\n        plan={{"links": {_quoted(links)}}},',
        name=violation.guarantee.replace(" ", "_"),
        guarantee=_member(violation.guarantee),
        most="" if most_packets is None else f", {most_packets}",
        others=f"{{{', '.join(others)}}}" if others else "set()",
    )


def _allowed(run: Run, violation: Violation) -> int:
    """How many packets were allowed: as many as were sent before the first too many."""
    sent = sorted((row for row in run.rows if row.kind == "send"), key=lambda row: row.time_ns)
    return [place(row) for row in sent].index(violation.witness[0])


# --- a small part of Python


class Call(NamedTuple):
    """A name and what stands in the brackets after it; a tuple is a call without a name."""

    name: str
    arguments: tuple["Node", ...]


Node = str | Call


def _quoted(words: str | bytes) -> str:
    """A literal in double quotes, as formatters like it."""
    literal = repr(words)
    prefix = "b" if isinstance(words, bytes) else ""
    inner = literal.removeprefix(prefix)
    if inner.startswith("'") and '"' not in inner:
        inner = '"' + inner[1:-1].replace("\\'", "'") + '"'
    return prefix + inner


def _tuple(items: Iterable[Node]) -> Call:
    return Call("", tuple(items))


def _value(value: Any) -> Node:
    """A value from JSON, as Python writes it."""
    if isinstance(value, dict):
        code = ", ".join(f"{_quoted(key)}: {_in_line(_value(one))}" for key, one in value.items())
        return f"{{{code}}}"
    if isinstance(value, list | tuple):
        return _tuple(map(_value, value))
    return _quoted(value) if isinstance(value, str) else repr(value)


def _in_line(node: Node) -> str:
    if isinstance(node, str):
        return node
    inner = ", ".join(map(_in_line, node.arguments))
    is_single = not node.name and len(node.arguments) == 1
    return f"{node.name}({inner}{',' if is_single else ''})"


def _laid_out(node: Node, *, indent: int = 0, room: int = 0) -> str:
    """On one line if it fits beside what else takes ``room`` there, else one argument a line."""
    line = _in_line(node)
    if isinstance(node, str) or indent + room + len(line) <= _WIDTH:
        return line
    inner = "".join(
        f"{' ' * (indent + 4)}{_laid_out(one, indent=indent + 4, room=1)},\n"
        for one in node.arguments
    )
    return f"{node.name}(\n{inner}{' ' * indent})"


def _names(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, Call):
            yield node.name
            yield from _names(node.arguments)


# --- the schedule


def _step(step: ScheduledStep) -> Call:
    draws = [_tuple(map(str, step.draws))] if step.draws else []
    return Call("Step", (f"{step.time_ns:_}", _choice(*step.choice), *draws))


_CLASSES = {
    "broadcast": "UserBroadcast",
    "receive": "PacketArrival",
    "timeout": "TimerExpiry",
    "take": "UserProcessed",
}
"""The classes of choices that are not called as they are tagged."""


def _choice(kind: str, *fields: Any) -> Call:
    name = _CLASSES.get(kind, kind.capitalize())
    if kind == "broadcast":
        process, text = fields
        return Call(name, (_quoted(process), _quoted(b64decode(text))))
    while len(fields) > 1 and not fields[-1] and not isinstance(fields[-1], str):
        fields = fields[:-1]  # what is usual goes without saying
    return Call(name, tuple(map(_field, fields)))


def _field(value: Any) -> Node:
    match value:
        case [[str() as sender, str() as receiver], int() as number]:
            return Call("packet", (_quoted(sender), _quoted(receiver), str(number)))
        case [str() as sender, str() as receiver]:
            return Call("Link", (_quoted(sender), _quoted(receiver)))
        case [str() as origin, int() as seq]:
            return Call("MessageId", (_quoted(origin), str(seq)))
        case list():
            return _tuple(map(_field, value))
    return _value(value)


def _schedule(run: Run, schedule: Sequence[Call]) -> Iterator[str]:
    """One step a line; what arrives is named, where there is room for it."""
    sent = {
        (row.process, row.peer, row.packet): packet_of(row)
        for row in run.rows
        if row.kind == "send"
    }
    for step, call in zip(steps(run.manifest), schedule, strict=True):
        line = f"    {_laid_out(call, indent=4, room=1)},"
        match step.choice:
            case ("receive" | "duplicate" | "drop", [[sender, receiver], number]):
                comment = f"  # {sent.get((sender, receiver, number), '')}"
                if len(line) + len(comment) <= _WIDTH and len(comment) > 4:
                    line += comment
        yield line


# --- the violation


def _violation(violation: Violation) -> Call:
    places = [Call("Place", (_quoted(one.process), str(one.index))) for one in violation.witness]
    fields = {
        "guarantee": _member(violation.guarantee),
        "process": _quoted(violation.process),
        "message": _field([*violation.message]),
        "witness": _tuple(places),
    }
    if violation.cause is not None:
        fields["cause"] = _field([*violation.cause])
    if violation.note:
        fields["note"] = _quoted(violation.note)
    return Call("Violation", tuple(f"{name}={_in_line(one)}" for name, one in fields.items()))


def _member(guarantee: Guarantee | Extra) -> str:
    return f"{type(guarantee).__name__}.{guarantee.name}"


def _imports(used: set[str], members: Iterable[str]) -> Iterator[str]:
    choices = used - {"", "packet", "MessageId"}
    if "packet" in used:
        choices |= {"Link", "PacketId"}
    enums = {member.partition(".")[0] for member in members}
    imported = {
        "core": ["MessageId"],
        "simulator": ["recorded", "replay"],
        "simulator.choices": sorted(choices),
        "simulator.play": ["world_of"],
        "spec": [*sorted({*enums, "Place", "Violation"}), "broken", "judge"],
        "trace": ["SCHEMA_VERSION", "Manifest", "Run"],
    }
    for module, names in imported.items():
        line = f"from tidings.{module} import {', '.join(names)}"
        lines = "".join(f"    {name},\n" for name in names)
        yield line if len(line) <= _WIDTH else f"from tidings.{module} import (\n{lines})"
