"""Spark's catalogs: configured and created ones, their tables, and their column types."""
