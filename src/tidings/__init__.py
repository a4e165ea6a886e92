"""Tidings: group messaging that cannot lose, repeat or reorder, and the tool to prove it.

Read the packages in the order in which a message travels: ``core`` (what a process is),
``protocols`` (how messages spread), ``simulator`` (where they spread), ``trace`` (what
happened), ``spec`` and ``pipeline`` (whether it should have), ``report`` (how we say it).
"""

__version__ = "0.1.0"
