"""Flink's SQL translated to Spark's: types, and statements that change a table."""
