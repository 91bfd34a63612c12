"""Materialized tables: their definitions, commands, refreshes and upkeep."""
