"""Violations as a table, for judges that keep theirs in columns."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from tidings.spec.verdict import below_the_cuts
from tidings.trace import Manifest

_PLACE = pa.struct({"process": pa.string(), "index": pa.int64()})
_VIOLATIONS = pa.schema(
    {
        "run": pa.string(),
        "guarantee": pa.string(),
        "process": pa.string(),
        "origin": pa.string(),
        "seq": pa.int64(),
        "cause_origin": pa.string(),
        "cause_seq": pa.int64(),
        "root_origin": pa.string(),
        "root_seq": pa.int64(),
        "witness": pa.list_(_PLACE),
        "note": pa.string(),
    }
)


def shown_by_cuts(manifests: Iterable[Manifest]) -> Any:
    """The violations that the manifests alone show, as rows of this table."""
    rows = [
        {
            "run": manifest.run,
            "guarantee": str(one.guarantee),
            "process": one.process,
            "origin": one.message.origin,
            "seq": one.message.seq,
            "root_origin": one.message.origin,
            "root_seq": one.message.seq,
            "witness": [{"process": at.process, "index": at.index} for at in one.witness],
        }
        for manifest in manifests
        for one in below_the_cuts(manifest.cuts)
    ]
    return pa.Table.from_pylist(rows, schema=_VIOLATIONS)
