"""Where Spark looks for ``format("tidings")``: in every module whose name begins like this one's.

It looks only when a session asks for a format that it does not know. To register the source when a
session starts would cost each of them a start of Python, whether it reads tables of traces or not.
"""

from tidings.pipeline.spark.source import TidingsSource as DefaultSource

__all__ = ["DefaultSource"]
