"""How bytes stay on disk: files that are whole, locks, and frames with checks.

The log of a node and its trace are files of the same frames; each says what is in them.
"""
