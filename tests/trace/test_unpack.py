"""Segments for the pipeline: the Parquet that they become holds the rows that Python reads."""

from pathlib import Path

import msgspec
import pytest

from tidings.core import DataError
from tidings.pipeline.queries.ingest import fill
from tidings.trace import HistoryCut, Manifest, digest, layout, read_runs, unpack
from tidings.trace.segments import Block, Gap, Mark, Messages, Owner, Packets, whole_segment


@pytest.mark.parametrize("cut", [False, True])
def test_the_segments_of_nodes_become_the_rows_that_python_reads(tmp_path: Path, cut: bool) -> None:
    manifest = Manifest(schema=1, run="run", names=("p2", "p1"), views=(("p1", "p2"),))
    (tmp_path / "manifest.jsonl").write_bytes(msgspec.json.encode(manifest))
    digests = b"".join(bytes.fromhex(digest(text)) for text in (b"one", b"two"))
    blocks = (
        Block(0, 7, 0, (Messages("broadcast", "p1", 1, 2, digests, view=0),)),
        Block(2, 8, 0, (Packets("send", (("p2", 5), ("p1", 6)), "data", 9, "p1", 1),)),
        Block(
            4,
            9,
            1,
            (
                Mark("recover", None, {"p1": 0, "p2": 7}, 2),
                Messages("held", "p2", 8, 3),
                Packets("receive", (), "x", 1),
                Mark("view", 0, {"p1": 1}, number=3),
                Messages("rebind", "p1", 2, 1, view=0),
            ),
        ),
        Block(10, 9, 1, (Messages("deliver", "p1", 1, 2, digests), Mark("leave", number=4))),
    )
    if cut:
        manifest = msgspec.structs.replace(manifest, cuts={"p1": HistoryCut(index=2, broadcast=2)})
        (tmp_path / "manifest.jsonl").write_bytes(msgspec.json.encode(manifest))
        blocks = (
            *blocks[:-1],
            Block(10, 9, 1, (Gap("gap", 7, {"p2": 9}, 2), Gap("gap", 1), Mark("settle"))),
        )
    segment = tmp_path / "p1-1.segment"
    segment.write_bytes(whole_segment(Owner("run", "p1"), *blocks))
    unpack.write_segment(tmp_path / "expanded.parquet", segment, {"run": manifest})
    segment.rename(tmp_path / "aside")
    (from_parquet,) = read_runs(tmp_path)
    (tmp_path / "expanded.parquet").unlink()
    (tmp_path / "aside").rename(segment)
    (from_segment,) = read_runs(tmp_path)
    assert list(from_parquet.rows) == list(from_segment.rows)
    assert len(list(from_segment.rows)) == (11 if cut else 13)
    assert from_segment.holed == ({"p1"} if cut else set())


def test_a_segment_that_ends_before_the_cut_is_refused(tmp_path: Path) -> None:
    manifest = Manifest(schema=2, run="run", names=("p1",), views=(("p1",),))
    manifest = msgspec.structs.replace(manifest, cuts={"p1": HistoryCut(index=2)})
    (tmp_path / "manifest.jsonl").write_bytes(msgspec.json.encode(manifest))
    block = Block(0, 7, 0, (Mark("recover"),))
    segment = tmp_path / "p1-1.segment"
    segment.write_bytes(whole_segment(Owner("run", "p1"), block))
    (tmp_path / "spool").mkdir()
    with pytest.raises(DataError, match="p1's history ends before its cut, index 2"):
        fill(tmp_path / "spool", layout(tmp_path), {"run": manifest})


def test_a_segment_with_a_name_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    manifest = Manifest(schema=1, run="run", names=("p1",), views=(("p1",),))
    segment = tmp_path / "p1-1.segment"
    block = Block(0, 7, 0, (Messages("held", "p9", 1, 1),))
    segment.write_bytes(whole_segment(Owner("run", "p1"), block))
    with pytest.raises(DataError, match=r"p1-1\.segment: p9 is not among the manifest's names"):
        unpack.write_segment(tmp_path / "out.parquet", segment, {"run": manifest})
    with pytest.raises(DataError, match="run 'run' is not in the manifest"):
        unpack.write_segment(tmp_path / "out.parquet", segment, {"other": manifest})
