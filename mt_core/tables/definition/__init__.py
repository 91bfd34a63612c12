"""Definitions of materialized tables: their validation, options, fingerprint and SQL text."""
