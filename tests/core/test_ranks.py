"""Percentiles by nearest rank: always one of the values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.core.ranks import percentile, rank


@pytest.mark.parametrize("percent", [0, 1, 50, 99, 100])
def test_of_one_value_every_percentile_is_that_value(percent: int) -> None:
    assert percentile(percent, [7]) == 7


def test_the_ends_are_the_least_and_the_most() -> None:
    assert (percentile(0, [3, 5, 8]), percentile(100, [3, 5, 8])) == (3, 8)


def test_the_middle_of_an_even_number_is_the_lower_one() -> None:
    assert percentile(50, [1, 2, 3, 4]) == 2


def test_ties_count_as_often_as_they_occur() -> None:
    assert [percentile(percent, [1, 1, 1, 9]) for percent in (25, 50, 75, 76)] == [1, 1, 1, 9]


def test_a_whole_rank_is_not_rounded_up() -> None:
    for percent in range(101):
        for hundreds in range(1, 200):
            assert rank(percent, 100 * hundreds) == max(1, percent * hundreds)


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=300), st.integers(0, 100))
def test_it_is_the_one_that_numpy_calls_inverted_cdf(values: list[int], percent: int) -> None:
    ascending = sorted(values)
    # numpy multiplies by a fraction; a hair less of it never crosses a whole rank by rounding up.
    expected = np.percentile(ascending, max(0, percent - 1e-9), method="inverted_cdf")
    assert percentile(percent, ascending) == expected
