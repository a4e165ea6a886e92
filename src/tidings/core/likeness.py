"""Which known word somebody may have meant by one that is not known."""

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean alice?``, to be put after a complaint; nothing if no known word is near.

    Of dotted names the last part counts too: who writes ``window`` may mean ``limits.window``.
    """
    from difflib import get_close_matches  # only who made a mistake waits for it

    names = list(known)
    last = word.rpartition(".")[2].lower()
    same = [name for name in names if name.rpartition(".")[2].lower() == last]
    spelt = {name.lower(): name for name in reversed(names)}
    near = same or [spelt[one] for one in get_close_matches(word.lower(), spelt, n=1, cutoff=0.6)]
    return f"; did you mean {near[0]}?" if near else ""
