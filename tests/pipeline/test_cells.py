"""Cells and numbers: all at once, or one by one, they come out the same."""

import pyarrow as pa
import pytest

from tidings.pipeline.sources.cells import Cells, CsvLines, JsonLines, OpenQuoteError
from tidings.pipeline.sources.numbers import NO_NUMBER, numbers_of

CSV = CsvLines(["b", "a"], ["a", "b"], ",", has_header=False)
JSON = JsonLines(["a", "m.id"])


def shown(cells: Cells) -> tuple[list[tuple[str | None, ...]], list[int], object]:
    columns = [column.to_pylist() for column in cells.columns]
    return list(zip(*columns, strict=True)), cells.positions.tolist(), cells.torn


@pytest.mark.parametrize(
    "data",
    [
        b"1,x\n2,y\n",
        b"1,x\r\n\r\n2, y",
        b"\n\n1,\n",
        b'1,"x, ""y"""\n2,y\n',
        b'1,x"y"\n',
        b"1,x\ry\n",
        b"1,x\n2\n3,z\n",
        b"1,x\n2,\xff\n",
        b'1,"x"y\n',
    ],
)
def test_lines_of_csv_are_read_at_once_as_they_are_one_by_one(data: bytes) -> None:
    whole = data.replace(b"\r\n", b"\n") + b"\n" * (not data.endswith(b"\n"))
    assert shown(CSV.cells(data, 5)) == shown(CSV._one_by_one(whole, 5))


def test_a_quote_that_goes_over_lines_is_one_record_with_the_number_of_its_first_line() -> None:
    data = b'1,"x\n\ny"\n\n2,z\n'
    with pytest.raises(OpenQuoteError):
        CSV.cells(data, 1)
    rows, positions, torn = shown(CSV._replace(joins_lines=True).cells(data, 1))
    assert (rows, positions, torn) == ([("x\n\ny", "1"), ("z", "2")], [1, 5], None)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": "x", "m": {"id": 7}}\n{"a": "y"}\n',
        b'{"a": 1}\n{"a": "1"}\n\n{"a": 1.50, "m": {"id": null}}',
        b'{"a": {"b": [1, 2]}, "m": 3, "m.id": "z"}\n',
        b'{"a": "\\u00e9\\ud83d\\ude00", "b": 18446744073709551616}\n',
        b'{"a": "x"}\n{"a": \n',
        b'{"a": "x"}\n{"b": "\\ud83d"}\n',
    ],
)
def test_lines_of_json_are_read_at_once_as_they_are_one_by_one(data: bytes) -> None:
    lines = data.removesuffix(b"\n").split(b"\n")
    assert shown(JSON.cells(data, 5)) == shown(JSON.of_values(lines, range(5, 5 + len(lines))))


@pytest.mark.parametrize(
    ("form", "texts"),
    [
        ("number", ["1", "-5", "9223372036854775806"]),
        ("number", ["0x10", "+5", " 7 ", "1.5", "9223372036854775807", ""]),
        ("s", ["12", "1.5", "1.5e-3", "1e11", "NaN"]),
        ("ms", ["-3.25"]),
        ("ns", ["7.5"]),
        ("iso8601", ["1970-01-01T00:00:01Z", "1969-12-31T23:59:59.5+01:00"]),
        ("iso8601", ["1969-12-31T23:59:59.5", "2024-05-01", "2024-02-29 23:59:59.999999999"]),
        ("iso8601", ["1970-01-01T00:00:01Z", "1970-01-01", "noon", "2999-01-01T00:00:00Z"]),
    ],
)
def test_numbers_are_read_at_once_as_they_are_one_by_one(form: str, texts: list[str]) -> None:
    one_by_one = [numbers_of(pa.array([None, text]), form)[1] for text in texts]
    assert numbers_of(pa.array(texts), form).tolist() == one_by_one
    assert NO_NUMBER not in numbers_of(pa.array(texts[:1]), form) or texts[0] == "0x10"
