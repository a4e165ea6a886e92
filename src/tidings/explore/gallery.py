"""How to see each flaw of the gallery: the smallest scope that shows it, or a seed that does."""

import shlex
from typing import Any

from tidings.explore import Scope
from tidings.simulator import Plan

ONE_CRASH = {"processes": 3, "broadcasts": 1, "crashes": 1}
AT_ONCE = {"options": {"batch_ms": 0}}
"""Without the timers that batch acknowledgements there is less to try."""

SCOPES: dict[str, dict[str, Any]] = {
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
    "flawed/frontier-quorum-of-f": ONE_CRASH,
    "flawed/frontier-never-fetching": ONE_CRASH,
    "flawed/frontier-forgetting-early": ONE_CRASH,
    "flawed/frontier-overlooking-causes": {"broadcasts": 2},
    "flawed/frontier-restamping": {"broadcasts": 2} | AT_ONCE,
    "flawed/frontier-asking-once": {"broadcasts": 2, "crashes": 1} | AT_ONCE,
    "flawed/frontier-not-greeting": ONE_CRASH | {"restarts": 1},
    "flawed/frontier-owing-nothing": ONE_CRASH,
}
"""What `explore` needs to show the flaw, with all that it breaks."""

SEEDS: dict[str, tuple[int, dict[str, Any]]] = {
    "flawed/frontier-saying-it-once": (1, {"processes": 3, "links": "lossy", "lost": 0.3}),
    "flawed/frontier-acknowledging-early": (84, ONE_CRASH | {"restarts": 1}),
    "flawed/frontier-not-answering": (225, {"processes": 5, "broadcasts": 2, "crashes": 2}),
}
"""What is beyond an explorer: links that lose, writes that are lost, groups of five."""


def scope_of(name: str) -> Scope:
    return Scope(protocol=name, **SCOPES[name])


def plan_of(name: str) -> tuple[int, Plan]:
    seed, plan = SEEDS[name]
    return seed, Plan(protocol=name, **{"broadcasts": 1} | plan)


def how_to_see(name: str) -> str:
    """The command that shows the flaw; empty for those that take a scenario of their own."""
    if name in SCOPES:
        return _command("explore", name, SCOPES[name])
    if name in SEEDS:
        seed, plan = SEEDS[name]
        return _command("simulate", name, {"seed": seed, "broadcasts": 1} | plan)
    return ""


def _command(verb: str, name: str, arguments: dict[str, Any]) -> str:
    words = ["tidings", verb, "--protocol", name]
    for argument, value in arguments.items():
        match argument, value:
            case "options", dict():
                for option, chosen in value.items():
                    words += ["--option", f"{option}={chosen}"]
            case "texts", tuple():
                for text in value:
                    words += ["--text", text.decode()]
            case _:
                words += [f"--{argument.replace('_', '-')}", str(value)]
    return shlex.join(words)
