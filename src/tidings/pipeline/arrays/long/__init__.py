"""One run of any length, judged in pieces that fit in memory.

A piece is one group of rows of one file. First every piece is checked by itself (``survey``), and
the ends of neighbours against each other (``outlines``): then it is known who was correct, and
which sequence numbers each origin used. These are dense, or this way is not taken, so a message
is a place in a table.

Then the processes are dealt out. Whoever gets some of them (``judge_slice``) reads the whole trace
twice, one piece after the other. The first time it notes, of its own processes as readers, where
each first delivered each message, and, of its own processes as origins, the text of each message as
it was first heard: if everybody heard the same, the text is right. The second time it goes through
the history of every origin and asks for the causes, as ``batch`` does; the running maximum is
carried from piece to piece. Four bytes for each message and reader, eight for each message of an
origin, and one piece: that is all the memory it takes, but for what is wrong: of each bad delivery
some dozen numbers are noted.

Nothing here is an approximation. Names in any order, duplicates, strays and altered texts are
judged as the specification does; what they cost is another look at the pieces concerned.
"""

from collections import Counter
from functools import partial

import numpy as np

from tidings.pipeline.arrays.findings import NOTHING, Findings, Found, joined
from tidings.pipeline.arrays.long.debts import Debts
from tidings.pipeline.arrays.long.outline import Outline, SurveyedHistory, outlines, survey
from tidings.pipeline.arrays.long.slice import SliceFindings, judge_slice
from tidings.pipeline.arrays.perform import Perform, plainly
from tidings.pipeline.arrays.rows import Directory
from tidings.spec import Guarantee

__all__ = ["Outline", "SurveyedHistory", "judge_long", "outlines", "survey"]


def judge_long(
    outline: Outline,
    directory: Directory,
    *,
    slices: int = 1,
    most: int | None = None,
    perform: Perform = plainly,
) -> Findings:
    """The verdicts on one long run: ``slices`` tasks, and a few more to look up witnesses."""
    dealt = [part.tolist() for part in np.array_split(np.arange(directory.width), slices)]
    task = partial(judge_slice, outline=outline, directory=directory, most=most)
    parts: list[SliceFindings] = perform(task, [mine for mine in dealt if mine])
    debts = Debts(outline, directory, parts, most, perform)
    counts = sum((part.counts for part in parts), Counter[str]())
    repeated, invented, renamed, early = (
        Found.joined([part.found[kind] for part in parts]).first(most)
        for kind in ("repeated", "invented", "renamed", "early")
    )
    of_each = [
        (counts["deliveries"], 0, counts["repeated"]),
        (counts["compared"], 0, counts["invented"] + counts["renamed"]),
        debts.validity_counts,
        debts.agreement_counts,
        (counts["ordered"], 0, counts["early"]),
    ]
    unreached = min((part.unreached for part in parts if part.unreached), default=None)
    return Findings(
        np.array([of_each], np.int64),
        np.array([unreached[2:4] if unreached else (NOTHING, NOTHING)]),
        {
            Guarantee.NO_DUPLICATION: repeated,
            Guarantee.NO_CREATION: Found(*joined([invented, renamed])).first(most),
            Guarantee.VALIDITY: debts.validity,
            Guarantee.UNIFORM_AGREEMENT: debts.agreement,
            Guarantee.CAUSAL_ORDER: early,
        },
    )
