"""The digest of a trace, of many texts at once: the same as of one."""

import pyarrow as pa
import xxhash

from tidings.pipeline.sources.hashing import hashed


def test_texts_of_every_length_are_hashed_as_the_trace_has_it() -> None:
    texts = [*("x" * size for size in range(140)), *("é" * size for size in range(80)), ""]
    column = pa.array(["before", None, *texts]).slice(1)
    for seed, found in zip((42, 43), hashed(column, 42, 43), strict=True):
        assert found.tolist() == [
            xxhash.xxh64_intdigest((one or "").encode(), seed) for one in column.to_pylist()
        ]


def test_there_may_be_no_text_at_all() -> None:
    assert hashed(pa.array([], pa.string()), 42)[0].tolist() == []
