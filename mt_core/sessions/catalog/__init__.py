"""Statements about catalogs, connector tables and functions, and the objects that they create."""
