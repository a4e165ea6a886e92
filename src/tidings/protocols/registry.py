"""The algorithms by name, and the gallery of flaws beside them."""

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, get_args, get_origin

from tidings.core import Choose, Members, Process, UsageError
from tidings.core.likeness import did_you_mean
from tidings.protocols import flawed
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier import flawed as flawed_frontier
from tidings.protocols.history_sets import HistorySets
from tidings.protocols.interval_history import IntervalHistory
from tidings.protocols.majority_relay import MajorityRelay
from tidings.protocols.stage_gossip import StageGossip
from tidings.protocols.two_phase import TwoPhase
from tidings.protocols.views import Views

Factory = Callable[[str, Members, Choose], Process]


class Algorithm(NamedTuple):
    """A protocol, and for flawed ones what it breaks and which sound one it comes from."""

    kind: type[Process]
    breaks: tuple[str, ...] = ()
    instead_of: str = ""

    @property
    def theory(self) -> str:
        """What stands on top of its file, or of its package; of a flaw, on top of its class."""
        if self.breaks:
            return inspect.cleandoc(self.kind.__doc__ or "")
        place = self.kind.__module__.removeprefix(f"{__package__}.").partition(".")[0]
        return inspect.cleandoc(sys.modules[f"{__package__}.{place}"].__doc__ or "")

    @property
    def summary(self) -> str:
        """What its theory says first."""
        return self.theory.partition("\n")[0].partition(": ")[2].rstrip(".")


DEFAULT = "frontier"
"""What runs where nobody says which."""

PROTOCOLS: dict[str, Algorithm] = {
    "majority-relay": Algorithm(MajorityRelay),
    "history-sets": Algorithm(HistorySets),
    "interval-history": Algorithm(IntervalHistory),
    "two-phase": Algorithm(TwoPhase),
    "stage-gossip": Algorithm(StageGossip),
    "frontier": Algorithm(Frontier),
    "views": Algorithm(Views),
    "flawed/repeating": Algorithm(flawed.Repeating, ("no duplication",), "majority-relay"),
    "flawed/embroidering": Algorithm(flawed.Embroidering, ("no creation",), "majority-relay"),
    "flawed/falling-silent": Algorithm(flawed.FallingSilent, ("validity",), "majority-relay"),
    "flawed/hasty": Algorithm(flawed.Hasty, ("uniform agreement",), "majority-relay"),
    "flawed/careless": Algorithm(flawed.Careless, ("causal order",), "majority-relay"),
    "flawed/forgetful-relay": Algorithm(flawed.ForgetfulRelay, ("cost",), "majority-relay"),
    "flawed/silent-relay": Algorithm(
        flawed.SilentRelay, ("validity", "uniform agreement"), "majority-relay notice=yes"
    ),
    "flawed/self-counting-relay": Algorithm(
        flawed.SelfCountingRelay, ("uniform agreement",), "majority-relay notice=yes"
    ),
    "flawed/gambling-relay": Algorithm(
        flawed.GamblingRelay, ("validity", "uniform agreement"), "majority-relay postpone=yes"
    ),
    "flawed/small-quorum": Algorithm(flawed.SmallQuorum, ("uniform agreement",), "majority-relay"),
    "flawed/on-receipt-only": Algorithm(flawed.OnReceiptOnly, ("validity",), "history-sets"),
    "flawed/copy-counting": Algorithm(flawed.CopyCounting, ("uniform agreement",), "history-sets"),
    "flawed/others-only": Algorithm(
        flawed.OthersOnly, ("validity", "uniform agreement"), "history-sets"
    ),
    "flawed/early-exit": Algorithm(
        flawed.EarlyExit, ("validity", "uniform agreement"), "history-sets"
    ),
    "flawed/waiting-for-all": Algorithm(
        flawed.WaitingForAll, ("uniform agreement",), "interval-history"
    ),
    "flawed/skipping-only": Algorithm(
        flawed.SkippingOnly, ("uniform agreement",), "interval-history"
    ),
    "flawed/leaving-out": Algorithm(flawed.LeavingOut, ("reach",), "interval-history"),
    "flawed/two-phase-as-written": Algorithm(
        flawed.TwoPhaseAsWritten, ("uniform agreement",), "two-phase"
    ),
    "flawed/waiting-for-finack": Algorithm(
        flawed.WaitingForFinack, ("uniform agreement",), "two-phase"
    ),
    "flawed/first-word": Algorithm(flawed.FirstWord, ("uniform agreement",), "two-phase"),
    "flawed/known-by-text": Algorithm(flawed.KnownByText, ("validity",), "two-phase"),
    "flawed/never-alone": Algorithm(flawed.NeverAlone, ("validity",), "two-phase"),
    "flawed/unordered": Algorithm(flawed.Unordered, ("causal order",), "two-phase"),
    "flawed/storm": Algorithm(flawed.Storm, ("cost",), "stage-gossip form=news"),
    "flawed/half-only": Algorithm(
        flawed.HalfOnly, ("validity", "uniform agreement"), "stage-gossip"
    ),
    "flawed/relayers-vector": Algorithm(flawed.RelayersVector, ("causal order",), "stage-gossip"),
    "flawed/received-vector": Algorithm(flawed.ReceivedVector, ("validity",), "stage-gossip"),
    "flawed/single-pass": Algorithm(flawed.SinglePass, ("uniform agreement",), "stage-gossip"),
    "flawed/frontier-quorum-of-f": Algorithm(
        flawed_frontier.QuorumOfF, ("uniform agreement",), "frontier mode=all"
    ),
    "flawed/frontier-never-fetching": Algorithm(
        flawed_frontier.NeverFetching, ("uniform agreement",), "frontier mode=all"
    ),
    "flawed/frontier-asking-once": Algorithm(
        flawed_frontier.AskingOnce, ("uniform agreement",), "frontier mode=all"
    ),
    "flawed/frontier-overlooking-causes": Algorithm(
        flawed_frontier.OverlookingCauses, ("causal order",), "frontier mode=all"
    ),
    "flawed/frontier-saying-it-once": Algorithm(
        flawed_frontier.SayingItOnce, ("validity", "uniform agreement"), "frontier mode=all"
    ),
    "flawed/frontier-forgetting-early": Algorithm(
        flawed_frontier.ForgettingEarly, ("uniform agreement",), "frontier mode=all"
    ),
    "flawed/frontier-acknowledging-early": Algorithm(
        flawed_frontier.AcknowledgingEarly, ("uniform agreement",), "frontier mode=all"
    ),
    "flawed/frontier-restamping": Algorithm(
        flawed_frontier.Restamping, ("uniform agreement",), "frontier mode=all"
    ),
    "flawed/frontier-not-greeting": Algorithm(
        flawed_frontier.NotGreeting, ("validity", "uniform agreement"), "frontier mode=all"
    ),
    "flawed/frontier-owing-nothing": Algorithm(
        flawed_frontier.OwingNothing, ("uniform agreement",), "frontier mode=origin"
    ),
    "flawed/frontier-not-answering": Algorithm(
        flawed_frontier.NotAnswering, ("uniform agreement",), "frontier mode=origin"
    ),
    "flawed/frontier-not-heeding": Algorithm(
        flawed_frontier.NotHeeding, ("uniform agreement",), "frontier mode=origin"
    ),
    "flawed/frontier-half-heeding": Algorithm(
        flawed_frontier.HalfHeeding, ("uniform agreement",), "frontier mode=origin"
    ),
}


def factory(name: str, options: Mapping[str, Any] | None = None) -> Factory:
    """How to make a process of this protocol with these options."""
    return with_options(name, _known(name), options or {})


def with_options(name: str, kind: Callable[..., Process], options: Mapping[str, Any]) -> Factory:
    """Makes processes of this kind; options that it does not have are refused."""
    possible = dict(list(inspect.signature(kind).parameters.items())[3:])
    chosen: dict[str, Any] = {}
    for given, value in options.items():
        option = given if given in possible else _RENAMED.get(given, given)
        if option not in possible:
            has = ", ".join(possible) or "none"
            meant = did_you_mean(option, possible)
            raise UsageError(f"{name} has no option {option!r}; it has: {has}{meant}")
        _check(option, possible[option].annotation, value)
        chosen[option] = value
    return partial(kind, **chosen)


_RENAMED = {"confirmed": "until_processed"}
"""Options that have other names in older traces, plans and scenarios."""


def _known(name: str) -> type[Process]:
    if name not in PROTOCOLS:
        if f"flawed/{name}" in PROTOCOLS:
            raise UsageError(f"unknown protocol {name!r}; did you mean flawed/{name}?")
        known = ", ".join(one for one, algorithm in PROTOCOLS.items() if not algorithm.breaks)
        meant = did_you_mean(name, PROTOCOLS)
        raise UsageError(f"unknown protocol {name!r}; known: {known}, and the flawed/ ones{meant}")
    return PROTOCOLS[name].kind


def _check(option: str, annotation: Any, value: Any) -> None:
    if annotation in (bool, "bool") and not isinstance(value, bool):
        raise UsageError(f"{option} is yes or no, not {value!r}")
    if annotation in (int, "int") and type(value) is not int:
        raise UsageError(f"{option} is a number, not {value!r}")
    if get_origin(annotation) is Literal and value not in get_args(annotation):
        raise UsageError(f"{option} is {' or '.join(get_args(annotation))}, not {value!r}")
