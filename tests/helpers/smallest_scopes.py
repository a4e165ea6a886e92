"""The smallest scope in which each flaw of the gallery shows all that it breaks."""

from collections.abc import Iterator

from tidings.core import quorum
from tidings.explore import Scope
from tidings.explore.gallery import SCOPES
from tidings.protocols import PROTOCOLS
from tidings.simulator.script import protocol_of

SMALLEST = {name: scope for name, scope in SCOPES.items() if "frontier" not in name}
"""frontier's own flaws are looked for in test_frontier_mutants.py."""

LARGE = (
    "flawed/copy-counting",
    "flawed/skipping-only",
    "flawed/waiting-for-finack",
    "flawed/received-vector",
)
"""Those whose scopes take more than a moment."""

SMALL = tuple(name for name in SMALLEST if name not in LARGE)


def mended_scope_of(name: str) -> Scope:
    protocol, options = protocol_of(PROTOCOLS[name].instead_of)
    return Scope(protocol=protocol, options=options, **SMALLEST[name])


def smaller_scopes_than(name: str) -> Iterator[Scope]:
    """The scope with one process, broadcast or fault less, for each that can be spared."""
    scope = SMALLEST[name]
    for part, least in (
        ("processes", 1),
        ("broadcasts", 0),
        ("crashes", 0),
        ("joiners", 0),
        ("duplicates", 0),
    ):
        if scope.get(part, least) > least:
            smaller = scope | {part: scope[part] - 1}
            minority = quorum(smaller["processes"]) - 1
            smaller["crashes"] = min(smaller.get("crashes", 0), minority)
            yield Scope(protocol=name, **smaller)
