"""Spark's catalogs, both configured and created: their tables and their column types."""
