"""Mutants of the slabs: each has one expression of one function changed, and forgets one rule.

``test_slabs_cut_anywhere_and_the_specification_agree`` notices every one of them: a run gets
another verdict, count or witness than the specification's, or an assertion fails on the way.
"""

import inspect
import textwrap
from typing import Any, NamedTuple

import pytest

from tidings.pipeline.arrays import long
from tidings.pipeline.arrays.long import causes, early, grouping, packing, slab


class Mutant(NamedTuple):
    owner: Any
    """A class, or the module that calls the function."""
    name: str
    right: str
    wrong: str

    def live(self, patch: pytest.MonkeyPatch) -> None:
        function = getattr(self.owner, self.name)
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.right) == 1, (self.name, self.right)
        made: dict[str, Any] = {}
        exec(source.replace(self.right, self.wrong), function.__globals__, made)
        patch.setattr(self.owner, self.name, made[function.__name__])


MUTANTS = {
    # --- rows on their way
    "what lies beyond the slab is not away": Mutant(
        packing._Packing, "_are_away", "| (largest > last[some])", ""
    ),
    "parts in the order of their arrival": Mutant(
        slab, "unpacked", "sorted(parts, key=lambda part: (part.process, part.first))", "parts"
    ),
    # --- one slab
    "of several broadcasts the last counts": Mutant(
        slab.Slab, "_note_broadcasts", "fresh = message[is_new][::-1]", "fresh = message[is_new]"
    ),
    "of several deliveries the last counts": Mutant(
        slab.Slab, "_note_reader", "parts[::-1]", "parts"
    ),
    "what was delivered below the cut is new": Mutant(
        slab.Slab, "_note_reader", "is_new = ~had[message]", "is_new = message >= 0"
    ),
    "wrong sums are overlooked": Mutant(
        slab.Slab, "_is_suspected", "(sums != part.home.sums).any()", "False"
    ),
    "altered texts in notes are overlooked": Mutant(
        slab.Slab, "_is_suspected", "if len(self._odd(part)):", "if False:"
    ),
    "the text of a name used twice is the first": Mutant(
        slab.Slab, "_odd", "if len(odd) and self.again:", "if False:"
    ),
    "those who are not addressed owe": Mutant(
        slab.Slab, "debts", " & known.survivors[view, process]", ""
    ),
    "debts in the order of slabs": Mutant(
        long,
        "in_order_of_broadcasts",
        "found.at(np.lexsort((found.position, found.origin)))",
        "found",
    ),
    # --- causes
    "what was given asks for nothing": Mutant(causes.Asked, "__init__", " | slab.given", ""),
    "those who are not addressed are asked": Mutant(
        causes.Asked, "__init__", "is_asking & members[slab.view, reader]", "is_asking"
    ),
    "a name used twice is judged twice": Mutant(
        causes.Asked,
        "answers",
        "at[:, ~self.is_first(sent, part.index[part.broadcasts])] = self.never",
        "pass",
    ),
    "a slab overlooks its own": Mutant(
        causes._Asking, "_fill", "is_bad = asked >= bound", "is_bad = asked < BELOW"
    ),
    "nothing bounds what is away": Mutant(
        causes._Asking, "_fill", "self.request.bound[readers] = bounds[:, self.away_after]", "pass"
    ),
    "a broadcast that is away forgets what is away before it": Mutant(
        long, "border", "np.maximum(before[:, sent], request.so_far)", "request.so_far"
    ),
    "a broadcast that is away forgets what is here before it": Mutant(
        long, "border", "np.maximum(before[:, sent], request.so_far)", "before[:, sent]"
    ),
    "what is away is asked by nobody later": Mutant(
        causes.Past, "joined", "np.maximum(self.asked, other.asked)", "self.asked"
    ),
    "what is away is not needed": Mutant(
        causes.Past, "joined", "np.minimum(self.needed, other.needed)", "self.needed"
    ),
    "only the slab before is asked": Mutant(
        causes.Scan,
        "__init__",
        "self.before[1:] = np.maximum.accumulate(asked, axis=0)[:-1]",
        "self.before[1:] = asked[:-1]",
    ),
    # --- what violations follow from
    "debts lead back to what was skipped": Mutant(
        slab.Slab, "first_debts", " & (part.index > last[part.process, reader])", ""
    ),
    "what was skipped leads on": Mutant(
        grouping, "_roots", "is_debt & (sent_at > debts[0].last[origin])", "is_debt"
    ),
    "the first debt of any slab is the first of all": Mutant(
        grouping, "_least", "every[:, :, 0].argmin(axis=0)", "0"
    ),
    # --- early deliveries, listed
    "slabs that answer are not asked": Mutant(
        long, "list_early", ".union(answering, owing)", ".union(owing)"
    ),
    "nothing is inherited": Mutant(
        early._Listing, "of", "np.append(wanted.before[pair], asked)", "np.append(BELOW, asked)"
    ),
    "the last record is not sent": Mutant(
        early._Listing, "of", "records[: last + 1]", "records[:last]"
    ),
    "records are not sent from slabs that are not broken": Mutant(
        causes.Scan, "__init__", "self.is_broken | has_causes", "self.is_broken"
    ),
    "a cause is the last record that suffices": Mutant(
        early, "_resolve", "order = np.argsort(asked)", "order = np.argsort(-asked)"
    ),
}
