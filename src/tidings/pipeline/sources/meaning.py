"""What a row says, as the mapping has it: expressions that Spark compiles.

Every row gets a ``kind`` (its place in KINDS, or below 0 if it is left out) and a ``fault``: the
number of the first thing that is wrong with it, or null. What exactly is wrong is put into words
for one row only, the first bad one, when all have been looked at.
"""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from functools import reduce
from typing import Any, NamedTuple

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, TimestampType

from tidings.pipeline.sources.reading import Reading
from tidings.trace.foreign import FILE, ID, LINE, MESSAGES, Mapping
from tidings.trace.foreign.mapping import EVERYTHING_ELSE, words
from tidings.trace.schema import KINDS, LONGEST_WORD

KIND = {kind: code for code, kind in enumerate(KINDS)}
IGNORED, NO_ROW, UNKNOWN = -1, -2, -3
"""Instead of a kind: rows to be left out; headers and empty lines; rows with a fault."""
_LAST = 2**63 - 1
"""The order of what comes after all rows, so none of them may have it."""
_FACTORS = {"number": 1, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


class Fault(NamedTuple):
    """One thing that can be wrong: where, when, and in which words."""

    role: str
    is_there: Column
    words: Callable[[Any], str]
    """Of the value in that role."""


class Meaning:
    """The columns of a reading, interpreted by a mapping."""

    def __init__(self, reading: Reading, mapping: Mapping, run: str) -> None:
        self._mapping = mapping
        self._reading = reading
        self._run = run
        self._types = {one.name: one.dataType for one in reading.rows.schema}
        self.faults: Sequence[Fault] = ()

    # --- values

    def raw(self, role: str) -> Column:
        """What a column says, as it stands."""
        name = getattr(self._mapping.columns, role)
        if name is None or name == FILE:
            return self._run_or_file(name)
        return F.col(self._place(name))

    def _place(self, name: str) -> str:
        return f"c{self._mapping.read_columns.index(name)}"

    def _run_or_file(self, name: str | None) -> Column:
        if name is None:
            return F.lit(self._run)
        base = F.regexp_replace(F.substring_index("source", "/", -1), r"\.[^.]*$", "")
        # Java decodes forms, where a plus is a blank; in a path it is a plus.
        return F.url_decode(F.replace(base, F.lit("+"), F.lit("%2B")))

    def _value(self, role: str) -> Column:
        """An empty text is as good as none, unless it is the message's."""
        value = self.raw(role)
        if self._is(role, BinaryType):
            # Spark compares bytes with bytes, and names with names.
            return F.when(F.length(value) > 0, F.hex(value) if role == "id" else value)
        if self._is(role, TimestampType):
            return value
        return F.when(value != "", value)

    def _is(self, role: str, kind: type) -> bool:
        name = getattr(self._mapping.columns, role)
        if name is None or name.startswith("@"):
            return False
        return isinstance(self._types[self._place(name)], kind)

    def _number(self, role: str) -> Column:
        """A whole number, or nanoseconds; null if it is none, or too large."""
        value, form = self._value(role), getattr(self._mapping.forms, role, "number")
        if self._is(role, TimestampType):
            return F.unix_micros(self.raw(role)) * 1000
        if form == "iso8601":
            number = _ns_of_iso(value)
        elif form == "number":
            number = F.trim(value).try_cast("bigint")
        else:
            factor = F.lit(_FACTORS[form]).cast("bigint")
            whole = F.try_multiply(F.trim(value).try_cast("bigint"), factor)
            exact = F.try_multiply(F.trim(value).try_cast("decimal(28,9)"), factor)
            number = F.coalesce(whole, exact.try_cast("bigint"))
        return F.when(number != _LAST, number)

    # --- rows

    def rows(self, keeps_text: bool) -> DataFrame:
        """source, start, position, kind, fault, run, process, and what the log tells beside."""
        columns, has_id = self._mapping.columns, self._mapping.columns.id is not None
        kind = F.col("kind")
        is_message = kind.isin([KIND[one] for one in MESSAGES])
        has_text = kind.isin(KIND["broadcast"], KIND["deliver"])
        read = self._reading.rows.withColumn("kind", self._kind().cast("tinyint"))
        values: dict[str, Column] = {"run": self._value("run"), "process": self._value("process")}
        if columns.order != LINE:
            values["order"] = self._number("order")
        values["time_ns"] = F.lit(0).cast("bigint")
        if columns.time is not None:
            values["time_ns"] = self._number("time")
        if columns.origin is not None:
            own = F.when(kind == KIND["broadcast"], self._value("process"))
            values["origin"] = F.when(is_message, F.coalesce(self._value("origin"), own))
        if has_id:
            values["id"] = F.when(is_message, self._value("id"))
        else:
            values["seq"] = F.when(is_message, self._number("seq"))
        text = self._text()
        if columns.text == ID:
            digest = F.xxhash64(self._value("id")) if has_id else self._number("seq")
        else:
            digest = F.xxhash64(text)
        values["digest"] = F.when(has_text, digest)
        if keeps_text:
            values["text"] = F.when(has_text, text.cast("string"))
        self.faults = list(self._faults(values, text, is_message, has_text))
        fault = F.lit(None).cast("tinyint")
        for number, one in reversed(list(enumerate(self.faults))):
            fault = F.when(one.is_there, F.lit(number).cast("tinyint")).otherwise(fault)
        is_out = kind.isin(IGNORED, NO_ROW)
        is_good = ~is_out & F.col("fault").isNull()
        return read.withColumn("fault", F.when(~is_out, fault)).select(
            *("source", "start", "position", "kind", "fault"),
            *(F.when(is_good, value).alias(name) for name, value in values.items()),
        )

    def _kind(self) -> Column:
        mapping, value = self._mapping, self._value("kind")
        codes = {
            word: IGNORED if kind == "ignore" else KIND[kind]  # type: ignore[index]
            for word, kind in mapping.meanings.items()
            if word != EVERYTHING_ELSE
        }
        otherwise = F.lit(IGNORED if EVERYTHING_ELSE in mapping.meanings else UNKNOWN)
        kind = reduce(
            lambda rest, one: F.when(value == one[0], F.lit(one[1])).otherwise(rest),
            codes.items(),
            otherwise,
        )
        for column, values in mapping.ignore.items():
            found = F.col(self._place(column)).cast("string")
            kind = F.when(found.isin(list(words(values))), F.lit(IGNORED)).otherwise(kind)
        kind = F.when(F.col("is_torn"), F.lit(UNKNOWN)).otherwise(kind)
        return F.when(F.col("is_row"), kind).otherwise(F.lit(NO_ROW))

    def _text(self) -> Column:
        if self._mapping.columns.text == ID:
            return F.lit("")
        value, form = self.raw("text"), self._mapping.forms.text
        if form == "base64":
            return F.try_to_binary(value, F.lit("base64"))
        if form == "hex":
            return F.when(value.rlike("^([0-9a-fA-F]{2})*$"), F.unhex(value))
        if self._reading.is_csv:
            return F.coalesce(value, F.lit(""))
        return value

    def _faults(
        self, values: dict[str, Column], text: Column, is_message: Column, has_text: Column
    ) -> Iterator[Fault]:
        """Everything that can be wrong with a row, in the order in which it is looked at."""
        columns, kind = self._mapping.columns, F.col("kind")
        yield Fault("", F.col("is_torn"), lambda line: "cannot be read")
        yield self._missing("kind", (kind == UNKNOWN) & self._value("kind").isNull())
        yield Fault(
            "kind",
            kind == UNKNOWN,
            lambda word: f"what does {word!r} mean? say so under [kinds], or ignore it there",
        )
        for role in ("process", "run"):
            yield self._missing(role, values[role].isNull())
            yield self._too_long(role, values[role])
        for role in ("order", "time"):
            name = "time_ns" if role == "time" else role
            if getattr(columns, role) not in (None, LINE):
                yield self._missing(role, self._value(role).isNull())
                yield self._no_number(role, values[name].isNull())
        if columns.origin is not None:
            yield self._missing("origin", is_message & values["origin"].isNull())
            yield self._too_long("origin", values["origin"])
            is_own = values["origin"] == values["process"]
            yield Fault(
                "origin",
                (kind == KIND["broadcast"]) & ~is_own,
                lambda origin: f"{{process}} cannot broadcast a message of {origin}",
            )
        if columns.id is not None:
            yield self._missing("id", is_message & values["id"].isNull())
        else:
            yield self._missing("seq", is_message & self._value("seq").isNull())
            yield self._no_number("seq", is_message & values["seq"].isNull())
            yield Fault("seq", values["seq"] < 0, lambda seq: "a sequence number is negative")
        if columns.text != ID:
            if not self._reading.is_csv:
                yield self._missing("text", has_text & self.raw("text").isNull())
            digits = {"hex": "hexadecimal digits"}.get(self._mapping.forms.text, "base64")
            yield Fault(
                "text", has_text & text.isNull(), lambda value: f"the text is not in {digits}"
            )

    def _missing(self, role: str, is_there: Column) -> Fault:
        column = getattr(self._mapping.columns, role)
        return Fault(
            role, is_there, lambda value: f"no {column!r}, which should tell the {_GIVEN_BY[role]}"
        )

    def _too_long(self, role: str, value: Column) -> Fault:
        return Fault(
            role,
            F.length(value) > LONGEST_WORD,
            lambda word: f"a name of {len(word)} characters, {LONGEST_WORD} are allowed",
        )

    def _no_number(self, role: str, is_there: Column) -> Fault:
        form = getattr(self._mapping.forms, role, "number")
        return Fault(role, is_there, lambda value: _why_no_number(str(value), form))


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


def _ns_of_iso(value: Column) -> Column:
    """Nanoseconds, of which Spark keeps only thousands; without a zone it is UTC."""
    whole = F.regexp_replace(F.trim(value), r"[.,]\d+", "")
    is_date = whole.rlike(r"^\d{4}-\d\d-\d\d$")
    has_zone = whole.rlike(r"(Z|[+-]\d\d:?\d\d)$")
    zoned = (
        F.when(is_date, F.concat(whole, F.lit(" 00:00:00Z")))
        .when(has_zone, whole)
        .otherwise(F.concat(whole, F.lit("Z")))
    )
    seconds = F.unix_seconds(zoned.try_cast("timestamp"))
    fraction = F.regexp_extract(value, r"[.,](\d{1,9})", 1)
    ns = F.rpad(fraction, 9, "0").try_cast("bigint")
    return F.try_add(F.try_multiply(seconds, F.lit(10**9).cast("bigint")), F.coalesce(ns, F.lit(0)))


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


# --- a line that cannot be read at all


def why_torn(line: bytes, form: str, header: Sequence[str], delimiter: str) -> str:
    """What is wrong with a line, as a reader of single lines puts it."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return "not UTF-8"
    if form == "json":
        try:
            value = msgspec.json.decode(text, type=dict[str, Any])
            msgspec.json.encode(value)
        except msgspec.MsgspecError as fault:
            return str(fault)
        except UnicodeEncodeError:
            pass
        return "half of a surrogate pair in a text"
    try:
        row = next(csv.reader(io.StringIO(text), delimiter=delimiter, strict=True), [])
    except csv.Error as fault:
        return str(fault)
    return f"{len(row)} columns where {len(header)} belong"
