"""Every run in a small scope: what no random test finds, exhaustive search does."""

from tidings.explore.scope import ALL, Reduction, Scope, reductions_without
from tidings.explore.search import Explored, Pace, explore

__all__ = ["ALL", "Explored", "Pace", "Reduction", "Scope", "explore", "reductions_without"]
