"""Any source of rows becomes a trace: what the audit and ``tidings ingest`` have in common.

    reading     rows of text files, tables, Kafka or a DataFrame, each with its place
    meaning     what a row says, as the mapping has it: expressions of Spark, and faults by number
    survey      what the driver has to know first: files, runs, processes, the first bad row
    ends        who took part, and what became of them
    numbering   sorted rows become histories, in the workers
    laying      the exchange, and Parquet in the form of a trace
    foreign     all this, one after the other: a log and a mapping become the folder of a trace
    native      rows that have the columns of a trace already
    door        a source of any kind, opened for the audit
    lookup      what the log itself calls the rows of a violation, without Spark
    logged      the same for the whole table of violations, on Spark

Spark reads, interprets, names and sorts without any Python; numbers are put on rows, and Parquet is
written, by arrays.
"""
