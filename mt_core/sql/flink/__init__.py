"""Flink's SQL in Spark's words: tables, types, connectors and catalogs."""
