"""Okabe and Ito's colours, darkened on white and lightened on black.

On paper everything is light, whatever the screen is.
"""

_COLOURS = {
    "paper": ("#ffffff", "#0d1117"),
    "ink": ("#1b1f24", "#e6edf3"),
    "soft": ("#57606a", "#a5afba"),
    "line": ("#d8dee4", "#30363d"),
    "lane": ("#b6bec7", "#4a535d"),
    "broadcast": ("#0072b2", "#56b4e9"),
    "deliver": ("#007a59", "#35d0a0"),
    "lost": ("#a34e00", "#f0a35e"),
    "wrong": ("#c8102e", "#ff6b75"),
    "callout": ("#fff3f3", "#2a1417"),
    "s0": ("#0072b2", "#4ea3e0"),
    "s1": ("#b36b00", "#e69f00"),
    "s2": ("#007a59", "#2fc496"),
    "s3": ("#b0528a", "#e08fc0"),
    "s4": ("#1f86bd", "#8fd0f5"),
    "s5": ("#c24a00", "#f07a3c"),
    "s6": ("#6a6f76", "#a5afba"),
    "s7": ("#7d7000", "#d6c640"),
}


def themed(rules: str, shapes: str = "") -> str:
    """A stylesheet: the rules with these colours, in light and in dark, after those of shapes."""
    light, dark = (
        rules.format(**{name: pair[which] for name, pair in _COLOURS.items()}).replace("\n", "")
        for which in (0, 1)
    )
    in_the_dark = f"@media screen and (prefers-color-scheme:dark){{{dark}}}"
    return shapes.replace("\n", "") + light + in_the_dark
