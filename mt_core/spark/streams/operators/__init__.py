"""Freshtable's operators in streaming queries: how they are inserted into plans, and their state."""
