"""A protocol of one's own: a class in a file, named ``path/to/my_file.py:MyProcess``.

The name of the class may be left out when the file has only one. Such a name stands wherever the
name of a protocol does: on the command line, in scenario files, in manifests. The class is a
``Process`` like ours, or one written for AnySystem or dslab-mp (anysystem/).

The file is loaded as a module with a name of its own, made from its path and its contents, which
stays in ``sys.modules`` so that its objects can be pickled from one forked process to another.
What it imports is looked for beside it, too. What it prints goes to standard error: standard
output is for results.
"""

import builtins
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from hashlib import blake2b
from inspect import Parameter, Signature, isabstract, signature
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from tidings import protocols
from tidings.core import Choose, DataError, Members, Process, TidingsError, UsageError
from tidings.guests.anysystem import api, chance
from tidings.guests.anysystem.foreign import Foreign
from tidings.protocols import Factory
from tidings.protocols.registry import with_options

_NAME = re.compile(r"(?P<file>.+\.py)(:(?P<kind>\w*))?")


def is_file(name: str) -> bool:
    """Whether this is the name of a class in a file, and not of one of our protocols."""
    return _NAME.fullmatch(name) is not None


class Own(msgspec.Struct, frozen=True):
    """Makes processes of a class from a file."""

    name: str
    kind: type
    clock: bool = True
    """Whether processes of AnySystem are told the time."""

    @property
    def __signature__(self) -> Signature:
        """As of our protocols: what comes after the third parameter is an option."""
        if issubclass(self.kind, Process):
            return signature(self.kind)
        first_three = list(signature(Process).parameters.values())
        theirs = [
            each.replace(kind=Parameter.KEYWORD_ONLY)
            for each in list(signature(self.kind).parameters.values())[2:]
        ]
        ours = [each for each in signature(Foreign).parameters.values() if each.name in _OURS]
        return Signature([*first_three, *theirs, *ours])

    def __call__(self, me: str, members: Members, choose: Choose, **options: Any) -> Process:
        try:
            with redirect_stdout(sys.stderr):
                return self._made(me, members, choose, **options)
        except TidingsError as fault:
            raise type(fault)(f"{self.name}: {fault}") from None
        except Exception as fault:
            raise DataError(
                f"{_place(fault, self.name)}: {self.kind.__name__} cannot be made for {me} of "
                f"{', '.join(members)}: {described(fault)}"
            ) from fault

    def _made(self, me: str, members: Members, choose: Choose, **options: Any) -> Process:
        made: Process = (
            self.kind(me, members, choose, **options)
            if issubclass(self.kind, Process)
            else Foreign(me, members, choose, kind=self.kind, clock=self.clock, **options)
        )
        # It is asked once what it will be asked again and again, so that it fails here if at all.
        if not {"me", "members", "choose"} <= vars(made).keys():
            raise DataError("its __init__ does not call super().__init__(me, members, choose)")
        made.fork(made.choose).fingerprint()
        return made


_OURS = ("texts", "ids")


def load(name: str) -> Own:
    """The class that the name stands for."""
    found = _NAME.fullmatch(name)
    assert found is not None, f"{name} is not the name of a class in a file"
    file = Path(found["file"])
    module = _loaded(file)
    kinds = {
        label: kind
        for label, kind in vars(module).items()
        if _is_process(kind) and kind.__module__ == module.__name__
    }
    wanted = found["kind"] or _only(file, kinds)
    kind = vars(module).get(wanted)
    if kind is None:
        raise UsageError(f"{file} has no class {wanted!r}; it has: {', '.join(kinds) or 'none'}")
    if not _is_process(kind):
        raise UsageError(
            f"{wanted} in {file} is not a process: neither a tidings.core.Process, nor a class "
            "with on_local_message and on_message"
        )
    if isabstract(kind):
        raise UsageError(f"{wanted} in {file} has no {', '.join(sorted(kind.__abstractmethods__))}")
    return Own(name, kind, clock=_speaks_of_time(kind, file.parent))


def _is_process(kind: Any) -> bool:
    return isinstance(kind, type) and (issubclass(kind, Process) or api.is_such_a_class(kind))


def _only(file: Path, kinds: Mapping[str, type]) -> str:
    if not kinds:
        raise UsageError(f"{file} has no process: no class derived from tidings.core.Process")
    if len(kinds) > 1:
        raise UsageError(f"{file} has several processes; name one: {', '.join(kinds)}")
    return next(iter(kinds))


def _speaks_of_time(kind: type, folder: Path) -> bool:
    """Whether the word stands in the file of the class, or in that of an ancestor beside it."""
    modules = {sys.modules[ancestor.__module__] for ancestor in kind.__mro__}
    files = {Path(file) for module in modules if (file := getattr(module, "__file__", None))}
    return any(
        re.search(rb"\btime\b", file.read_bytes())
        for file in files
        if file.resolve().parent == folder.resolve()
    )


def factory(name: str, options: Mapping[str, Any] | None = None) -> Factory:
    """How to make a process of this protocol, or of this class in a file, with these options."""
    if is_file(name):
        return with_options(name, load(name), options or {})
    return protocols.factory(name, options)


# --- modules


def _loaded(file: Path) -> ModuleType:
    try:
        source = file.read_bytes()
    except FileNotFoundError:
        where = "" if file.is_absolute() else f" in {Path.cwd()}"
        raise UsageError(f"{file}: no such file{where}") from None
    except OSError as fault:
        raise UsageError(f"{file}: cannot be read: {fault.strerror}") from None
    identity = blake2b(str(file.resolve()).encode() + b"\0" + source, digest_size=4).hexdigest()
    name = re.sub(r"\W", "_", f"tidings_own_{file.stem}_{identity}")
    if name not in sys.modules:
        module = ModuleType(name)
        module.__file__ = str(file.resolve())
        # The import statement asks the builtins of its own module: here it finds stand-ins.
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": _importer(file.parent)}
        sys.modules[name] = module
        try:
            _execute(source, file, module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def _execute(source: bytes, file: Path, module: ModuleType) -> None:
    try:
        with redirect_stdout(sys.stderr):
            exec(compile(source, str(file), "exec"), vars(module))
    except SyntaxError as fault:
        raise DataError(
            f"{fault.filename or file}:{fault.lineno or 1}: syntax error: {fault.msg}"
        ) from None
    except (Exception, SystemExit) as fault:
        what = "cannot import" if isinstance(fault, ImportError) else "fails while it is loaded"
        raise DataError(f"{_place(fault, str(file))}: {what}: {described(fault)}") from fault


def _importer(folder: Path) -> Any:
    stand_ins = {**api.MODULES, **chance.MODULES}

    def find(
        name: str,
        globals_: Mapping[str, Any] | None = None,
        locals_: Mapping[str, Any] | None = None,
        fromlist: tuple[str, ...] = (),
        level: int = 0,
    ) -> ModuleType:
        if level == 0 and name in stand_ins:
            return stand_ins[name]
        with _beside(folder):
            return builtins.__import__(name, globals_, locals_, fromlist, level)

    return find


@contextmanager
def _beside(folder: Path) -> Iterator[None]:
    """Let the modules beside the file be found, and let them find the framework, too."""
    place = str(folder.resolve())
    missing = {name: module for name, module in api.MODULES.items() if name not in sys.modules}
    sys.path.insert(0, place)
    sys.modules.update(missing)
    try:
        yield
    finally:
        sys.path.remove(place)
        for name in missing:
            del sys.modules[name]


# --- words


def described(fault: BaseException) -> str:
    return f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__


def _place(fault: BaseException, name: str) -> str:
    """Where in the file it happened: file.py:12, or the file alone."""
    found = _NAME.fullmatch(name)
    file = found["file"] if found else name
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(fault.__traceback__)
        if frame.filename == file
    ]
    return f"{file}:{lines[-1]}" if lines else file
