"""Storage tables in Iceberg: created, written on branches, published, expired."""
