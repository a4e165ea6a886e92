"""When a process does what no process may: what it was, where, and the way there.

Our own protocols are trusted and go fast. A process of somebody else is watched: what it raises,
how long it takes, whether what it returns are effects, and whether a copy of it does the same. A
fault is told with the lines of its own file, and carries the schedule that led to it, so that the
run can be stored and replayed. What such a process prints goes to standard error.

Replay, shrinking and the explorer rely on it that a process in the same state does the same. One
that keeps something outside of its attributes, on its class or in its module, does not, and what
they would say of it is not true. So a copy is asked too, with the same draws, and the answers are
compared. The process itself goes on with a copy of its state, too: two copies of a set are iterated
in the same order, a set and its copy need not be. Only sets of objects that hash by their address
still differ, so the order of effects is not compared.
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from math import isfinite
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO, get_args

import msgspec

import tidings
from tidings.core import (
    Accept,
    Broadcast,
    CancelTimer,
    DataError,
    Deliver,
    Effect,
    Event,
    Held,
    Install,
    LinkDown,
    LinkUp,
    Message,
    MessageId,
    Packet,
    Persist,
    Process,
    Rebind,
    Receive,
    Refuse,
    Send,
    SetTimer,
    Span,
    Stable,
    Start,
    TextSpan,
    TidingsError,
    Timeout,
    UsageError,
    each_id,
    each_message,
)
from tidings.core.state import copied, fingerprint
from tidings.guests.anysystem.foreign import Foreign
from tidings.guests.loading import described
from tidings.protocols import PROTOCOLS
from tidings.trace import Row

if TYPE_CHECKING:
    from tidings.simulator.choices import Schedule
    from tidings.simulator.world import World

_OURS: set[type[Process]] = {algorithm.kind for algorithm in PROTOCOLS.values()}
_encode = msgspec.msgpack.Encoder().encode
_EFFECTS = frozenset(get_args(Effect))
_PACKAGE = Path(tidings.__file__).parent

STEP_SECONDS = "TIDINGS_STEP_SECONDS"
"""The environment variable that says how long one step may take; 0 for as long as it likes."""
DEFAULT_SECONDS = 5.0
MOST_CALLS = 6
"""How many of the calls that were under way are shown, innermost last."""
MOST_AT_ONCE = 10_000
"""How many effects, and how many packets, one step may have."""
_ENOUGH = f"{MOST_AT_ONCE:,} are the most"
NOT_THE_SAME = (
    "it does not do the same twice: a copy of it, in the same state, {} (does it keep something on "
    "its class or in its module, iterate over a set of objects, draw otherwise than with "
    "self.choose, or read a file or a clock?)"
)


class ProcessFault(DataError):  # noqa: N818 - reads as what happened
    """A process failed: who, at which event, and why; its notes are the lines of its own file.

    The world in which it happened adds ``world``, what had been noted of the fatal choice
    (``rows``), and the ``schedule``, of which the fatal choice is the last step.
    """

    def __init__(self, process: str, event: Event, reason: str) -> None:
        super().__init__(f"{process} fails {_when(event)}: {reason}")
        self.process = process
        self.event = event
        self.reason = reason
        self.draws: tuple[int, ...] = ()
        """What it had drawn before it failed, where whoever holds it keeps no account."""
        self.world: World | None = None
        self.rows: list[Row] = []
        self.schedule: Schedule = []

    def __reduce__(self) -> Any:
        """From one worker to another it travels without its world."""
        rest = {**vars(self), "world": None}
        return (ProcessFault, (self.process, self.event, self.reason), rest)


def _when(event: Event) -> str:
    match event:
        case Start():
            return "at its start"
        case Broadcast(texts):
            return (
                f"when its user broadcasts {b' '.join(texts).decode(errors='backslashreplace')!r}"
            )
        case Receive(sender, packet):
            about = f" {packet.about}" if packet.about else ""
            return f"when it receives {packet.kind}{about} from {sender}"
        case Timeout(name):
            return f"when its timer {name!r} runs out"
        case LinkUp(peer):
            return f"when its link to {peer} comes up"
        case LinkDown(peer):
            return f"when its link to {peer} goes down"
    return f"at {type(event).__name__}"


def trusted(kind: type[Process]) -> type[Process]:
    """For a class that is as good as ours: it is not watched, and goes as fast."""
    _OURS.add(kind)
    return kind


def answer(process: Process, event: Event) -> list[Effect]:
    """What the process does with the event; what is not ours is watched."""
    if type(process) in _OURS:
        return process.step(event)
    try:
        return _watched(process, event)
    except TidingsError:
        raise
    except (Exception, SystemExit, _TooLong) as error:
        reason = str(error) if isinstance(error, _TooLong) else _shortened(described(error), 200)
        raise _with_lines(ProcessFault(process.me, event, reason), process, error) from error


def _watched(process: Process, event: Event) -> list[Effect]:
    seconds = _seconds()
    with redirect_stdout(sys.stderr):
        with _state_in_view(process, event):
            twin = Twin(process)
        with _limited(seconds), twin.listening():
            done = process.step(event)
        effects = checked(process, event, done)
        with _limited(seconds), _state_in_view(process, event):
            difference = twin.difference(event, effects)
    if difference is not None:
        raise ProcessFault(process.me, event, NOT_THE_SAME.format(difference))
    return effects


@contextmanager
def _state_in_view(process: Process, event: Event) -> Iterator[None]:
    """Something in the state cannot be copied or compared: say what, and of whom."""
    try:
        yield
    except DataError as error:
        fault = ProcessFault(process.me, event, f"{_culprit(process)}: {error}")
        file = _file_of(process)
        fault.add_note(f"in {_kind_of(process).__name__}" + (f" of {file.name}" if file else ""))
        raise fault from None


def _culprit(process: Process) -> str:
    state = vars(process.process) if isinstance(process, Foreign) else process.state()
    for name, value in state.items():
        try:
            fingerprint(copied(value))
        except DataError:
            return f"its attribute {name!r}"
    return "its state"


# --- whether a copy does the same


class Twin:
    """A copy of a process, taken before it acts."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._drawn: list[tuple[str, list[int], int]] = []
        self._copy = process.fork(self._draw_again)
        process.renew()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take down what the process draws."""
        choose = self._process.choose

        def noted(label: str, weights: Sequence[int]) -> int:
            drawn = choose(label, weights)
            self._drawn.append((label, list(weights), drawn))
            return drawn

        self._process.choose = noted
        try:
            yield
        finally:
            self._process.choose = choose

    def _draw_again(self, label: str, weights: Sequence[int]) -> int:
        if not self._drawn or self._drawn[0][:2] != (label, list(weights)):
            raise _DrawsOtherwise
        return self._drawn.pop(0)[2]

    def difference(self, event: Event, effects: Sequence[Effect]) -> str | None:
        """What the copy does otherwise, if anything, in the words that NOT_THE_SAME wants."""
        try:
            with redirect_stdout(_nowhere()), redirect_stderr(_nowhere()):
                again = _gist(self._copy.step(event))
        except _DrawsOtherwise:
            return "draws something else"
        except (Exception, SystemExit) as error:
            return f"raises {type(error).__name__}"
        if self._drawn:
            return "draws something else"
        if again != _gist(effects):
            return "has other effects"
        self._copy.choose = self._process.choose  # which a state that knows its process includes
        if self._copy.fingerprint() != self._process.fingerprint():
            return "comes into another state"
        return None


class _DrawsOtherwise(BaseException):
    """Not an Exception, so that the process does not catch it."""


def _gist(effects: Sequence[Effect]) -> list[bytes]:
    """What is to be done, in no order."""
    return sorted(fingerprint(part) for effect in effects for part in _parts(effect))


def _parts(effect: Effect) -> list[Any]:
    match effect:
        case Send(to, packet):
            return [["send", receiver, packet] for receiver in to]
        case Deliver(messages):
            return [["deliver", message] for message in each_message(messages)]
    return [effect]


@cache
def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


# --- where it happened


def _with_lines(fault: ProcessFault, process: Process, error: BaseException) -> ProcessFault:
    """Note where in the author's own files it happened, outermost first."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not Path(frame.filename).is_relative_to(_PACKAGE)
    ]
    file = _file_of(process)
    home = file and file.resolve().parent
    theirs = [one for one in frames if Path(one.filename).resolve().parent == home] or frames
    if len(theirs) > MOST_CALLS:
        fault.add_note(f"{len(theirs) - MOST_CALLS:,} calls, and in them:")
    for frame in theirs[-MOST_CALLS:]:
        fault.add_note(f"{frame.filename}:{frame.lineno}, in {frame.name}")
        if frame.line:
            fault.add_note(f"    {frame.line}")
    return fault


def _kind_of(process: Process) -> type:
    return type(process.process if isinstance(process, Foreign) else process)


def _file_of(process: Process) -> Path | None:
    file = getattr(sys.modules.get(_kind_of(process).__module__), "__file__", None)
    return Path(file) if file else None


# --- how long it may take


class _TooLong(BaseException):
    """Not an Exception, so that few handlers of the process itself catch it."""


def _seconds() -> float:
    words = os.environ.get(STEP_SECONDS, "")
    try:
        seconds = float(words or DEFAULT_SECONDS)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e6:
        raise UsageError(f"{STEP_SECONDS} is a number of seconds, not {words!r}")
    return seconds


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Interrupt what takes longer, again and again should it refuse to end.

    Only the main thread can be interrupted, and only between two instructions of Python.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not seconds or not is_main or not hasattr(signal, "setitimer"):
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise _TooLong(
            f"it has not come back after {seconds:g} seconds ({STEP_SECONDS} sets the limit)"
        )

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# --- whether these are effects


def checked(process: Process, event: Event, effects: Any) -> list[Effect]:
    """The effects, if that is what they are; a ProcessFault otherwise."""
    for complaint in filter(None, _complaints(process, event, effects)):
        raise ProcessFault(process.me, event, complaint)
    return effects  # type: ignore[no-any-return]


def _complaints(process: Process, event: Event, effects: Any) -> Iterator[str | None]:
    yield _complaint_about_list(effects)
    yield from (_complaint(process, event, effect) for effect in effects)
    packets = sum(len(effect.to) for effect in effects if isinstance(effect, Send))
    yield f"{packets:,} packets at once; {_ENOUGH}" if packets > MOST_AT_ONCE else None
    if isinstance(event, Broadcast):
        yield _complaint_about_answer(event, effects)


def _complaint_about_list(effects: Any) -> str | None:
    if isinstance(effects, list | tuple):
        many = len(effects)
        return f"{many:,} effects at once; {_ENOUGH}" if many > MOST_AT_ONCE else None
    if effects is None:
        return "step returns nothing; return a list of effects, [] for none"
    if isinstance(effects, Iterator):
        return "step returns a generator; return a list of what it yields"
    return f"step returns {_short(effects)}, not a list of effects"


def _complaint_about_answer(event: Broadcast, effects: Sequence[Effect]) -> str | None:
    answers = sum(isinstance(effect, Accept | Refuse) for effect in effects)
    accepted = [effect for effect in effects if isinstance(effect, Accept)]
    names = sum(1 for effect in accepted for _ in each_id(effect.ids))
    refused = any(isinstance(effect, Refuse) for effect in effects)
    if answers == 1 and names == (0 if refused else len(event.texts)):
        return None
    if not names:
        return "a Broadcast is answered by Accept, with the name of the message, or by Refuse"
    if names == len(event.texts) and not refused:
        return f"{answers} answers to one Broadcast; one Accept names all texts"
    given = f"{names} name{'s' if names > 1 else ''}"
    return f"{given} for {len(event.texts)} text" + (", and a Refuse" if refused else "")


def _complaint(process: Process, event: Event, effect: Any) -> str | None:
    kind = type(effect)
    if kind not in _EFFECTS:
        return f"{_short(effect)} is not an effect"
    wrong = _CHECKS[kind](effect) if kind in _CHECKS else None
    if wrong is not None:
        return f"{kind.__name__}: {wrong}"
    if isinstance(effect, Accept) and not isinstance(event, Broadcast):
        return "it accepts what nobody broadcast"
    if isinstance(effect, Accept) and any(name.origin != process.me for name in effect.ids):
        return f"it accepts {effect.ids[0]}, but its messages are named {process.me}#1 and so on"
    return None


def _in_id_or_span(name: Any) -> str | None:
    if not isinstance(name, Span):
        return _in_id(name)
    first, last = MessageId(name.origin, name.first), MessageId(name.origin, name.last)
    wrong = _in_id(first) or _in_id(last)
    return wrong or (None if first <= last else f"{name} ends before it begins")


def _in_id(name: Any) -> str | None:
    is_named = isinstance(name, MessageId) and isinstance(name.origin, str) and bool(name.origin)
    right = is_named and isinstance(name.seq, int) and 0 <= name.seq < 2**63
    return None if right else f"{_short(name)} is not a MessageId, like MessageId('p1', 4)"


def _in_tuple(values: Any, wrong: Callable[[Any], str | None]) -> str | None:
    if not isinstance(values, tuple | list):
        return f"{_short(values)} is not a tuple"
    return next(filter(None, map(wrong, values)), None)


def _in_name(name: Any) -> str | None:
    return None if isinstance(name, str) and name else f"{_short(name)} is not a name"


def _in_packet(packet: Any) -> str | None:
    kind = type(packet).__name__
    if not isinstance(packet, Packet):
        return f"{_short(packet)} is not a Packet"
    if packet.__struct_config__.tag is None:
        return f"{kind} has no tag; write: class {kind}(Packet, frozen=True, tag={kind.lower()!r})"
    try:
        hash(packet)
    except TypeError as error:
        return f"{kind} can change after it was sent ({error}); use tuples"
    try:
        _encode(packet)
    except (TypeError, OverflowError, UnicodeEncodeError) as error:
        return f"{kind} cannot be written as bytes: {error}"
    return None if packet.about is None else _in_id(packet.about)


def _in_delivery(message: Any) -> str | None:
    if isinstance(message, TextSpan):
        texts, name = message.texts, MessageId(message.origin, message.first)
    elif isinstance(message, Message):
        texts, name = (message.text,), message.id
    else:
        return f"{_short(message)} is not a Message"
    return _in_id(name) or _in_tuple(texts, _in_text)


def _in_text(text: Any) -> str | None:
    return None if isinstance(text, bytes) else f"the text {_short(text)} is not bytes"


def _in_timer(effect: SetTimer) -> str | None:
    delay = effect.delay_ms
    right = isinstance(delay, int | float) and isfinite(delay) and delay >= 0
    wrong = None if right else f"{_short(delay)} is not a delay in milliseconds"
    return _in_name(effect.name) or wrong


def _in_mapping(values: Any) -> str | None:
    right = isinstance(values, Mapping)
    return _in_tuple(tuple(values), _in_name) if right else f"{_short(values)} is not a dict"


_CHECKS: dict[type, Callable[[Any], str | None]] = {
    Accept: lambda effect: _in_tuple(effect.ids, _in_id_or_span),
    Refuse: lambda effect: _in_name(effect.reason),
    Send: lambda effect: _in_tuple(effect.to, _in_name) or _in_packet(effect.packet),
    Held: lambda effect: _in_tuple(effect.ids, _in_id_or_span),
    Deliver: lambda effect: _in_tuple(effect.messages, _in_delivery),
    Persist: lambda effect: _in_tuple(effect.records, lambda record: None),
    SetTimer: _in_timer,
    CancelTimer: lambda effect: _in_name(effect.name),
    Stable: lambda effect: _in_mapping(effect.upto),
    Install: lambda effect: _in_tuple(effect.view, _in_name) or _in_mapping(effect.delivered),
    Rebind: lambda effect: _in_tuple(effect.ids, _in_id_or_span),
}
"""What is wrong with the fields of each effect, if anything."""


def _short(value: Any) -> str:
    return _shortened(repr(value), 80)


def _shortened(words: str, most: int) -> str:
    return words if len(words) <= most else f"{words[: most - 3]}..."
