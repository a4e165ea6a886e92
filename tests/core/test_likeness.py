"""What somebody may have meant."""

import pytest

from tidings.core.likeness import did_you_mean

SETTINGS = ("name", "durable", "limits", "limits.window", "limits.window_bytes", "links.beat_ms")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("limits.widow", "limits.window"),
        ("window", "limits.window"),
        ("options.window", "limits.window"),
        ("Durable", "durable"),
        ("duarble", "durable"),
        ("limit", "limits"),
        ("links.beats_ms", "links.beat_ms"),
    ],
)
def test_the_nearest_known_word_is_named(word: str, meant: str) -> None:
    assert did_you_mean(word, SETTINGS) == f"; did you mean {meant}?"


@pytest.mark.parametrize("word", ["", "colour", "xyz.abc"])
def test_of_a_word_that_is_like_none_nothing_is_guessed(word: str) -> None:
    assert did_you_mean(word, SETTINGS) == ""
    assert did_you_mean(word, ()) == ""
