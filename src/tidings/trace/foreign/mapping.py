"""The mapping file: what the columns of a foreign log mean, and what the log cannot tell.

    [columns]
    process = "client"
    kind    = "event"
    order   = "@line"
    id      = "uuid"
    text    = "payload"

    [kinds]
    broadcast = "published"
    deliver   = ["received", "redelivered"]

    [group]
    members = ["p1", "p2", "p3"]

    [end]
    settled = true

Nothing on which a verdict rests has a default: which order counts, who the members are, whether
texts can be compared must be written down. What became of each process need not be; then
what depends on it comes out as unknown. docs/audit-your-broker.md explains every field.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from tidings.core import UsageError
from tidings.core.toml_file import TomlFile, TomlTable
from tidings.trace.manifest import Fate
from tidings.trace.schema import Kind

FILE = "@file"
"""Instead of a column: the name of the file, without its ending."""
LINE = "@line"
"""Instead of a column of order: files as they are given, lines as they stand."""
ID = "@id"
"""Instead of a column of texts: none is recorded, and the name of a message stands for its text."""
FROM_THE_LOG = "from the log"
EVERYTHING_ELSE = "*"

MESSAGES: tuple[Kind, ...] = ("broadcast", "deliver", "held")
"""The kinds of rows that are about a message."""

Value = str | int | bool
Values = Value | tuple[Value, ...]
Unit = Literal["s", "ms", "us", "ns", "iso8601"]


class Columns(TomlTable, frozen=True):
    process: str
    kind: str
    order: str
    text: str
    id: str | None = None
    origin: str | None = None
    seq: str | None = None
    time: str | None = None
    run: str | None = None
    place: str | None = None
    """Where a row of a table is to be looked up: a column of whole numbers."""


class Kinds(TomlTable, frozen=True):
    broadcast: Values
    deliver: Values
    held: Values = ()
    crash: Values = ()
    recover: Values = ()
    leave: Values = ()
    settle: Values = ()
    ignore: Values = ()


class Forms(TomlTable, frozen=True):
    order: Literal["number"] | Unit = "number"
    time: Unit | None = None
    text: Literal["utf-8", "base64", "hex"] = "utf-8"


class Csv(TomlTable, frozen=True):
    delimiter: str = ","
    header: tuple[str, ...] = ()
    """The names of the columns, for files without a line of them."""


class Keep(TomlTable, frozen=True):
    text: bool = False
    """Whether the trace keeps the texts themselves, for an operator to look at."""


class MappedGroup(TomlTable, frozen=True):
    members: tuple[str, ...] | str


class MappedEnd(TomlTable, frozen=True):
    settled: bool | tuple[str, ...] = False
    fates: dict[str, Fate] = {}

    @property
    def listed(self) -> tuple[str, ...]:
        """Those who are said by name to have settled."""
        return () if isinstance(self.settled, bool) else self.settled

    def settles(self, process: str) -> bool:
        """Whether it was up at the end, and its rows are all there is of it."""
        if isinstance(self.settled, bool):
            return self.settled and self.fates.get(process, "up") == "up"
        return process in self.settled


class Mapping(TomlTable, frozen=True):
    columns: Columns
    kinds: Kinds
    group: MappedGroup
    end: MappedEnd = MappedEnd()
    forms: Forms = Forms()
    ignore: dict[str, Values] = {}
    csv: Csv = Csv()
    keep: Keep = Keep()
    run: str | None = None
    system: str | None = None

    @property
    def members(self) -> tuple[str, ...] | None:
        """The members, or None if they are whoever the log has rows of."""
        return None if isinstance(self.group.members, str) else self.group.members

    @property
    def read_columns(self) -> tuple[str, ...]:
        """Every column of the log that is looked at."""
        columns = msgspec.structs.replace(self.columns, place=None)
        named = [*msgspec.structs.astuple(columns), *self.ignore]
        return tuple(dict.fromkeys(name for name in named if name and not name.startswith("@")))

    @property
    def meanings(self) -> dict[str, str]:
        """What each value of the kind column means."""
        return {
            word: kind
            for kind in Kinds.__struct_fields__
            for word in words(getattr(self.kinds, kind))
        }


def words(values: Values) -> Iterator[str]:
    """Values as they are compared: as the text that stands in the log."""
    for value in values if isinstance(values, tuple) else (values,):
        yield str(value).lower() if isinstance(value, bool) else str(value)


def read_mapping(path: Path) -> Mapping:
    file = TomlFile(path)
    mapping = file.as_a(Mapping)
    for keys, fault in _mistakes(mapping):
        raise file.error(keys, fault)
    return mapping


def with_end(mapping: Mapping, settled: Sequence[str], fates: dict[str, Fate]) -> Mapping:
    """The mapping with what else is known about the end; the later word counts."""
    latest = True if settled == ["all"] else tuple(settled)
    end = MappedEnd(settled=latest or mapping.end.settled, fates=mapping.end.fates | fates)
    changed = msgspec.structs.replace(mapping, end=end)
    for keys, fault in _mistakes_in_end(changed):
        raise UsageError(f"{'.'.join(keys)}: {fault}")
    return changed


Mistake = tuple[Sequence[str], str]


def _mistakes(mapping: Mapping) -> Iterator[Mistake]:
    """What no type can tell, in the order in which a reader would like to hear it."""
    for role, name in msgspec.structs.asdict(mapping.columns).items():
        special = _SPECIAL.get(role)
        if name is not None and name.startswith("@") and name != special:
            instead = f", only {special}" if special else ""
            yield ["columns", role], f"{name} has no meaning here{instead}"
        if name == "":
            yield ["columns", role], "the name of a column is missing"
    yield from ((keys, fault) for is_broken, keys, fault in _rules(mapping) if is_broken)
    yield from _mistakes_in_end(mapping)


_SPECIAL = {"process": FILE, "kind": FILE, "run": FILE, "order": LINE, "text": ID}
"""What can stand instead of the name of a column."""


def _rules(mapping: Mapping) -> Iterator[tuple[bool, Sequence[str], str]]:
    """Whether each rule is broken, where, and what to say then."""
    columns, forms, members = mapping.columns, mapping.forms, mapping.members
    has_id, has_seq = columns.id is not None, columns.seq is not None
    has_time = columns.time is not None
    yield from (
        (
            not has_id and not has_seq,
            ["columns"],
            "what names a message? give id, or origin and seq",
        ),
        (
            has_id and has_seq,
            ["columns", "seq"],
            "id names a message already; leave out one of them",
        ),
        (
            has_seq and columns.origin is None,
            ["columns", "seq"],
            "a number names a message only beside the column of its origin",
        ),
        (
            has_time and forms.time is None,
            ["columns", "time"],
            'in which unit? give forms.time: "s", "ms", "us", "ns", "iso8601"',
        ),
        (
            not has_time and forms.time is not None,
            ["forms", "time"],
            "the unit of which column? give columns.time",
        ),
        (
            mapping.run is not None and columns.run is not None,
            ["run"],
            "columns.run tells the run already; leave out one of them",
        ),
        *((True, keys, fault) for keys, fault in _mistakes_in_kinds(mapping)),
        (
            members is None and mapping.group.members != FROM_THE_LOG,
            ["group", "members"],
            f'give a list of names, or "{FROM_THE_LOG}"',
        ),
        (
            members is not None and (not members or len(set(members)) < len(members)),
            ["group", "members"],
            "a group has at least one member, and each of them once",
        ),
        (
            len(mapping.csv.delimiter) != 1,
            ["csv", "delimiter"],
            "one character separates columns",
        ),
    )


def _mistakes_in_kinds(mapping: Mapping) -> Iterator[Mistake]:
    seen: dict[str, str] = {}
    for kind in Kinds.__struct_fields__:
        for word in words(getattr(mapping.kinds, kind)):
            if word in seen:
                yield ["kinds", kind], f"{word!r} means {seen[word]} already"
            if word == EVERYTHING_ELSE and kind != "ignore":
                yield ["kinds", kind], f"{EVERYTHING_ELSE!r} can only be ignored"
            seen[word] = kind


def _mistakes_in_end(mapping: Mapping) -> Iterator[Mistake]:
    for name in mapping.end.listed:
        if mapping.end.fates.get(name, "up") != "up":
            yield ["end", "settled"], f"{name} cannot have settled: its fate is told otherwise"
