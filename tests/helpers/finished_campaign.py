"""A campaign that is complete, for all tests: every kind of figure comes of it."""

from pathlib import Path
from typing import Any

PLAN = """
seeds = 3
sizes = [3, 5]
algorithms = ["two-phase", "history-sets", "frontier mode=origin"]
flawed = ["flawed/careless"]

[workloads.one-shot]
broadcasts = 1
delay_ms_min = 10.0
delay_ms_max = 10.0

[workloads.steady]
broadcasts = 40
sample_ms = 5.0

[faults.none]

[faults.loss]
only = ["frontier"]
links = "lossy"
lost = 0.2
"""
RUNS = 60


def finish(spark: Any, place: Path) -> Path:
    """Run it into ``place/out``."""
    from tidings.campaign import conduct
    from tidings.campaign.folder import begun
    from tidings.campaign.plan import read_plan
    from tidings.pipeline import Progress, tasks_of

    (place / "plan.toml").write_text(PLAN)
    folder = begun(place / "out", read_plan(place / "plan.toml"))
    progress = Progress()
    with progress.following(tasks_of(spark)):
        done = conduct.conduct(spark, folder, progress)
    assert done == (RUNS, 0)
    return folder.path
