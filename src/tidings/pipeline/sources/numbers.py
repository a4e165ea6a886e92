"""Texts as whole numbers and as moments: by Arrow if it reads them as we do, or one by one."""

import re
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

NO_NUMBER = 2**63 - 1
"""The order of what comes after all rows, so none of them may have it."""
_DIGITS = {"s": 9, "ms": 6, "us": 3, "ns": 0}
"""How many digits a unit has down to a nanosecond."""
_WHOLE = re.compile(r"[+-]?[0-9]+")
_FRACTION = re.compile(r"[.,]([0-9]+)")


def numbers_of(texts: Any, form: str) -> Any:
    """Whole numbers, or nanoseconds; NO_NUMBER where there is none."""
    try:
        return _at_once(texts, form)
    except (pa.ArrowException, ValueError):
        one_by_one = [NO_NUMBER if one is None else _number(one, form) for one in texts.to_pylist()]
        return np.array(one_by_one, np.int64)


def moments(times: Any) -> Any:
    """Nanoseconds since 1970."""
    micros = times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
    found = micros.fill_null(0).to_numpy(zero_copy_only=False) * 1000
    return np.where(times.is_null().to_numpy(zero_copy_only=False), NO_NUMBER, found)


def _at_once(texts: Any, form: str) -> Any:
    if texts.null_count:
        raise ValueError("not all of them are there")
    if form == "iso8601":
        return _moments_at_once(texts)
    letters = bytes(texts.buffers()[2] or b"")
    if b"x" in letters or b"X" in letters:
        raise ValueError("Arrow reads hexadecimal numbers too")
    if form == "number" or b"." not in letters:
        numbers = texts.cast(pa.int64()).to_numpy()
        factor = 1 if form == "number" else 10 ** _DIGITS[form]
        most = NO_NUMBER // factor
        if len(numbers) and not -most <= numbers.min() <= numbers.max() <= most:
            raise ValueError("out of range")
        return numbers * factor if factor > 1 else numbers
    exact = texts.cast(pa.decimal128(38, _DIGITS[form]))
    low, high = np.frombuffer(exact.buffers()[1], np.int64).reshape(-1, 2)[exact.offset :].T
    if (high != low >> 63).any():
        raise ValueError("out of range")
    return np.ascontiguousarray(low)


def _moments_at_once(texts: Any) -> Any:
    """If all of them name a zone, or none does: the latter are in UTC."""
    try:
        found = texts.cast(pa.timestamp("ns", "UTC"))
    except pa.ArrowInvalid:
        found = texts.cast(pa.timestamp("ns"))
    return found.cast(pa.int64()).to_numpy()


def _number(text: str, form: str) -> int:
    try:
        number = _ns_of_iso(text.strip()) if form == "iso8601" else _scaled(text.strip(), form)
    except (ValueError, InvalidOperation, OverflowError):
        return NO_NUMBER
    return number if -(2**63) <= number < NO_NUMBER else NO_NUMBER


def _scaled(text: str, form: str) -> int:
    if form == "number" or _WHOLE.fullmatch(text):
        if not _WHOLE.fullmatch(text):
            raise ValueError(text)
        return int(text) * (1 if form == "number" else 10 ** _DIGITS[form])
    number = Decimal(text)
    if not number.is_finite() or number.adjusted() > 19:
        raise ValueError(text)
    return int(number.scaleb(_DIGITS[form]))


def _ns_of_iso(text: str) -> int:
    """Nanoseconds, of which Python keeps only thousands; without a zone it is UTC."""
    fraction = _FRACTION.search(text)
    whole = datetime.fromisoformat(_FRACTION.sub("", text, count=1))
    moment = whole if whole.tzinfo is not None else whole.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    ns = int(fraction[1][:9].ljust(9, "0")) if fraction else 0
    return (since.days * 86_400 + since.seconds) * 10**9 + ns
