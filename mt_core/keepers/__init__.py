"""Keepers: each decides when a table is refreshed, behind the port of the manager."""
