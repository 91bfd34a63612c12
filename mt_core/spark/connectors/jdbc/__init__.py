"""Sinks for tables of JDBC databases."""
