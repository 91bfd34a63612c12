"""Tables of Iceberg that streams write; `kinds` says which table is written by which sink,
of which the others are in `spark/connectors`.
"""
