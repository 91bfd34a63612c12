"""Incremental maintenance on Spark: query shapes, source changes, and the rows that apply them."""
