"""IntervalSet: a set of numbers, whatever the order in which they come."""

from hypothesis import given
from hypothesis import strategies as st

from tidings.core import IntervalSet
from tidings.core.state import copied, fingerprint, measured, shown

numbers = st.lists(st.integers(0, 60), max_size=40)
ranges = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 6)), max_size=12).map(
    lambda pairs: [(first, first + length) for first, length in pairs]
)


def filled(values) -> IntervalSet:
    made = IntervalSet()
    for value in values:
        made.add(value)
    return made


def test_adjacent_ranges_melt_into_one() -> None:
    made = filled([1, 3, 2, 7, 5, 6])
    assert made.ranges == ((1, 3), (5, 7))
    made.add(4)
    assert made.ranges == ((1, 7),)


@given(numbers)
def test_it_is_the_set_of_what_was_added(values) -> None:
    made = filled(values)
    assert list(made) == sorted(set(values))
    assert len(made) == len(set(values))
    assert all((value in made) == (value in values) for value in range(-1, 63))


@given(ranges)
def test_ranges_are_sorted_and_never_touch(pairs) -> None:
    made = IntervalSet(pairs)
    assert set(made) == {number for a, b in pairs for number in range(a, b + 1)}
    lasts_and_firsts = zip(made.ranges, made.ranges[1:], strict=False)
    assert all(last + 1 < first for (_, last), (first, _) in lasts_and_firsts)


@given(numbers, numbers)
def test_union_and_subset_agree_with_sets(one, other) -> None:
    union = filled(one)
    union.update(filled(other))
    assert set(union) == set(one) | set(other)
    assert (filled(one) <= filled(other)) == (set(one) <= set(other))
    assert filled(one) <= union
    assert (filled(one) == filled(other)) == (set(one) == set(other))


@given(ranges, st.integers(0, 60))
def test_since_takes_away_the_past(pairs, first) -> None:
    made = IntervalSet(pairs)
    assert set(made.since(first)) == {number for number in made if number >= first}
    assert made.ranges == IntervalSet(pairs).ranges, "it is left as it was"


def test_a_million_numbers_in_a_row_are_one_range() -> None:
    made = IntervalSet([(1, 10**9)])
    made.add(10**9 + 1)
    assert made.ranges == ((1, 10**9 + 1),)
    assert 5 * 10**8 in made
    assert made <= IntervalSet([(0, 2 * 10**9)])


def test_it_is_state_like_any_other() -> None:
    made = filled([1, 2, 5])
    twin = copied({"seen": made})["seen"]
    twin.add(3)
    assert made.ranges == ((1, 2), (5, 5))
    assert fingerprint(made) == fingerprint(filled([5, 2, 1]))
    assert shown({"seen": made}) == {"seen": "1-2, 5"}
    assert measured({"p1": made, "p2": filled([1])})["ranges"] == 3
    assert not IntervalSet()
    assert str(IntervalSet()) == "nothing"
