"""Pure facts: tables, freshness, partitions, runs, jobs, streams, functions, and who may publish."""
