"""Incremental maintenance on Spark: shapes of queries, changes of their sources, and the writes that apply them."""
