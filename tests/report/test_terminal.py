"""Tables in a terminal: what stands where."""

from tidings.report import plain_table


def test_numbers_stand_to_the_right_even_where_one_is_cut_or_unknown() -> None:
    rows = [
        {"delays": "frontier", "n=3": "2", "n=20": "11.9", "n=50": "> 3.09M"},
        {"delays": "flawed/storm", "n=3": "2", "n=20": "?", "n=50": "?"},
    ]
    assert [one.justify for one in plain_table(rows).columns] == ["left", *["right"] * 3]
    (verdict,) = plain_table([{"verdict": "? unknown"}]).columns
    assert verdict.justify == "left"
