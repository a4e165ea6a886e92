"""The same judgement as ``queries``, by arrays: many runs, or one very long one, at once.

No Spark in here: numpy and Arrow in plain functions, which Spark's workers call, each for its part
of the trace. ``batch`` judges many whole runs at once, ``long`` one run of any length in pieces;
``findings`` is what they found, in numbers.
"""
