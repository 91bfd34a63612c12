"""Pure facts: tables, freshness, partitions, runs."""
