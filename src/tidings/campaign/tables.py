"""Tables on disk: each as Parquet for programs, and as CSV for everybody else."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tidings.core import DataError, EnvironmentMissing, with_extra
from tidings.disk.files import whole_file

try:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq
except ImportError as missing:  # pragma: no cover - exercised in an environment without it
    raise EnvironmentMissing(f"a campaign runs on Spark; {with_extra('spark')}") from missing

Rows = Sequence[Mapping[str, Any]]


def write_table(path: Path, rows: Rows, kinds: Mapping[str, str] | None = None) -> None:
    """Rows under a name that ends in .parquet, and beside it the same as .csv.

    ``kinds`` names the type of every column, so that a table without rows has them, too.
    """
    schema = kinds and pa.schema([(name, pa.type_for_alias(kind)) for name, kind in kinds.items()])
    table = pa.Table.from_pylist(list(rows), schema=schema)
    with whole_file(path) as draft:
        pq.write_table(table, draft, compression="zstd")
    with whole_file(path.with_suffix(".csv")) as draft:
        pyarrow.csv.write_csv(table, draft)


def remove_table(path: Path) -> None:
    for file in (path, path.with_suffix(".csv")):
        file.unlink(missing_ok=True)


def read_table(
    path: Path,
    columns: Iterable[str] | None = None,
    only: Mapping[str, Sequence[Any]] | None = None,
) -> list[dict[str, Any]]:
    """The rows of a table: a file, or a folder of them as Spark writes it.

    ``only`` says which values a column may have.
    """
    filters = [(column, "in", list(values)) for column, values in (only or {}).items()]
    try:
        table = pq.read_table(path, columns=columns and list(columns), filters=filters or None)
        return table.to_pylist()  # type: ignore[no-any-return]
    except FileNotFoundError:
        raise DataError(f"{path}: the campaign is not complete") from None
    except (pa.ArrowInvalid, OSError) as fault:
        reason = str(fault).splitlines()[0]
        if missing := re.search(r"No match for FieldRef\.Name\((\w+)\)", str(fault)):
            reason = f"no column {missing[1]}: it was written by another version of tidings"
        raise DataError(f"{path}: {reason}") from None
