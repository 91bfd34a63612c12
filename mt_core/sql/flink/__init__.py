"""Flink's SQL in Spark's syntax: types, and statements that change a table."""
