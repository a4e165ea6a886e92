"""Small traces written by hand."""

from typing import Any

from tidings.core import Members
from tidings.trace import Fate, HistoryCut, Manifest, Row, Run, collect, digest

AGREEING: dict[str, Any] = {"v": "view", "j": "join"}


class Shorthand:
    """Histories in shorthand: ``p1: "b1 d p2#1 settle"``: broadcast the first, deliver, settle.

    ``v2/1`` installs the second agreed view, whose members are the list 1 (``j2/1`` joins with
    it), and ``r7/1`` binds the seventh to that list.
    """

    def __init__(
        self,
        views: tuple[Members, ...] = (("p1", "p2", "p3"),),
        name: str = "r",
        **histories: str,
    ) -> None:
        self.name = name
        self.views = views
        self.histories = histories
        self.fates: dict[str, Fate] = {}
        self.cuts: dict[str, HistoryCut] = {}

    def _begin(self, process: str) -> int:
        return self.cuts[process].index if process in self.cuts else 0

    def run(self) -> Run:
        return collect(self.manifest(), self.rows())

    def rows(self) -> list[Row]:
        return [
            self.row(process, index, word)
            for process, words in self.histories.items()
            for index, word in enumerate(words.split(), self._begin(process))
        ]

    def manifest(self) -> Manifest:
        members = sorted({member for view in self.views for member in view})
        return Manifest(
            schema=2,
            run=self.name,
            names=(*members, "ghost"),
            views=self.views,
            fates=self.fates,
            cuts=self.cuts,
        )

    def row(self, process: str, index: int, word: str) -> Row:
        fields: dict[str, Any] = {
            "run": self.name,
            "process": process,
            "index": index,
            "time_ns": index,
        }
        if word in ("crash", "settle", "recover"):
            return Row(kind=word, **fields)
        message, _, extra = word[1:].partition("/")
        if word[0] == "b":
            view = int(extra or 0)
            return Row(kind="broadcast", origin=process, seq=int(message), view=view,
                       digest=digest(b"text"), **fields)  # fmt: skip
        if word[0] == "r":
            return Row(kind="rebind", origin=process, seq=int(message), view=int(extra), **fields)
        if word[0] in AGREEING:
            return Row(kind=AGREEING[word[0]], value=int(message), view=int(extra), **fields)
        origin, _, seq = message.partition("#")
        text = extra.encode() or b"text"
        return Row(kind="deliver", origin=origin, seq=int(seq), digest=digest(text), **fields)
