"""What a row of a foreign log costs: CPU of Java, of Python and of all workers.

    python bench/ingest.py --rows 10e6 --form csv

A log of five processes is written, made a trace in a process of its own, and the CPU of that
process and of everything it started is divided by the rows. The start of Spark is in it.

Alone on two cores, 10 million rows of CSV took 48.0 s of CPU and one million 31.6 s, once each:
4.8 us a row with the start, and 1.8 us for each row beyond the first million. At most 2 us is the
aim: reached without the start, not with it.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

PROCESSES = 5
MAPPING = """\
[columns]
process = "client"
kind = "event"
order = "at"
id = "message"
text = "body"

[kinds]
broadcast = "sent"
deliver = "got"

[group]
members = ["p1", "p2", "p3", "p4", "p5"]

[end]
settled = true
"""
PROGRAM = """\
import os, sys
from pathlib import Path
from tidings import pipeline
from tidings.trace import foreign

def ticks(pid):
    own = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
    children = [one for task in Path(f"/proc/{pid}/task").glob("*/children")
                for one in task.read_text().split()]
    return sum(map(int, own)) + sum(map(ticks, children))

log, mapping, out = map(Path, sys.argv[1:])
with pipeline.session() as spark:
    pipeline.ingest(spark, log, foreign.read_mapping(mapping), out)
    print(ticks(os.getpid()) / os.sysconf("SC_CLK_TCK"))
"""


def log_of(rows: int) -> pa.Table:
    """Each message is published once, and handed over by every process in turn."""
    messages = max(1, rows // (PROCESSES + 1))
    message = np.repeat(np.arange(messages), PROCESSES + 1)
    place = np.tile(np.arange(-1, PROCESSES), messages)
    process = np.where(place < 0, message % PROCESSES, place)
    names = pa.array([f"p{number + 1}" for number in range(PROCESSES)])
    number = pa.array(message).cast(pa.string())
    return pa.table(
        {
            "at": np.arange(len(message)),
            "client": names.take(pa.array(process)),
            "event": pa.array(["sent", "got"]).take(pa.array((place >= 0).astype(int))),
            "message": pc.binary_join_element_wise(pa.scalar("m"), number, "-"),
            "body": pc.binary_join_element_wise(pa.scalar("order"), number, " "),
        }
    )


def write(table: pa.Table, path: Path) -> None:
    if path.suffix == ".csv":
        options = pa.csv.WriteOptions(quoting_style="none", quoting_header="none")
        pa.csv.write_csv(table, path, options)
        return
    start = ['{"at": ', ', "client": "', '", "event": "', '", "message": "', '", "body": "']
    cells = [table[name].cast(pa.string()) for name in table.column_names]
    parts = [part for pair in zip(map(pa.scalar, start), cells, strict=True) for part in pair]
    lines = pc.binary_join_element_wise(*parts, pa.scalar('"}\n'), "")
    with path.open("wb") as file:
        for chunk in lines.chunks:
            for begin in range(0, len(chunk), 1 << 16):
                file.write("".join(chunk.slice(begin, 1 << 16).to_pylist()).encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--form", choices=("csv", "jsonl"), default="csv")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log, mapping = Path(folder, f"log.{asked.form}"), Path(folder, "mapping.toml")
        mapping.write_text(MAPPING)
        table = log_of(int(asked.rows))
        write(table, log)
        words = [sys.executable, "-c", PROGRAM, str(log), str(mapping), str(Path(folder, "out"))]
        # Nobody waits for Spark's Java, so its CPU is asked for while it lives.
        cpu_s = float(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
        size_mb = log.stat().st_size / 1e6
        print(
            f"{table.num_rows:,} rows, {size_mb:,.0f} MB of {asked.form}: {cpu_s:.1f} s of CPU, "
            f"{1e6 * cpu_s / table.num_rows:.2f} us a row"
        )


if __name__ == "__main__":
    main()
