"""The smallest scope in which each flaw of the gallery shows all that it breaks."""

from collections.abc import Iterator
from typing import Any

from tidings.core import quorum
from tidings.lab.explore import Scope
from tidings.protocols import PROTOCOLS
from tidings.simulator.script import protocol_of

ONE_CRASH = {"processes": 3, "broadcasts": 1, "crashes": 1}

SMALLEST: dict[str, dict[str, Any]] = {
    "flawed/repeating": {"processes": 2, "broadcasts": 1},
    "flawed/embroidering": {"processes": 2, "broadcasts": 1},
    "flawed/falling-silent": {"processes": 1, "broadcasts": 4},
    "flawed/hasty": ONE_CRASH,
    "flawed/careless": {"processes": 3, "broadcasts": 2},
    "flawed/forgetful-relay": {"processes": 3, "broadcasts": 1, "max_packets": 6},
    "flawed/silent-relay": ONE_CRASH,
    "flawed/self-counting-relay": ONE_CRASH,
    "flawed/gambling-relay": ONE_CRASH,
    "flawed/small-quorum": ONE_CRASH,
    "flawed/on-receipt-only": {"processes": 1, "broadcasts": 1},
    "flawed/copy-counting": {"processes": 5, "broadcasts": 1, "crashes": 2, "duplicates": 1},
    "flawed/others-only": ONE_CRASH,
    "flawed/early-exit": {"processes": 3, "broadcasts": 1},
    "flawed/waiting-for-all": {"processes": 1, "broadcasts": 2, "joiners": 1},
    "flawed/skipping-only": {"processes": 3, "broadcasts": 2, "crashes": 1, "joiners": 1},
    "flawed/leaving-out": {"processes": 1, "broadcasts": 2, "joiners": 1},
    "flawed/two-phase-as-written": ONE_CRASH,
    "flawed/waiting-for-finack": {"processes": 5, "broadcasts": 1, "crashes": 2},
    "flawed/first-word": ONE_CRASH,
    "flawed/known-by-text": {"processes": 1, "broadcasts": 2, "texts": (b"same",)},
    "flawed/never-alone": {"processes": 1, "broadcasts": 1},
    "flawed/unordered": {"processes": 3, "broadcasts": 2},
    "flawed/storm": {"processes": 3, "broadcasts": 1, "max_packets": 10},
    "flawed/half-only": ONE_CRASH,
    "flawed/relayers-vector": {"processes": 3, "broadcasts": 2},
    "flawed/received-vector": {"processes": 3, "broadcasts": 3, "crashes": 1},
    "flawed/single-pass": {"processes": 2, "broadcasts": 2},
}

LARGE = (
    "flawed/copy-counting",
    "flawed/skipping-only",
    "flawed/waiting-for-finack",
    "flawed/received-vector",
)
"""Those whose scopes take more than a moment."""

SMALL = tuple(name for name in SMALLEST if name not in LARGE)


def scope_of(name: str) -> Scope:
    return Scope(protocol=name, **SMALLEST[name])


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
