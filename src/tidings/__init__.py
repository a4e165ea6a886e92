"""Tidings: group messaging in causal order that survives crashes, and the judge that checks it.

Read the packages in the order in which a message travels: ``core`` (what a process is),
``protocols`` (how messages spread), ``simulator`` (where they spread), ``trace`` (what
happened), ``spec`` and ``pipeline`` (whether it should have), ``report`` (how we say it).

A program that only wants a group needs one name, ``join`` (node/group.py), and ``run`` if it does
nothing else; the others here are what it is given and what may be raised.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tidings.core import DataError as DataError
    from tidings.core import EnvironmentMissing as EnvironmentMissing
    from tidings.core import Message as Message
    from tidings.core import MessageId as MessageId
    from tidings.core import TidingsError as TidingsError
    from tidings.core import UsageError as UsageError
    from tidings.node.condition import Status as Status
    from tidings.node.config import Config as Config
    from tidings.node.engine import Halted as Halted
    from tidings.node.errors import ChangeDenied as ChangeDenied
    from tidings.node.errors import Closed as Closed
    from tidings.node.errors import LogFull as LogFull
    from tidings.node.errors import Removed as Removed
    from tidings.node.group import Group as Group
    from tidings.node.group import join as join
    from tidings.node.ledger import Receipt as Receipt
    from tidings.node.membership import GroupView as GroupView
    from tidings.node.running import run as run
    from tidings.node.snapshot import Snapshot as Snapshot
    from tidings.node.snapshot import SnapshotBroken as SnapshotBroken
    from tidings.node.terminal import lines as lines
    from tidings.node.unread import Replayed as Replayed
else:
    # On demand: most of Tidings needs no network. Type checkers see the imports above instead, or
    # any misspelling would pass.
    _PLACES = {
        "tidings.core": (
            *("DataError", "EnvironmentMissing", "Message", "MessageId", "TidingsError"),
            "UsageError",
        ),
        "tidings.node.condition": ("Status",),
        "tidings.node.config": ("Config",),
        "tidings.node.engine": ("Halted",),
        "tidings.node.errors": ("ChangeDenied", "Closed", "LogFull", "Removed"),
        "tidings.node.group": ("Group", "join"),
        "tidings.node.ledger": ("Receipt",),
        "tidings.node.membership": ("GroupView",),
        "tidings.node.running": ("run",),
        "tidings.node.snapshot": ("Snapshot", "SnapshotBroken"),
        "tidings.node.terminal": ("lines",),
        "tidings.node.unread": ("Replayed",),
    }

    __all__ = [name for names in _PLACES.values() for name in names]

    def __dir__():
        return sorted({*globals(), *__all__})

    def __getattr__(name):
        for module, names in _PLACES.items():
            if name in names:
                return getattr(import_module(module), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
