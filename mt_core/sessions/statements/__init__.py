"""Handlers that pass each statement to the session, to the materialized tables or to Spark."""
