"""The five guarantees in Polars, for one long run with one list of members, a file per process.

Every process numbers its messages from 1, so each message has a place in an array of all messages,
found by arithmetic: nothing is grouped, hashed or joined. For each reader such an array says where
it first delivered which message. For Causal Order each history gathers from these arrays in its own
order: at every reader, a message comes after whatever its origin broadcast or delivered before it,
and a running maximum says where the last of that is.
"""

from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl

NEVER = 2**31 - 1
THREADS = 2


def judge(files: Sequence[Path]) -> dict[str, int]:
    """How many breaches of each guarantee were seen.

    Polars spreads one expression over few columns badly, so histories are spread by threads.
    """
    with ThreadPoolExecutor(THREADS) as threads:
        return _judged(files, threads)


def _judged(files: Sequence[Path], threads: Executor) -> dict[str, int]:
    whole = list(threads.map(_history, files, range(len(files))))
    correct = [process for process, (_, is_correct) in enumerate(whole) if is_correct]
    histories = [history for history, _ in whole]
    del whole
    texts, counts = _broadcasts(histories)
    begins = counts.cum_sum() - counts
    messages = len(texts)

    repeated = created = 0
    firsts = []
    for process, history in enumerate(histories):
        known = _known(history, counts, begins)
        delivered = known.filter(~pl.col("is_sent"))
        altered = (texts.gather(delivered["message"]) != delivered["digest"]).sum()
        created += len(history) - len(known) + int(altered)
        first = _first_places(delivered, messages)
        repeated += len(delivered) - int((first != NEVER).sum())
        firsts.append(first)
        histories[process] = known.select("is_sent", "message")

    readers = pl.DataFrame({str(process): first for process, first in enumerate(firsts)})
    delivered_somewhere = readers.filter(pl.any_horizontal(pl.all() != NEVER))
    owed = [int((delivered_somewhere[str(one)] == NEVER).sum()) for one in correct]
    own = (firsts[one].slice(begins[one], counts[one]) == NEVER for one in correct)
    return {
        "no duplication": repeated,
        "no creation": created,
        "validity": sum(int(missing.sum()) for missing in own),
        "uniform agreement": sum(owed),
        "causal order": sum(threads.map(lambda history: _early(history, firsts), histories)),
    }


def _history(file: Path, process: int) -> tuple[Any, bool]:
    """Broadcasts and deliveries of one process, and whether it is correct."""
    kind = pl.col("kind")
    rows = pl.read_parquet(file, columns=["process", "index", "kind", "origin", "seq", "digest"])
    checked = rows.select(
        ((pl.col("process") == process) & (pl.col("index") == pl.int_range(pl.len()))).all()
    )
    assert checked.item(), f"{file} is not the whole history of process {process}"
    is_correct = rows["kind"].cast(pl.String).tail(1).item() == "settle"
    history = rows.lazy().select(
        (kind == "broadcast").alias("is_sent"),
        (kind == "deliver").alias("is_delivered"),
        pl.col("index").cast(pl.Int32),
        "origin",
        "seq",
        "digest",
    )
    events = history.filter(pl.col("is_sent") | pl.col("is_delivered")).drop("is_delivered")
    return events.collect(), is_correct


def _broadcasts(histories: Sequence[Any]) -> tuple[Any, Any]:
    """The texts of all messages, one origin after the other, and how many each broadcast."""
    texts = []
    for process, history in enumerate(histories):
        sent = history.filter("is_sent")
        numbers = (pl.col("seq") == pl.int_range(1, pl.len() + 1)) & (pl.col("origin") == process)
        assert sent.select(numbers.all()).item(), f"process {process} does not count from 1"
        texts.append(sent["digest"])
    return pl.concat(texts), pl.Series([len(one) for one in texts], dtype=pl.Int64)


def _known(history: Any, counts: Any, begins: Any) -> Any:
    """Without deliveries of what nobody broadcast; the others by the place of their message."""
    is_broadcast = pl.col("seq").is_between(1, counts.gather(history["origin"]))
    known = history.filter(is_broadcast)
    place = begins.gather(known["origin"]) + pl.col("seq") - 1
    return known.select("is_sent", "index", "digest", place.cast(pl.UInt32).alias("message"))


def _first_places(delivered: Any, messages: int) -> Any:
    """For each message the index of its first delivery; the last one written stays."""
    first = pl.repeat(NEVER, messages, dtype=pl.Int32, eager=True)
    backwards = delivered.select("message", "index").reverse()
    return first.scatter(backwards["message"], backwards["index"])


def _early(history: Any, firsts: Sequence[Any]) -> int:
    """How often a reader delivered a message of this history before something in its past."""
    is_sent = history["is_sent"]
    sent = history["message"].filter(is_sent)
    early = 0
    for first in firsts:
        past = first.gather(history["message"]).cum_max().shift(1, fill_value=-1).filter(is_sent)
        own = first.gather(sent)
        early += int(((own <= past) & (own != NEVER)).sum())
    return early
