"""Tidings: group messaging that cannot lose, repeat or reorder, and the tool to prove it.

Read the packages in the order in which a message travels: ``core`` (what a process is),
``protocols`` (how messages spread), ``simulator`` (where they spread), ``trace`` (what
happened), ``spec`` and ``pipeline`` (whether it should have), ``report`` (how we say it).

A program that only wants a group needs one name: ``join`` (node/group.py).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidings.node.group import join as join

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """``join`` on demand: most of Tidings needs no network."""
    if name == "join":
        return import_module("tidings.node.group").join
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
