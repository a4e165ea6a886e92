"""On an idle machine no frame, legal or hostile, keeps a member from its loop for 100 ms."""

from pathlib import Path

import pytest

from real_groups import go, group_file
from worst_frames import HOSTILE, LEGAL, absence

MOST_S = 0.1


@pytest.mark.parametrize("name", [*LEGAL, *HOSTILE])
def test_the_loop_is_never_away_for_a_tenth_of_a_second(name: str, tmp_path: Path) -> None:
    spoken = (LEGAL | HOSTILE)[name]()
    lines = ("limits.queue_bytes = 2100000",) if name in HOSTILE else ()
    measured, _ = go(absence(group_file(tmp_path, 3, *lines), spoken))
    assert measured.wall_s < MOST_S
