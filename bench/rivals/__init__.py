"""The same judgement by others: our own best queries, for the benchmark alone."""
