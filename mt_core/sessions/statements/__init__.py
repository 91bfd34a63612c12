"""Statements: from their text to the session, the materialized tables or Spark."""
