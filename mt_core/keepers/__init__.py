"""Keepers, which decide when a table is refreshed: implementations of the table manager's port."""
