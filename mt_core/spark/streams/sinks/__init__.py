"""Sinks for Iceberg tables, and the choice of a sink for each table (`kinds`).

Sinks of other connectors are in `spark/connectors`.
"""
