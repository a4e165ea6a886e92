"""Real groups under limits of one byte, one message, one packet; many more of them in the soak."""

import random

import pytest

from tiny_limits import drawn, limits, survive

SEEDS = (5, 12, 19, 28)


@pytest.mark.parametrize("seed", SEEDS)
def test_tiny_limits_lose_repeat_and_reorder_nothing(seed: int) -> None:
    happened = survive([seed])
    assert happened["texts"] > 0
    assert happened["returns"] > 0


def test_every_limit_is_drawn_as_small_as_it_can_be() -> None:
    least = {f"{key} = {value}" for key, value in limits().items()}
    lines = {line for seed in range(50) for line in drawn(random.Random(seed))}
    assert least <= lines
    assert {"limits.batch_bytes = 1", "limits.segment_bytes = 1", "links.strangers = 1"} <= least
