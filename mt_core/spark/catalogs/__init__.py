"""Catalogs in Spark: their tables, their columns' types, and those that statements created."""
