"""What the rows of a foreign log say, in numbers.

A batch of foreign values becomes a table of events with columns of fixed width, so that it can
be sorted, spilled and compared quickly. Runs and names are numbered as they are met.
"""

import base64
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from tidings.core import DataError
from tidings.trace.foreign.mapping import (
    EVERYTHING_ELSE,
    FILE,
    ID,
    LINE,
    MESSAGES,
    Mapping,
    words,
)
from tidings.trace.foreign.sources import LogRows, place
from tidings.trace.schema import KINDS, LONGEST_WORD

KIND = {kind: code for code, kind in enumerate(KINDS)}
ABSENT = -1
AT_THE_END = BY_MAPPING = 2**63 - 1
"""The order, and the place, of a row that is in no file: what the mapping says about the end."""

_MESSAGES = [KIND[kind] for kind in MESSAGES]
_IGNORED, _UNKNOWN = -1, -2
_LINE_BITS = 40
_RUN_BITS = 32


class Words:
    """Words, numbered as they are met."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._codes: dict[str, int] = {}

    def code(self, word: str) -> int:
        if word not in self._codes:
            self._codes[word] = len(self.words)
            self.words.append(word)
        return self._codes[word]

    def codes(self, batch: LogRows, values: Any) -> Any:
        encoded = values.dictionary_encode()
        found = encoded.dictionary.to_pylist()
        for word in found:
            if len(word) > LONGEST_WORD:
                row = pc.index(values, pa.scalar(word, values.type)).as_py()
                batch.refuse(row, f"a name of {len(word)} characters, {LONGEST_WORD} are allowed")
        return np.array([self.code(word) for word in found], np.int64)[encoded.indices.to_numpy()]


def history_of(run: Any, process: Any) -> Any:
    """A process in a run as one number; numbers of one run stand together."""
    return run << _RUN_BITS | process


def file_of(place: Any) -> Any:
    return place >> _LINE_BITS


def run_of(history: Any) -> Any:
    return history >> _RUN_BITS


def process_of(history: Any) -> Any:
    return history & (1 << _RUN_BITS) - 1


def about_messages(kinds: Any) -> Any:
    return np.isin(kinds, _MESSAGES)


class Interpreter:
    """Reads batches by a mapping; knows the words that its numbers stand for."""

    def __init__(self, mapping: Mapping, files: Sequence[Path], run: str) -> None:
        self.mapping = mapping
        self.files = files
        self.names = Words()
        self.runs = Words()
        self.histories: set[int] = set()
        """Those that have any row."""
        self.mentioned: set[int] = set()
        """Those that are anybody's in a run, with rows or as an origin."""
        self.ignored = 0
        self._run = run
        self._meanings = {
            word: _IGNORED if kind == "ignore" else KIND[kind]  # type: ignore[index]
            for word, kind in mapping.meanings.items()
        }
        self._otherwise = _IGNORED if EVERYTHING_ELSE in self._meanings else _UNKNOWN

    def name(self, history: int) -> str:
        """Whose history it is."""
        return self.names.words[int(process_of(history))]

    def place(self, place_: int) -> str:
        """Where a row was read, as errors name it."""
        return place(self.files[file_of(place_)], place_ & (1 << _LINE_BITS) - 1)

    def events(self, batch: LogRows, file: int) -> Any:
        """The rows of a batch as a table of events, without those to be ignored."""
        rows = len(batch.lines)
        batch = batch.where(~self._is_ignored(batch))
        kinds = self._kinds(batch)
        batch, kinds = batch.where(kinds != _IGNORED), kinds[kinds != _IGNORED]
        self.ignored += rows - len(kinds)
        process = self._codes(batch, "process", self.names)
        history = history_of(self._codes(batch, "run", self.runs), process)
        self.histories.update(np.unique(history).tolist())
        places = file << _LINE_BITS | batch.lines
        is_line = self.mapping.columns.order == LINE
        columns = {
            "history": history,
            "order": places if is_line else self._numbers(batch, "order"),
            "place": places,
            "kind": kinds,
            "time_ns": self._numbers(batch, "time"),
        } | self._messages(batch, kinds, process)
        named = columns["origin"] != ABSENT
        origins = history_of(run_of(history[named]), columns["origin"][named])
        self.mentioned.update(np.unique(history).tolist(), np.unique(origins).tolist())
        return pa.table(columns)

    def _is_ignored(self, batch: LogRows) -> Any:
        ignored = np.zeros(len(batch.lines), bool)
        for column, values in self.mapping.ignore.items():
            found = batch.columns[column]
            chosen = pa.array(words(values), pa.string()).cast(found.type)
            ignored |= pc.is_in(found, chosen).to_numpy(zero_copy_only=False)
        return ignored

    def _kinds(self, batch: LogRows) -> Any:
        encoded = self._values(batch, "kind").dictionary_encode()
        found = encoded.dictionary.to_pylist()
        # The last place is for rows that say nothing.
        codes = np.array([self._meanings.get(one, self._otherwise) for one in found])
        codes = np.append(codes, self._otherwise)
        kinds = codes[encoded.indices.fill_null(len(found)).to_numpy()]
        if (kinds == _UNKNOWN).any():
            row = int(np.argmax(kinds == _UNKNOWN))
            word = self._needed(batch, "kind")[row].as_py()
            batch.refuse(row, f"what does {word!r} mean? say so under [kinds], or ignore it there")
        return kinds

    # --- values

    def _values(self, batch: LogRows, role: str) -> Any:
        """What a column says; an empty text is as good as none, unless it is the message's."""
        column = getattr(self.mapping.columns, role)
        rows = len(batch.lines)
        if role == "run" and column is None:
            return pa.repeat(self._run, rows)
        if column == FILE:
            return pa.repeat(batch.path.stem, rows)
        values = batch.columns[column]
        if role == "text":
            return values
        if pa.types.is_binary(values.type) and role != "id":
            raise DataError(f"{batch.path}: column {column!r} is not UTF-8")
        return pc.if_else(pc.equal(pc.binary_length(values), 0), None, values)

    def _needed(self, batch: LogRows, role: str) -> Any:
        """What a column says, on every row."""
        values = self._values(batch, role)
        if values.null_count:
            row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
            column = getattr(self.mapping.columns, role)
            batch.refuse(row, f"no {column!r}, which should tell the {_SAID_BY[role]}")
        return values

    def _codes(self, batch: LogRows, role: str, known: Words) -> Any:
        return known.codes(batch, self._needed(batch, role))

    def _numbers(self, batch: LogRows, role: str) -> Any:
        if getattr(self.mapping.columns, role) is None:
            return np.zeros(len(batch.lines), np.int64)
        form = getattr(self.mapping.forms, role, "number")
        return _converted(batch, self._needed(batch, role), form)

    # --- messages

    def _messages(self, batch: LogRows, kinds: Any, process: Any) -> dict[str, Any]:
        """The columns that only rows about a message have."""
        about = about_messages(kinds)
        messages = batch.where(about)
        kinds, process = kinds[about], process[about]
        if self.mapping.columns.id is None:
            origin = self._origins(messages, kinds, process)
            seq = self._numbers(messages, "seq")
            if (seq < 0).any():
                messages.refuse(int(np.argmax(seq < 0)), "a sequence number is negative")
            columns = {"origin": origin, "seq": seq}
        else:
            origin = np.full(len(kinds), ABSENT)
            if self.mapping.columns.origin is not None:
                origin = self._origins(messages, kinds, process)
            high, low = self._hashes(messages, origin)
            columns = {"origin": origin, "id_high": high, "id_low": low}
        with_text = kinds != KIND["held"]
        columns["digest"] = np.full(len(kinds), ABSENT)
        columns["digest"][with_text] = self._digests(
            messages.where(with_text), {name: of[with_text] for name, of in columns.items()}
        )
        return {name: _spread(values, about) for name, values in columns.items()}

    def _origins(self, messages: LogRows, kinds: Any, process: Any) -> Any:
        """Who broadcast each; whoever says "I broadcast" need not say it twice."""
        values = self._values(messages, "origin")
        broadcast = kinds == KIND["broadcast"]
        own = broadcast & values.is_null().to_numpy(zero_copy_only=False)
        origin = process.copy()
        others = messages.where(~own)
        origin[~own] = self.names.codes(others, self._needed(others, "origin"))
        wrong = broadcast & (origin != process)
        if wrong.any():
            row = int(np.argmax(wrong))
            here, other = self.names.words[process[row]], self.names.words[origin[row]]
            messages.refuse(row, f"{here} cannot broadcast a message of {other}")
        return origin

    def _hashes(self, messages: LogRows, origin: Any) -> tuple[Any, Any]:
        """128 bits of each id, and of its origin if the log names it."""
        ids = self._needed(messages, "id").cast(pa.binary()).to_pylist()
        hashed = b"".join(
            xxhash.xxh3_128_digest(one, seed=int(of) + 1)
            for one, of in zip(ids, origin, strict=True)
        )
        halves = np.frombuffer(hashed, ">i8").astype(np.int64).reshape(-1, 2)
        return halves[:, 0], halves[:, 1]

    def _digests(self, messages: LogRows, columns: dict[str, Any]) -> Any:
        if self.mapping.columns.text == ID:
            return columns["seq"] if "seq" in columns else columns["id_low"]
        texts, form = self._needed(messages, "text"), self.mapping.forms.text
        if form == "utf-8":
            texts = texts.cast(pa.binary()).to_pylist()
        else:
            texts = _each(messages, texts.to_pylist(), form)
        digests = np.fromiter(
            (xxhash.xxh64_intdigest(text, seed=42) for text in texts), np.uint64, len(texts)
        )
        return digests.view(np.int64)


_SAID_BY = {
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


def _spread(values: Any, over: Any) -> Any:
    """The values on the rows to which they belong, and nothing on the others."""
    column = np.full(len(over), ABSENT, np.int64)
    column[over] = values
    return column


# --- numbers, times and bytes as people write them


_FACTORS = {"number": 1, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def _converted(batch: LogRows, values: Any, form: str) -> Any:
    """Numbers as they are, times in nanoseconds."""
    if form in _FACTORS:
        try:
            return pc.multiply_checked(pc.cast(values, pa.int64()), _FACTORS[form]).to_numpy()
        except pa.ArrowInvalid:
            pass  # not all of them are whole numbers: one by one, then
    return np.array(_each(batch, values.to_pylist(), form), np.int64)


def _each(batch: LogRows, values: Iterable[Any], form: str) -> list[Any]:
    """Every value read; the row of one that cannot be read is named."""
    read, fault = _READ[form]
    found: list[Any] = []
    for row, value in enumerate(values):
        try:
            found.append(read(value))
        except (ArithmeticError, TypeError, ValueError):
            batch.refuse(row, fault.format(value))
        if isinstance(found[-1], int) and not -(2**63) <= found[-1] < AT_THE_END:
            batch.refuse(row, f"{value!r} is out of range: 64 bits are kept")
    return found


def _ns(text: str, factor: int) -> int:
    time = Decimal(text) * factor
    # Its size first: of 1e999999999 no whole number should be made.
    return int(time) if time.adjusted() < 20 else AT_THE_END


_FRACTION = re.compile(r"[.,](\d+)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _iso(text: str) -> int:
    """Nanoseconds, of which datetime keeps only thousands; without a zone it is UTC."""
    fraction = _FRACTION.search(text)
    moment = datetime.fromisoformat(_FRACTION.sub("", text, count=1))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = (moment - _EPOCH) // timedelta(seconds=1)
    ns = int(fraction[1][:9].ljust(9, "0")) if fraction else 0
    return seconds * 10**9 + ns


_READ: dict[str, tuple[Callable[[str], int | bytes], str]] = {
    "number": (int, "{!r} is not a whole number"),
    **{
        unit: (partial(_ns, factor=_FACTORS[unit]), "{!r} is not a time")
        for unit in ("s", "ms", "us", "ns")
    },
    "iso8601": (_iso, "{!r} is not a time of ISO 8601"),
    "base64": (partial(base64.b64decode, validate=True), "the text is not in base64"),
    "hex": (bytes.fromhex, "the text is not in hexadecimal digits"),
}
"""How each form is read, and what to say of a text that is not in it."""
