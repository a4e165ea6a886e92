"""What a judge has found: violations in numbers, counted, and named as the specification does."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from tidings.core import MessageId
from tidings.core.group import natural
from tidings.spec import Guarantee, Place, Violation

if TYPE_CHECKING:
    from tidings.pipeline.watching.judge import Judge


class Found(msgspec.Struct, frozen=True, array_like=True):
    """A violation in numbers. ``text`` is the digest that a forged delivery has."""

    guarantee: Guarantee
    process: int
    message: tuple[int, int]
    witness: tuple[tuple[int, int], ...]
    cause: tuple[int, int] | None = None
    text: int | None = None


class Findings:
    def __init__(self, judge: "Judge") -> None:
        self._judge = judge
        self.kept: list[Found] = []
        self.violated: dict[tuple[Guarantee, int], int] = {}
        """How many there are, by process; not all are kept."""
        self.again: dict[tuple[int, int], set[int]] = {}
        """The texts of further broadcasts under one name."""
        self._news: list[Found] = []

    def report(
        self,
        guarantee: Guarantee,
        process: int,
        message: tuple[int, int],
        witness: tuple[tuple[int, int], ...],
        cause: tuple[int, int] | None = None,
        text: int | None = None,
    ) -> None:
        found = Found(guarantee, process, message, witness, cause, text)
        key = guarantee, process
        self.violated[key] = self.violated.get(key, 0) + 1
        self._news.append(found)
        if len(self.kept) < self._judge.limits.violations:
            self.kept.append(found)

    def news(self) -> list[Violation]:
        """What was not told before."""
        news, self._news = self._news, []
        return [self.named(one) for one in sorted(news, key=self.place_in_order)]

    @property
    def are_all_kept(self) -> bool:
        return sum(self.violated.values()) == len(self.kept)

    def first_deliveries(self, process: int, origin: int) -> dict[int, int]:
        """By sequence number, of what is known to be delivered twice."""
        return {
            one.message[1]: one.witness[0][1]
            for one in self.kept
            if one.guarantee is Guarantee.NO_DUPLICATION
            and (one.process, one.message[0]) == (process, origin)
        }

    # --- a text may have been broadcast after all

    def is_forged(self, message: tuple[int, int], text: int) -> bool:
        """Whether no further broadcast under the name explains a text that the first has not."""
        return text not in self.again.get(message, ())

    def explain(self, origin: int, texts: Iterable[tuple[int, int]]) -> None:
        """Broadcasts under names that were taken have these texts: any of them will do.

        Deliveries of them were called forged. That the name was taken is a violation in their
        stead.
        """
        explained = {((origin, seq), text) for seq, text in texts}
        if not explained:
            return
        for message, text in sorted(explained):
            self.again.setdefault(message, set()).add(text)
        for one in self.kept:
            if (one.message, one.text) in explained:
                self.violated[one.guarantee, one.process] -= 1
        self.kept = [one for one in self.kept if (one.message, one.text) not in explained]
        self._news = [one for one in self._news if (one.message, one.text) not in explained]
        if sum(self.violated.values()) > self._judge.limits.violations:
            self._judge.give_up("there are too many violations to keep them all")

    # --- in words

    def named(self, found: Found) -> Violation:
        names = self._judge.names
        return Violation(
            guarantee=found.guarantee,
            process=names[found.process],
            message=self.name_of(found.message),
            witness=tuple(Place(names[who], index) for who, index in found.witness),
            cause=found.cause and self.name_of(found.cause),
        )

    def name_of(self, message: tuple[int, int]) -> MessageId:
        return MessageId(self._judge.names[message[0]], message[1])

    def place_in_order(self, found: Found) -> tuple[object, ...]:
        """The order in which the specification names violations."""
        is_renamed = found.witness[0][0] == found.process == found.message[0] and (
            found.guarantee is Guarantee.NO_CREATION and found.text is None
        )
        at = found.witness[0 if found.guarantee is Guarantee.NO_CREATION and not is_renamed else -1]
        return (
            [*Guarantee].index(found.guarantee),
            is_renamed,
            natural(self._judge.names[found.process]),
            at[1],
        )
