"""Many runs in chunks, on all cores; what is done stays done, also when the soak is interrupted.

Every finished chunk is a line in ``runs/soak.jsonl``, with a digest of the code that it ran. The
same soak of the same code goes on where it was.
"""

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DONE = ROOT / "runs" / "soak.jsonl"
CODE = ("core", "protocols", "guests", "simulator", "spec")
CHUNK = 250

Survives = Callable[[range], Counter[str]]


def digest_of_the_code() -> str:
    files = [
        file
        for folder in CODE
        for file in sorted((ROOT / "src" / "tidings" / folder).rglob("*.py"))
    ]
    files += sorted(Path(__file__).parent.glob("frontier_*.py"))
    return hashlib.blake2b(b"\0".join(map(Path.read_bytes, files)), digest_size=8).hexdigest()


def on_all_cores(survives: Survives, runs: int, first: int, capsys: Any) -> Counter[str]:
    """What the runs contained, those of earlier tries too; none of them may raise."""
    name, code = survives.__name__, digest_of_the_code()
    done = {start: found for start, found in _done(name, code) if first <= start < first + runs}
    happened: Counter[str] = sum(done.values(), Counter())
    starts = [start for start in range(first, first + runs, CHUNK) if start not in done]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for start, found in pool.map(_timed, [survives] * len(starts), starts):
            _note(name, code, start, found)
            happened += found
            with capsys.disabled():
                print(f"\n{name}: {happened['runs']:,} of {runs:,} runs", end="", flush=True)
    with capsys.disabled():
        print(f"\n{dict(sorted(happened.items()))}", flush=True)
    assert happened["runs"] == runs
    return happened


def _timed(survives: Survives, start: int) -> tuple[int, Counter[str]]:
    begin_s = time.process_time()
    found = survives(range(start, start + CHUNK))
    found["processor seconds"] = round(time.process_time() - begin_s)
    return start, found


def _done(name: str, code: str) -> Iterable[tuple[int, Counter[str]]]:
    if DONE.exists():
        for line in DONE.read_text().splitlines():
            entry = json.loads(line)
            if (entry["name"], entry["code"], entry["chunk"]) == (name, code, CHUNK):
                yield entry["first"], Counter(entry["found"])


def _note(name: str, code: str, first: int, found: Counter[str]) -> None:
    DONE.parent.mkdir(exist_ok=True)
    entry = {"name": name, "code": code, "chunk": CHUNK, "first": first, "found": found}
    with DONE.open("a") as file:
        file.write(json.dumps(entry) + "\n")
