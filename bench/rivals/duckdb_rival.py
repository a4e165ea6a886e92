"""The five guarantees in DuckDB, for one long run with one list of members, a file per process.

Every process numbers its messages from 1, so each message has a small number of its own, found by
arithmetic, and DuckDB groups by it in an array instead of a hash table (``perfect_ht_threshold``).
For Causal Order it is enough, at each reader, that a message comes after the one its origin
broadcast before it, and after whatever the origin delivered in between: the rest follows step by
step. So each event carries the number of the message its process broadcasts next, which a window
without any order counts while the file is read, and nothing is sorted.
"""

from collections.abc import Sequence
from pathlib import Path

import duckdb

NEVER = 2**31 - 1
THREADS = 2
ARRAY_BITS = 30
"""Up to so many bits of a number, groups are in an array."""


def judge(files: Sequence[Path]) -> dict[str, int]:
    """How many breaches of each guarantee were seen."""
    with duckdb.connect() as db:
        db.execute(f"set threads to {THREADS}; set perfect_ht_threshold = {ARRAY_BITS}")
        correct, counts = _ends(db, files)
        unknown = _read_events(db, files, counts)
        return _breaches(db, len(files), correct, unknown)


def _ends(db: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> tuple[list[int], list[int]]:
    """Which processes are correct, and how many messages each of them broadcast."""
    names = ", ".join(f"'{file}'" for file in files)
    ends = db.execute(
        "select process, min(index) = 0 and max(index) + 1 = count(*), arg_max(kind, index), "
        "count(*) filter (kind = 'broadcast'), max(seq) filter (kind = 'broadcast') "
        f"from read_parquet([{names}]) group by process order by process"
    ).fetchall()
    assert [end[0] for end in ends] == list(range(len(files)))
    for process, is_whole, _, count, last in ends:
        assert is_whole, f"the history of process {process} has a gap"
        assert count == (last or 0), f"process {process} does not count from 1"
    return [end[0] for end in ends if end[2] == "settle"], [end[3] for end in ends]


def _read_events(
    db: duckdb.DuckDBPyConnection, files: Sequence[Path], counts: Sequence[int]
) -> int:
    """Fill the table of events; how many deliveries are of what nobody broadcast."""

    def of_origin(values: Sequence[int]) -> str:
        cases = (f"when {origin} then {value}" for origin, value in enumerate(values))
        return f"case origin {' '.join(cases)} end"

    begins = [sum(counts[:process]) for process in range(len(files))]
    db.execute(
        "create temp table events (process tinyint, index integer, is_sent boolean, "
        "message integer, next integer, digest bigint)"
    )
    read = 0
    for process, (file, begin, count) in enumerate(zip(files, begins, counts, strict=True)):
        found = db.execute(
            f"insert into events select {process}, index, is_sent, "
            f"case when seq between 1 and {of_origin(counts)} "
            f"then seq - 1 + {of_origin(begins)} end, "
            f"case when steps < {count} then {begin} + steps end, digest "
            f"from (select *, count(*) filter (is_sent) over (rows between unbounded preceding "
            f"and current row) steps from (select index, kind = 'broadcast' is_sent, origin, "
            f"seq, digest from read_parquet('{file}') where kind in ('broadcast', 'deliver')))"
        ).fetchone()
        assert found is not None
        read += found[0]
    known = db.execute("select count(message) from events").fetchone()
    assert known is not None
    return read - int(known[0])


def _breaches(
    db: duckdb.DuckDBPyConnection, processes: int, correct: Sequence[int], unknown: int
) -> dict[str, int]:
    readers = range(processes)
    firsts = ", ".join(
        f"min(index) filter (process = {one} and not is_sent) p{one}" for one in readers
    )
    db.execute(
        f"create temp table messages as select message, count(*) - 1 deliveries, "
        f"max(process) filter (is_sent) origin, count(*) filter (is_sent) sendings, "
        f"min(digest) <> max(digest) is_altered, {firsts} "
        f"from events where message is not null group by message"
    )
    seen = " + ".join(f"(p{one} is not null)::int" for one in readers)
    own = " or ".join(f"(origin = {one} and p{one} is null)" for one in correct) or "false"
    owed = " + ".join(f"(p{one} is null)::int" for one in correct) or "0"
    counted = db.execute(
        f"select sum(deliveries - ({seen})), count(*) filter (is_altered or sendings <> 1), "
        f"count(*) filter ({own}), sum({owed}) filter (deliveries > 0) from messages"
    ).fetchone()
    lasts = ", ".join(f"max(coalesce(p{one}, {NEVER})) p{one}" for one in readers)
    early = " + ".join(f"count(*) filter (m.p{one} <= past.p{one})" for one in readers)
    ordered = db.execute(
        f"with pasts as (select next as message, {lasts} from events join messages using (message) "
        f"where next is not null group by next) "
        f"select {early} from messages m join pasts past using (message)"
    ).fetchone()
    assert counted is not None
    assert ordered is not None
    repeated, altered, missing, unagreed = (int(number or 0) for number in counted)
    return {
        "no duplication": repeated,
        "no creation": altered + unknown,
        "validity": missing,
        "uniform agreement": unagreed,
        "causal order": int(ordered[0]),
    }
