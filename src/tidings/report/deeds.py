"""What a process did, in words: verbs and their objects, for stories and for steps of a diagram."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from tidings.core import ordered
from tidings.report import schedule
from tidings.report.causality import Causality
from tidings.report.words import listed, packet_of, printable, shown
from tidings.spec.evidence import place
from tidings.trace import Row


class Deeds:
    """``texts`` are the messages by their digests; without them those of the schedule are used.

    ``plain`` makes what users wrote harmless where the words will stand.
    """

    def __init__(
        self,
        causality: Causality,
        texts: Mapping[str, bytes] | None,
        plain: Callable[[str], str] = printable,
    ) -> None:
        self._causality = causality
        self._views = causality.run.manifest.views
        self._texts = schedule.texts(causality.run.manifest) if texts is None else texts
        self._plain = plain

    def where(self, rows: Sequence[Row]) -> str:
        """The events of one process, as ``tidings replay --until`` takes the last of them."""
        first, last = rows[0], rows[-1]
        return str(place(first)) if first is last else f"{place(first)}–{last.index}"

    def described(self, rows: Sequence[Row]) -> str:
        """A sentence about what one process did in one breath."""
        *most, last = self._each(rows)
        deeds = f"{', '.join(most)}, and {last}" if most else last
        return f"{self._plain(rows[0].process)} {deeds}."

    def settled(self, rows: Sequence[Row]) -> str:
        """A sentence about those for whom the run has come to its end."""
        names = ordered(row.process for row in rows)
        verb = "settles" if len(names) == 1 else "settle"
        return f"Nothing more is on its way: {self._names(names)} {verb}."

    def _each(self, rows: Sequence[Row]) -> Iterator[str]:
        """What is sent to several is said once."""
        for (kind, what), same in groupby(rows, key=lambda row: (row.kind, self._what(row))):
            alike = list(same)
            if kind == "send":
                peers = self._names([str(row.peer) for row in alike])
                yield f"sends {what} to {peers}{self._losses(alike)}"
            else:
                yield from map(self.deed, alike)

    def deed(self, row: Row) -> str:
        """One event."""
        what = self._what(row)
        match row.kind:
            case "broadcast":
                # To whom, where that is not the same for all messages.
                to = f" to {self._view(row)}" if len(self._views) > 1 else ""
                return f"broadcasts {what}{self._saying(row)}{to}"
            case "deliver":
                return f"delivers {what}{self._saying(row)}"
            case "send":
                return f"sends {what} to {self._plain(str(row.peer))}"
            case "receive":
                return f"receives {what} from {self._plain(str(row.peer))}"
            case "join":
                return f"joins and addresses {self._view(row)}"
            case "view":
                return f"from now on addresses {self._view(row)}"
            case "crash":
                return "crashes"
            case "gap":
                return f"does what was not written down, up to its event {row.value}"
        return f"{row.kind}s"

    def text_of(self, row: Row) -> str:
        """What the message says there, in quotes, or nothing if nobody knows."""
        return self._quoted(row) or ("another text" if self._is_altered(row) else "")

    # --- objects

    def _what(self, row: Row) -> str:
        """A packet or a message."""
        if row.kind in ("send", "receive"):
            return self._plain(packet_of(row))
        return self._plain(str(row.message)) if row.origin else ""

    def _saying(self, row: Row) -> str:
        quoted = self._quoted(row) or ("with another text" if self._is_altered(row) else "")
        return f" {quoted}" if quoted else ""

    def _quoted(self, row: Row) -> str:
        known = self._texts.get(str(row.digest))
        return "" if known is None else f"“{self._plain(shown(known))}”"

    def _is_altered(self, row: Row) -> bool:
        broadcast = self._causality.broadcasts.get(row.message)
        return broadcast is not None and broadcast.digest != row.digest

    def _view(self, row: Row) -> str:
        return self._names(self._views[row.view or 0])

    def _names(self, processes: Sequence[str]) -> str:
        return listed([self._plain(process) for process in processes])

    def _losses(self, sent: Sequence[Row]) -> str:
        """Which of these packets never arrive, and why."""
        lost = [row for row in sent if not self._causality.arrivals[place(row)]]
        described = [
            f"to {self._names([str(row.peer) for row in rows])}: {self._plain(reason)}"
            for reason, rows in groupby(lost, key=self._causality.loss)
        ]
        return f" ({'; '.join(described)})" if described else ""
