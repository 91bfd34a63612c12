"""The SQL registry: SQLite by default, PostgreSQL in production."""
