"""Immutable value types, such as tables, freshness, partitions, runs, jobs, streams and functions."""
