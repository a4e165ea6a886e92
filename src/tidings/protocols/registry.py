"""The algorithms by name."""

from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from typing import Any

from tidings.core import Choose, Members, Process, UsageError
from tidings.protocols import flawed
from tidings.protocols.majority_relay import MajorityRelay

Factory = Callable[[str, Members, Choose], Process]

PROTOCOLS: dict[str, type[Process]] = {
    "majority-relay": MajorityRelay,
    "flawed/repeating": flawed.Repeating,
    "flawed/embroidering": flawed.Embroidering,
    "flawed/falling-silent": flawed.FallingSilent,
    "flawed/hasty": flawed.Hasty,
    "flawed/careless": flawed.Careless,
}


def factory(name: str, options: Mapping[str, Any] | None = None) -> Factory:
    """How to make a process of this protocol with these options."""
    kind = PROTOCOLS.get(name)
    if kind is None:
        raise UsageError(f"unknown protocol {name!r}; known: {', '.join(PROTOCOLS)}")
    options = options or {}
    known = list(signature(kind).parameters)[3:]
    for option in options:
        if option not in known:
            has = ", ".join(known) or "none"
            raise UsageError(f"{name} has no option {option!r}; it has: {has}")
    return partial(kind, **options)
