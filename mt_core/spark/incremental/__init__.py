"""Incremental maintenance on Spark: computes a table's changed rows from the changes of its sources."""
