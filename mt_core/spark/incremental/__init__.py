"""Incremental maintenance on Spark: shapes of queries, changes of their sources,
and the rows that apply them.
"""
