"""What the columns of another system's log mean: the mapping file.

``pipeline.sources`` reads the log and makes a trace of it.
"""

from tidings.trace.foreign.mapping import FILE, ID, LINE, MESSAGES, Mapping, read_mapping, with_end

__all__ = ["FILE", "ID", "LINE", "MESSAGES", "Mapping", "read_mapping", "with_end"]
