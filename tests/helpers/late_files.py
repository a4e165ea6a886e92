"""A trace folder as somebody else sees it: the files of one member arrive there late.

Those of the others are hard links, so they grow at once. Of the late one, what its files were some
time ago is copied, byte by byte, with their names of then.
"""

import os
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Self

from tidings.disk.files import whole_file
from tidings.trace.layout import MANIFEST

LOOKS_S = 0.25
OPEN = ".open"
Listing = dict[str, int]
"""How long each segment is."""


class LateFiles:
    def __init__(self, written: Path, seen: Path, late: str, delay_s: float) -> None:
        self.written, self.seen, self.late, self.delay_s = written, seen, late, delay_s
        seen.mkdir()
        self._past: deque[tuple[float, Listing, dict[str, bytes]]] = deque()
        self._is_over = Event()
        self._fault: BaseException | None = None
        self._thread = Thread(target=self._go_on, daemon=True)

    def __enter__(self) -> Self:
        self.look()
        self._thread.start()
        return self

    def __exit__(self, *fault: object) -> None:
        self._is_over.set()
        self._thread.join()

    def check(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _go_on(self) -> None:
        try:
            while not self._is_over.wait(LOOKS_S):
                self.look()
        except BaseException as fault:
            self._fault = fault

    def look(self) -> None:
        names = sorted(path.name for path in self.written.iterdir())
        manifests: dict[str, bytes] = {}
        late: Listing = {}
        prompt = set()
        for name in names:
            with suppress(FileNotFoundError):
                if name.endswith(MANIFEST):
                    manifests[name] = (self.written / name).read_bytes()
                elif ".segment" in name and self._is_late(name):
                    late[name] = (self.written / name).stat().st_size
                elif ".segment" in name:
                    prompt.add(name)
        self._write({name: text for name, text in manifests.items() if not self._is_late(name)})
        self._link(prompt)
        mine = {name: text for name, text in manifests.items() if self._is_late(name)}
        self._past.append((time.monotonic(), late, mine))
        due = None
        while self._past and self._past[0][0] <= time.monotonic() - self.delay_s:
            due = self._past.popleft()
        if due is not None:
            self._copy(due[1])
            self._write(due[2])

    def _is_late(self, name: str) -> bool:
        return name.startswith((f"{self.late}-", f"{self.late}."))

    def _write(self, manifests: dict[str, bytes]) -> None:
        for name, text in manifests.items():
            path = self.seen / name
            if not path.exists() or path.read_bytes() != text:
                with whole_file(path) as draft:
                    draft.write_bytes(text)

    def _link(self, names: set[str]) -> None:
        for name in names:
            with suppress(FileNotFoundError, FileExistsError):
                os.link(self.written / name, self.seen / name)
        self._drop_others(names, late=False)

    def _copy(self, late: Listing) -> None:
        for name, size in late.items():
            path, growing = self.seen / name, self.seen / (name.removesuffix(OPEN) + OPEN)
            closed = self.seen / name.removesuffix(OPEN)
            if closed.exists() and closed.stat().st_size == size and closed == path:
                continue
            if closed.exists():
                closed.rename(growing)
            with growing.open("ab") as copy:
                copy.truncate(min(size, copy.tell()))
                copy.write(self._bytes(name, copy.tell(), size))
            growing.rename(path)  # closed when it is whole
        self._drop_others(set(late), late=True)

    def _bytes(self, name: str, begin: int, end: int) -> bytes:
        for source in (self.written / name, self.written / _other(name)):
            with suppress(FileNotFoundError), source.open("rb") as file:
                file.seek(begin)
                return file.read(end - begin)
        return b""

    def _drop_others(self, names: set[str], late: bool) -> None:
        for path in list(self.seen.iterdir()):
            is_one = ".segment" in path.name and self._is_late(path.name) == late
            if is_one and path.name not in names:
                path.unlink()


def _other(name: str) -> str:
    return name.removesuffix(OPEN) if name.endswith(OPEN) else name + OPEN
