"""Freshtable's operators in streaming queries: the plans that they replace, and their state."""
