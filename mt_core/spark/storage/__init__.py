"""Storage tables in Iceberg: their creation, writes on branches, publishing, and housekeeping."""
