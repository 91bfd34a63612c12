"""Freshtable: materialized tables that keep themselves fresh."""

__version__ = "0.1.0"
