"""Definitions of materialized tables: validation, options, fingerprint and SQL text."""
