"""Keepers, which decide when a table is refreshed: implementations of the manager's port."""
