"""The five guarantees in Polars, for one long run with one list of members, a file per process.

One aggregation by message, as in the query for DuckDB. For Causal Order each history is joined with
it in its own order; then running maxima are plain columns.
"""

from collections.abc import Sequence
from pathlib import Path


def judge(files: Sequence[Path], processes: int) -> dict[str, int]:
    """How many breaches of each guarantee were seen."""
    import polars as pl

    columns = ("process", "index", "kind", "origin", "seq", "digest")
    readers = [f"p{number}" for number in range(processes)]
    never = 2**62
    rows = pl.scan_parquet(list(files)).select(columns)
    lasts = (
        rows.group_by("process")
        .agg(
            pl.col("kind").last(),
            ((pl.col("index").max() + 1) != pl.len()).alias("gap"),
        )
        .collect()
    )
    assert not lasts["gap"].any()
    correct = lasts.filter(pl.col("kind").cast(pl.String) == "settle")["process"].to_list()
    is_sent = pl.col("kind") == "broadcast"
    is_event = is_sent | (pl.col("kind") == "deliver")
    events = rows.filter(is_event)
    messages = (
        events.group_by("origin", "seq")
        .agg(
            is_sent.sum().alias("sendings"),
            (~is_sent).sum().alias("deliveries"),
            (pl.col("digest").min() != pl.col("digest").max()).alias("altered"),
            *(
                pl.col("index").filter(~is_sent & (pl.col("process") == number)).min().alias(reader)
                for number, reader in enumerate(readers)
            ),
        )
        .collect(engine="streaming")
    )
    seen = pl.sum_horizontal(pl.col(reader).is_not_null() for reader in readers)
    survivors = [f"p{number}" for number in correct]
    counted = messages.select(
        (pl.col("deliveries") - seen).sum().alias("no duplication"),
        ((pl.col("sendings") != 1) | pl.col("altered")).sum().alias("no creation"),
        pl.sum_horizontal(
            ((pl.col("origin") == number) & pl.col(f"p{number}").is_null()).sum()
            for number in correct
        ).alias("validity"),
        pl.sum_horizontal(
            (pl.col(one).is_null() & (pl.col("sendings") > 0) & (pl.col("deliveries") > 0)).sum()
            for one in survivors
        ).alias("uniform agreement"),
    ).to_dicts()[0]
    places = messages.select("origin", "seq", *(pl.col(one).fill_null(never) for one in readers))
    early = 0
    for file in files:
        history = (
            pl.scan_parquet(file)
            .select("kind", "origin", "seq")
            .filter(is_event)
            .join(places.lazy(), on=["origin", "seq"], how="left", maintain_order="left")
            .select(
                "kind",
                *readers,
                *(pl.col(one).cum_max().shift(1).alias(f"b{one}") for one in readers),
            )
            .filter(is_sent)
            .select(
                pl.sum_horizontal(
                    ((pl.col(f"b{one}") >= pl.col(one)) & (pl.col(one) < never)).sum()
                    for one in readers
                )
            )
        )
        early += history.collect().item()
    return {kind: int(count) for kind, count in counted.items()} | {"causal order": early}
