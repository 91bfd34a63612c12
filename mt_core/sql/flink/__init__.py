"""Flink's SQL in Spark's syntax: tables, types, connectors and catalogs."""
