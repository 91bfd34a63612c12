"""Catalogs as Spark has them: names, columns, and the catalogs that statements created."""
