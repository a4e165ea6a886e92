"""What rows say, as the mapping has it: columns of cells become columns of numbers.

Rows that are ignored are left out. What is wrong with a row is found by masks over all of them;
only the first bad row of all is put into words.
"""

import binascii
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.pipeline.sources.cells import Cells
from tidings.pipeline.sources.hashing import SEED, hashed
from tidings.pipeline.sources.numbers import NO_NUMBER, moments, numbers_of
from tidings.trace.foreign import FILE, ID, LINE, MESSAGES, Mapping
from tidings.trace.foreign.mapping import EVERYTHING_ELSE, words
from tidings.trace.schema import KINDS, LONGEST_WORD

KIND = {kind: code for code, kind in enumerate(KINDS)}
IGNORED, UNKNOWN = -1, -2
"""Instead of a kind: rows to be left out; rows with a fault."""
ABSENT = -1
_OTHER_SEED = SEED + 1


class BadRow(NamedTuple):
    """The first row that is wrong, and why."""

    position: int
    why: str


class Meant(NamedTuple):
    """Rows that count, as columns of the same length."""

    columns: dict[str, Any]
    """position, kind, and what the mapping tells of: order, time_ns, seq, digest; ``key`` and
    ``other_key`` (of an id), ``id``, ``text``."""
    run: "Words"
    process: "Words"
    origin: "Words | None"
    read: int
    ignored: int
    bad: BadRow | None


class Words(NamedTuple):
    """A column of words, by their places in a list; a place below 0 has none."""

    codes: Any
    words: Sequence[str]

    @classmethod
    def of(cls, texts: Any) -> "Words":
        encoded = texts.dictionary_encode()
        codes = encoded.indices.fill_null(ABSENT).to_numpy(zero_copy_only=False)
        found = encoded.dictionary.to_pylist()
        if "" in found:  # as good as none
            codes = np.where(codes == found.index(""), ABSENT, codes)
        return cls(codes, found)

    def where(self, mask: Any) -> "Words":
        return Words(self.codes[mask], self.words)

    def each(self, of_word: Callable[[str], Any], otherwise: Any) -> Any:
        """For each row what is so of its word."""
        return np.array([*map(of_word, self.words), otherwise])[self.codes]

    @property
    def is_missing(self) -> Any:
        return self.codes == ABSENT


class Fault(NamedTuple):
    """One thing that can be wrong: where, with which rows, and in which words."""

    role: str
    is_there: Any
    words: Callable[[Any], str]
    """Of the value in that role."""


class Meaning(NamedTuple):
    """The columns of a log, interpreted by a mapping."""

    mapping: Mapping
    run: str
    keeps_text: bool
    is_csv: bool = False
    """Whether nobody can tell an empty text from none."""

    def of(self, cells: Cells, source: str) -> Meant:
        """What these rows of one source say."""
        kind = self._kind(cells, source)
        read = len(kind)
        counts = kind != IGNORED
        ignored = read - int(np.count_nonzero(counts))
        if ignored:
            mask = pa.array(counts)
            columns = [column.filter(mask) for column in cells.columns]
            cells = cells._replace(columns=columns, positions=cells.positions[counts])
            kind = kind[counts]
        return _Rows(self, cells, source, kind).meant(read, ignored)

    def column(self, cells: Cells, role: str, source: str) -> Any:
        """What a column says, as it stands."""
        name = getattr(self.mapping.columns, role)
        if name is None or name == FILE:
            word = self.run if name is None else Path(source).stem
            codes = pa.array(np.zeros(len(cells.positions), np.int32))
            return pa.DictionaryArray.from_arrays(codes, pa.array([word], pa.string()))
        return cells.columns[self.mapping.read_columns.index(name)]

    def _kind(self, cells: Cells, source: str) -> Any:
        meanings = self.mapping.meanings
        otherwise = IGNORED if EVERYTHING_ELSE in meanings else UNKNOWN
        codes = {
            word: IGNORED if kind == "ignore" else KIND[kind]  # type: ignore[index]
            for word, kind in meanings.items()
            if word != EVERYTHING_ELSE
        }
        found = Words.of(_texts(self.column(cells, "kind", source)))
        kind = found.each(lambda word: codes.get(word, otherwise), otherwise).astype(np.int8)
        for name, values in self.mapping.ignore.items():
            texts = _texts(cells.columns[self.mapping.read_columns.index(name)])
            is_in = pc.is_in(texts, pa.array(list(words(values)), pa.string()))
            kind[is_in.to_numpy(zero_copy_only=False)] = IGNORED
        return kind


class _Rows:
    """The rows of one source that are not ignored."""

    def __init__(self, meaning: Meaning, cells: Cells, source: str, kind: Any) -> None:
        self.meaning = meaning
        self.mapping = meaning.mapping
        self.cells = cells
        self.source = source
        self.kind = kind
        self.is_message = np.isin(kind, [KIND[one] for one in MESSAGES])
        self.has_text = (kind == KIND["broadcast"]) | (kind == KIND["deliver"])
        self.process = Words.of(_texts(self._column("process")))
        self.run = Words.of(_texts(self._column("run")))
        self.origin = self._origin()
        self.columns = {"position": cells.positions, "kind": kind}

    def meant(self, read: int, ignored: int) -> Meant:
        faults = [*self._of_words(), *self._of_numbers(), *self._of_messages(), *self._of_texts()]
        return Meant(
            self.columns, self.run, self.process, self.origin, read, ignored, self._first(faults)
        )

    def _column(self, role: str) -> Any:
        return self.meaning.column(self.cells, role, self.source)

    def _origin(self) -> Words | None:
        """Whoever broadcasts need not say that it is the origin."""
        if self.mapping.columns.origin is None:
            return None
        given = Words.of(_texts(self._column("origin")))
        is_own = given.is_missing & (self.kind == KIND["broadcast"])
        if is_own.any():
            own = len(given.words) + self.process.codes
            codes = np.where(is_own & ~self.process.is_missing, own, given.codes)
            given = Words(codes, [*given.words, *self.process.words])
        return Words(np.where(self.is_message, given.codes, ABSENT), given.words)

    def _first(self, faults: Sequence[Fault]) -> BadRow | None:
        """The first bad row, and of that the first fault; beyond it, a line may be torn."""
        torn = self.cells.torn
        bad = None if torn is None else BadRow(torn.position, torn.why)
        found = [one for one in faults if one.is_there.any()]
        if not found:
            return bad
        rows = np.flatnonzero(np.logical_or.reduce([one.is_there for one in found]))
        row = int(rows[np.argmin(self.cells.positions[rows])])
        fault = next(one for one in found if one.is_there[row])

        def value(role: str) -> Any:
            return self._column(role)[row].as_py()

        why = fault.words(value(fault.role)).replace("{process}", str(value("process")))
        return min(filter(None, [bad, BadRow(int(self.cells.positions[row]), why)]))

    # --- everything that can be wrong with a row, in the order in which it is looked at

    def _of_words(self) -> Iterator[Fault]:
        is_unknown = self.kind == UNKNOWN
        if is_unknown.any():
            kinds = Words.of(_texts(self._column("kind")))
            yield self._missing("kind", is_unknown & kinds.is_missing)
        yield Fault(
            "kind",
            is_unknown,
            lambda word: f"what does {word!r} mean? say so under [kinds], or ignore it there",
        )
        for role, found in (("process", self.process), ("run", self.run)):
            yield self._missing(role, found.is_missing)
            yield self._too_long(role, found)

    def _of_numbers(self) -> Iterator[Fault]:
        columns, rows = self.mapping.columns, len(self.kind)
        for role, name in (("order", "order"), ("time", "time_ns")):
            if getattr(columns, role) not in (None, LINE):
                yield from self._number(role, name, np.ones(rows, bool))

    def _of_messages(self) -> Iterator[Fault]:
        columns, is_message = self.mapping.columns, self.is_message
        if self.origin is not None:
            yield self._missing("origin", is_message & self.origin.is_missing)
            yield self._too_long("origin", self.origin)
            yield Fault(
                "origin",
                (self.kind == KIND["broadcast"]) & ~self._is_own(self.origin),
                lambda origin: f"{{process}} cannot broadcast a message of {origin}",
            )
        if columns.id is None:
            yield from self._number("seq", "seq", is_message)
            seq = self.columns["seq"] = np.where(is_message, self.columns["seq"], ABSENT)
            is_negative = is_message & (seq < 0)
            yield Fault("seq", is_negative, lambda seq: "a sequence number is negative")
            return
        found = self._column("id")
        if pa.types.is_binary(found.type):
            found = _hexadecimal(found)  # names are compared as names
        ids = _texts(found)
        yield self._missing("id", is_message & _is_empty(ids))
        self.columns["id"] = ids
        self.columns["key"], self.columns["other_key"] = hashed(ids, SEED, _OTHER_SEED)

    def _of_texts(self) -> Iterator[Fault]:
        if self.mapping.columns.text == ID:
            name = "seq" if self.mapping.columns.id is None else "key"
            self.columns["digest"] = self.columns[name].astype(np.int64)
            if self.meaning.keeps_text:
                self.columns["text"] = pa.array([""] * len(self.kind), pa.string())
            return
        found = self._column("text")
        if not self.meaning.is_csv:
            yield self._missing("text", self.has_text & _nulls(found))
        form = self.mapping.forms.text
        if form != "utf-8":
            found = _decoded(found, form)
            digits = "hexadecimal digits" if form == "hex" else "base64"
            is_wrong = self.has_text & _nulls(found)
            yield Fault("text", is_wrong, lambda value: f"the text is not in {digits}")
        if pa.types.is_dictionary(found.type):
            found = found.cast(pa.string())
        self.columns["digest"] = hashed(found, SEED)[0].view(np.int64)
        if self.meaning.keeps_text:
            self.columns["text"] = _shown(found, self.has_text)

    def _number(self, role: str, name: str, is_needed: Any) -> Iterator[Fault]:
        found, form = self._column(role), getattr(self.mapping.forms, role, "number")
        if pa.types.is_timestamp(found.type):
            numbers, is_missing = moments(found), _nulls(found)
        else:
            texts = _texts(found)
            numbers, is_missing = numbers_of(texts, form), _is_empty(texts)
        self.columns[name] = numbers
        yield self._missing(role, is_needed & is_missing)
        yield Fault(
            role,
            is_needed & (numbers == NO_NUMBER),
            lambda value: _why_no_number(str(value), form),
        )

    def _is_own(self, origin: Words) -> Any:
        """Whether the origin is the process of the row."""
        places = {word: place for place, word in enumerate(self.process.words)}
        return origin.each(lambda word: places.get(word, ABSENT), ABSENT) == self.process.codes

    def _missing(self, role: str, is_there: Any) -> Fault:
        column = getattr(self.mapping.columns, role)
        return Fault(
            role, is_there, lambda value: f"no {column!r}, which should tell the {_GIVEN_BY[role]}"
        )

    def _too_long(self, role: str, found: Words) -> Fault:
        return Fault(
            role,
            found.each(lambda word: len(word) > LONGEST_WORD, otherwise=False),
            lambda word: f"a name of {len(word)} characters, {LONGEST_WORD} are allowed",
        )


_GIVEN_BY = {
    "process": "process",
    "kind": "kind of row",
    "order": "order",
    "text": "text",
    "id": "message",
    "origin": "origin of the message",
    "seq": "number of the message",
    "time": "time",
    "run": "run",
}


def _nulls(values: Any) -> Any:
    return values.is_null().to_numpy(zero_copy_only=False)


def _is_empty(texts: Any) -> Any:
    """Whether there is no text, or an empty one: its lengths are differences of offsets."""
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    return ends[1:] == ends[:-1]


def _texts(values: Any) -> Any:
    """Words and bytes as texts; what else a table has is told as a text by Spark."""
    return values if pa.types.is_string(values.type) else values.cast(pa.string())


def _hexadecimal(values: Any) -> Any:
    return pa.array(
        [None if one is None else one.hex().upper() for one in values.to_pylist()], pa.string()
    )


def _decoded(values: Any, form: str) -> Any:
    """The bytes that these digits stand for; null where they are none."""
    words = Words.of(_texts(values))
    decoded = [_bytes(word, form) for word in words.words]
    is_empty = (words.codes == ABSENT) & ~_nulls(values)
    codes = np.where(is_empty, len(decoded), words.codes)
    places = pa.array(codes, pa.int32(), mask=codes < 0)
    return pa.array([*decoded, b""], pa.binary()).take(places)


def _bytes(word: str, form: str) -> bytes | None:
    try:
        if form == "hex":
            return binascii.unhexlify(word)
        return binascii.a2b_base64(word.translate(_NO_BLANKS), strict_mode=True)
    except ValueError:
        return None


_NO_BLANKS = str.maketrans("", "", " \t\r\n")


def _shown(values: Any, is_there: Any) -> Any:
    if pa.types.is_binary(values.type):
        texts = [
            None if one is None else one.decode(errors="replace") for one in values.to_pylist()
        ]
        values = pa.array(texts, pa.string())
    return pc.if_else(pa.array(is_there), values.fill_null(""), None)


def _why_no_number(value: str, form: str) -> str:
    if form == "iso8601":
        return f"{value!r} is not a time of ISO 8601"
    try:
        number = Decimal(value)
        if number.is_finite() and (form != "number" or number == number.to_integral_value()):
            return f"{value!r} is out of range: 64 bits are kept"
    except (InvalidOperation, OverflowError):
        pass
    return f"{value!r} is not a {'whole number' if form == 'number' else 'time'}"
