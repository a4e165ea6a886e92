"""A TOML file as a struct, every mistake in it named with its line and its field."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec

from tidings.core.errors import DataError, UsageError
from tidings.core.likeness import did_you_mean

T = TypeVar("T")


class TomlTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is written in a table, and nothing else."""


class TomlFile:
    """The text of a file, and where in it each field is given."""

    def __init__(self, path: Path, text: str | None = None) -> None:
        """The text is read from the path, unless it is there already."""
        self.path = path
        self.text = _read(path) if text is None else text

    def as_a(self, kind: type[T]) -> T:
        """The file as a struct of this kind, or DataError for the first mistake."""
        try:
            given = tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as fault:
            words, line = _place(str(fault), self.text)
            written = "".join(self.text.splitlines()[line - 1 : line]).strip()
            of = f", in {written!r}" if written else ""
            raise DataError(f"{self.path}:{line}: {words}{of}") from None
        return self.converted(given, kind)

    def converted(self, given: Mapping[str, Any], kind: type[T], within: Sequence[str] = ()) -> T:
        """A table of the file, found under the keys ``within``, as a struct of this kind."""
        try:
            return msgspec.convert(given, kind)
        except msgspec.ValidationError as fault:
            words, _, where = str(fault).partition(" - at `$")
            keys = [*within, *_keys(where.rstrip("`"), given)]
            if unknown := re.search(r"unknown field `(.*)`", words):
                keys.append(unknown[1])
                written = ".".join(keys[len(within) :])
                meant = did_you_mean(written, _settings(kind))
                words = f"there is no such setting{meant}"
            raise self.error(keys, _in_our_words(words)) from None

    def error(self, keys: Sequence[str], words: str) -> DataError:
        name = ".".join(keys)
        complaint = f"{name}: {words}" if name else words
        return DataError(f"{self.path}:{line_of(self.text, keys)}: {complaint}")


def _settings(kind: object, within: str = "") -> Iterator[str]:
    """The names of all settings of a struct, those of its tables after a dot."""
    for one in (kind, *get_args(kind)):
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            for field in msgspec.structs.fields(one):
                name = f"{within}{field.encode_name}"
                yield name
                yield from _settings(field.type, f"{name}.")


def line_of(text: str, keys: Sequence[str]) -> int:
    """The first line of what the last of these keys names, or else of the one before, and so on.

    A simple look at the lines, enough for files that people write.
    """
    for depth in range(len(keys), 0, -1):
        within: list[str] = []
        for number, line in enumerate(text.splitlines(), start=1):
            if header := _HEADER.match(line):
                given = within = _parts(header[1])
            elif "=" in line:
                given = [*within, *_parts(line.partition("=")[0])]
            else:
                continue
            if given[:depth] == list(keys[:depth]):
                return number
    return 1


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as fault:
        raise UsageError(f"{path}: {fault.strerror}") from fault
    except UnicodeDecodeError as fault:
        raise DataError(f"{path}: not UTF-8: {fault.reason} at byte {fault.start}") from None


_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]")


def _parts(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in dotted.split(".")]


def _place(words: str, text: str) -> tuple[str, int]:
    """tomllib says where in words of its own."""
    if place := re.search(r" \(at line (\d+), column \d+\)$", words):
        return words[: place.start()], int(place[1])
    return words.replace(" (at end of document)", ""), max(1, len(text.splitlines()))


def _keys(path: str, given: Mapping[str, Any]) -> list[str]:
    """The keys in msgspec's ``.kinds.deliver[0]``; it calls the key of a free table [...]."""
    table, _, rest = path.partition("[...]")
    keys = [key for key in re.sub(r"\[\d+\]", "", table).split(".") if key]
    if rest or path.endswith("[...]"):
        inner: Any = given
        for key in keys:
            inner = inner[key]
        # Which of its keys msgspec does not say: the only one, or the first that is no text at all.
        odd = [key for key, value in inner.items() if type(value) not in (str, list)]
        keys += [*inner] if len(inner) == 1 else odd[:1]
    return keys


def _in_our_words(words: str) -> str:
    words = words.replace("Object missing required field", "missing:")
    words = words.replace("Invalid enum value", "there is no")
    return words.replace("`", "").replace("Expected", "expected", 1)
