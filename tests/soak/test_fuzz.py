"""What ``tests/security/test_fuzz.py`` does for seconds, for many more seeds."""

from pathlib import Path

import pytest

from fuzzed_members import endure
from strangers import Papers


@pytest.mark.parametrize("seed", range(10))
def test_whatever_is_sent_a_member_goes_on(tmp_path: Path, seed: int) -> None:
    assert endure(Papers(tmp_path / "papers"), tmp_path, 10_000, 100 + seed).total() >= 10_000
