"""Keepers: each decides when a table is refreshed, behind the port that the manager has for them."""
