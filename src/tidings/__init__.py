"""Tidings: group messaging in causal order that survives crashes, and the judge that checks it.

Read the packages in the order in which a message travels: ``core`` (what a process is),
``protocols`` (how messages spread), ``simulator`` (where they spread), ``trace`` (what
happened), ``spec`` and ``pipeline`` (whether it should have), ``report`` (how we say it).

A program that only wants a group needs one name, ``join`` (node/group.py) or, without asyncio,
``join_blocking``; and ``run`` if it does nothing else. The others here are what it is given, what
may be raised, and what a ``Config`` is made of.
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
    from tidings.node.blocking import BlockingGroup as BlockingGroup
    from tidings.node.blocking import BlockingReceipt as BlockingReceipt
    from tidings.node.blocking import join_blocking as join_blocking
    from tidings.node.condition import Status as Status
    from tidings.node.config import Config as Config
    from tidings.node.config import Control as Control
    from tidings.node.config import Limits as Limits
    from tidings.node.config import Links as Links
    from tidings.node.config import Retention as Retention
    from tidings.node.config import Tls as Tls
    from tidings.node.config import Tracing as Tracing
    from tidings.node.errors import ChangeDenied as ChangeDenied
    from tidings.node.errors import Closed as Closed
    from tidings.node.errors import Halted as Halted
    from tidings.node.errors import LogFull as LogFull
    from tidings.node.errors import NotReady as NotReady
    from tidings.node.errors import ProcessFailed as ProcessFailed
    from tidings.node.errors import Removed as Removed
    from tidings.node.errors import TooLong as TooLong
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
        "tidings.node.blocking": ("BlockingGroup", "BlockingReceipt", "join_blocking"),
        "tidings.node.condition": ("Status",),
        "tidings.node.config": (
            *("Config", "Control", "Limits", "Links", "Retention"),
            *("Tls", "Tracing"),
        ),
        "tidings.node.errors": (
            *("ChangeDenied", "Closed", "Halted", "LogFull", "NotReady", "ProcessFailed"),
            *("Removed", "TooLong"),
        ),
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
