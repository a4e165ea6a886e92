"""Numbers as people read them, and where the ticks of an axis go."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context


def figure(value: float) -> str:
    """Three or four digits: 0.25, 6.2, 380, 2,450, 25k, 1.1M."""
    size = abs(value)
    if size >= 999_500:
        return f"{value / 1_000_000:.3g}M"
    if size >= 9_950:
        return f"{value / 1_000:.3g}k"
    return f"{value:,.0f}" if size >= 100 else f"{value:.3g}"


def percent(share: float, rounding: str = ROUND_HALF_EVEN) -> str:
    """A share from 0 to 1, with two digits that count, near 1 with three."""
    digits = Context(prec=3 if share >= 0.9 else 2, rounding=rounding)
    return f"{digits.create_decimal_from_float(100 * share).normalize():f}%"


def percents(low: float, high: float) -> str:
    """An interval: rounding must not make it narrower."""
    return f"{percent(low, ROUND_FLOOR)} to {percent(high, ROUND_CEILING)}"


class Scale:
    """From values to pixels, both ends included; logarithmic ones refuse 0 and below."""

    def __init__(
        self, least: float, most: float, begin: float, end: float, *, logarithmic: bool = False
    ) -> None:
        self.logarithmic = logarithmic
        if most <= least:
            least, most = (least / 2, most * 2) if logarithmic else (least - 1, most + 1)
        self.least, self.most = least, most
        self._begin, self._end = begin, end

    def __call__(self, value: float) -> float:
        low, high, at = map(self._plain, (self.least, self.most, value))
        return self._begin + (self._end - self._begin) * ((at - low) / (high - low))

    def _plain(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value

    def ticks(self, most: int = 6) -> list[float]:
        if not self.logarithmic:
            return _linear_ticks(self.least, self.most, most)
        powers = range(math.floor(math.log10(self.least)), math.ceil(math.log10(self.most)) + 1)
        found: list[float] = []
        for steps in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)):
            ticks = [step * 10.0**power for power in powers for step in steps]
            inside = [tick for tick in ticks if self.least <= tick <= self.most]
            if len(inside) > most:
                break
            found = inside
        return found or [self.least, self.most]


def _linear_ticks(least: float, most: float, count: int) -> list[float]:
    rough = (most - least) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(one * power for one in (1, 2, 5, 10) if one * power >= rough)
    first, last = math.ceil(least / step), math.floor(most / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def rounded_up(value: float) -> float:
    """The next number with one digit that counts, where an axis may end."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(one * power for one in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if one * power >= value)
