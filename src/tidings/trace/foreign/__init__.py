"""Logs of other systems become traces.

    mapping     what the columns of a log mean, as the user says; core.toml_file finds the mistakes
    sources     the rows of a file, a batch at a time
    meaning     the rows as events, in numbers
    sorting     all of them in order, however many there are
    numbering   each with its place in the history of its process; what became of that process
    naming      messages known by an id get names like p1#4
    writing     Parquet, as the pipeline reads it
    ingest      all this, one after the other

A longer log takes more time and more disk, not more memory.
"""

from tidings.trace.foreign.ingest import Ingested, ingest
from tidings.trace.foreign.mapping import Mapping, read_mapping, with_end

__all__ = ["Ingested", "Mapping", "ingest", "read_mapping", "with_end"]
