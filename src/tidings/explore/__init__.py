"""Every run in a small scope: what no random test finds, exhaustive search does."""

from tidings.explore.scope import ALL, Reduction, Scope, reductions_without
from tidings.explore.search import Explored, SearchProgress, explore

__all__ = [
    "ALL",
    "Explored",
    "Reduction",
    "Scope",
    "SearchProgress",
    "explore",
    "reductions_without",
]
