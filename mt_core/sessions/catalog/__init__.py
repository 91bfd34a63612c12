"""Statements about catalogs, tables with a connector and functions, and what the gateway keeps of them."""
