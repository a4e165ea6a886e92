"""Why there is no link: each reason is logged once, and nobody fills the log with new ones."""

from collections import Counter
from typing import Any

from tidings.node.config import Links


class Complaints:
    def __init__(self, links: Links, log: Any) -> None:
        self._links = links
        self._log = log
        self._reported: dict[tuple[str, str], None] = {}
        self._counts: Counter[str] = Counter()
        """How often about whom in this minute."""
        self.minute_ends_s = 0.0

    def tell(
        self, who: str, about: str, reason: str, now_s: float, *, is_usual: bool = False
    ) -> None:
        """Once, not at every try; and not for ever about one who finds new ways to be wrong.

        ``about`` is whom it counts for: a member, or all strangers together. What is usual is no
        warning.
        """
        if (who, reason) in self._reported:
            return
        links = self._links
        self._reported[who, reason] = None
        if len(self._reported) > links.complaints:
            del self._reported[next(iter(self._reported))]
        if now_s >= self.minute_ends_s:
            self.minute_ends_s = now_s + 60
            self._counts.clear()
        self._counts[about] += 1
        if self._counts[about] == links.complaints_per_minute:
            reason += "; what else is wrong is not told for a minute"
        if self._counts[about] <= links.complaints_per_minute:
            log = self._log.info if is_usual else self._log.warning
            log("no link", peer=who, reason=reason)

    def forget(self, who: str) -> None:
        """It is linked: whatever goes wrong from now on is new."""
        self._reported = {one: None for one in self._reported if one[0] != who}
