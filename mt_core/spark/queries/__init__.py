"""Queries on Spark: analysis, lineage, and the versions of their sources."""
