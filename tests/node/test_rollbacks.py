"""A few folders put back from older copies; ``make soak ROOM=storm`` does it for half an hour."""

from collections import Counter
from pathlib import Path

from rollbacks import roll_back

SEEDS = (3, 10, 300, 309, 332)
"""Among them two histories that only some of their holders reported, and a trace that told."""


def test_an_older_folder_is_noticed_or_does_no_harm(tmp_path: Path) -> None:
    ends: Counter[str] = Counter()
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        ends[roll_back(folder, seed).end] += 1
    assert ends.total() - ends["nothing to notice"] > 0, ends
