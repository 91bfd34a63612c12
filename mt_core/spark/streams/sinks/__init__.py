"""Sinks for Iceberg tables; `kinds` chooses the sink of each table. Sinks of other connectors are in
`spark/connectors`.
"""
