"""Materialized tables: definitions, commands, refreshes and upkeep."""
