"""The five guarantees in DuckDB, for one long run with one list of members.

One aggregation by message says who delivered it first where, how often, and with which texts. For
Causal Order it is enough, at each reader, that a message comes after the one its origin broadcast
before it, and after whatever the origin delivered in between: the rest follows step by step. So
the events of an origin are grouped by the broadcast they come before, which takes one window, not
one for each reader.
"""

from collections.abc import Sequence
from pathlib import Path


def judge(files: Sequence[Path], processes: int) -> dict[str, int]:
    """How many breaches of each guarantee were seen."""
    import duckdb

    names = ", ".join(f"'{file}'" for file in files)
    readers = range(processes)
    firsts = ", ".join(
        f"min(index) filter (kind = 'deliver' and process = {p}) p{p}" for p in readers
    )
    places = ", ".join(f"p{p}" for p in readers)
    seen = " + ".join(f"(p{p} is not null)::int" for p in readers)
    own = " or ".join(
        f"(origin = {p} and p{p} is null and list_contains(correct, {p}))" for p in readers
    )
    owed = " + ".join(f"(p{p} is null and list_contains(correct, {p}))::int" for p in readers)
    never = 2**62
    asked = ", ".join(f"max(coalesce(p{p}, {never})) a{p}" for p in readers)
    lagged = ", ".join(f"lag(p{p}) over steps l{p}" for p in readers)
    early = " + ".join(
        f"(p{p} is not null and (coalesce(a{p}, -1) >= p{p} or coalesce(l{p}, {never}) >= p{p}) "
        f"and not (l{p} is null and step = 0 and coalesce(a{p}, -1) < p{p}))::int"
        for p in readers
    )
    with duckdb.connect() as db:
        db.execute("set threads to 2")
        db.execute(
            f"create view rows as select process, index, kind, origin, seq, digest "
            f"from read_parquet([{names}])"
        )
        db.execute(
            "create table correct as select list(process) correct from ("
            "select process, arg_max(kind, index) last from rows group by process) "
            "where last = 'settle'"
        )
        gaps = db.execute(
            "select count(*) from (select count(*) n, max(index) m, min(index) l from rows "
            "group by process) where m + 1 <> n or l <> 0"
        ).fetchone()
        assert gaps == (0,)
        db.execute(
            f"create table messages as select origin, seq, "
            f"min(index) filter (kind = 'broadcast') sent, "
            f"count(*) filter (kind = 'broadcast') sendings, "
            f"count(*) filter (kind = 'deliver') deliveries, "
            f"min(digest) <> max(digest) altered, {firsts} from rows "
            f"where kind in ('broadcast', 'deliver') group by origin, seq"
        )
        counted = db.execute(
            f"select sum(deliveries - ({seen})), "
            f"count(*) filter (sent is null or sendings > 1 or altered), "
            f"count(*) filter ({own}), "
            f"sum(case when sent is not null and deliveries > 0 then {owed} else 0 end) "
            f"from messages, correct"
        ).fetchone()
        db.execute(
            f"create table events as select process, index, is_sent, step - is_sent::int step, "
            f"{places} from (select process, index, origin, seq, kind = 'broadcast' is_sent, "
            f"sum((kind = 'broadcast')::int) over (partition by process order by index "
            f"rows unbounded preceding) step from rows where origin is not null) "
            f"join messages using (origin, seq)"
        )
        db.execute(
            f"create table pasts as select process, step, {asked} from events "
            f"where not is_sent group by process, step"
        )
        ordered = db.execute(
            f"with sent as (select process, step, {places}, {lagged} from events where is_sent "
            f"window steps as (partition by process order by step)) "
            f"select sum({early}) from sent left join pasts using (process, step)"
        ).fetchone()
    assert counted is not None
    assert ordered is not None
    kinds = ("no duplication", "no creation", "validity", "uniform agreement", "causal order")
    return dict(zip(kinds, map(int, (*counted, *ordered)), strict=True))
