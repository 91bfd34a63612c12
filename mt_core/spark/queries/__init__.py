"""Queries on Spark: their analysis, their lineage, and the versions of their sources."""
