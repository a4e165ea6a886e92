"""The judge in queries: the oracle for the arrays, and how every measure is taken.

Read ``ingest`` (rows become tables; ``faults`` says which rows are bad), ``facts`` (what is known
about each run, and what nobody is owed), ``evidence`` (what is known about each event) and
``checks`` (one guarantee per file). ``case`` opens a trace with all of it; ``measures`` are what it
cost and how long it took.
"""
