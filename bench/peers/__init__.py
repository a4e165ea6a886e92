"""Tidings beside other systems, doing the same work: ``python -m peers`` in bench, see __main__."""
