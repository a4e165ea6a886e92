"""Processes that their authors did not write for Tidings: loaded, adapted and watched.

``loading`` finds a class in a file, ``anysystem`` makes processes of two other frameworks ours and
ours theirs, ``diagnosis`` says what a guest did that no process may do.
"""

from tidings.guests.loading import factory, is_file

__all__ = ["factory", "is_file"]
