"""Any source of rows becomes a trace: what the audit and ``tidings ingest`` have in common.

    reading     where rows come from: files, or Spark's readers of URIs, tables and Kafka
    lines       pieces of text files, that every worker reads by itself
    cells       lines of CSV and JSON as columns of texts
    meaning     what rows say, as the mapping has it, and the first bad one in words
    numbers     texts as numbers and moments
    hashing     the digests of many texts at once
    storing     what a task read, sorted by history, in a file that the others see
    survey      what the driver has to know first: files, runs, processes, the first bad row
    ends        who took part, and what became of them
    gathering   the rows of histories, out of all stores and in order
    names       ids of messages become names
    numbering   sorted rows become histories
    laying      histories become Parquet in the form of a trace
    foreign     all this, one after the other: a log and a mapping become the folder of a trace
    native      rows that have the columns of a trace already
    door        a source of any kind, opened for the audit
    lookup      what the log itself calls the rows of a violation, without Spark
    logged      the same for the whole table of violations, on Spark

Everything from a cell to the trace is done by arrays, in the workers. Spark hands out the tasks,
and reads what workers cannot open by themselves.
"""
