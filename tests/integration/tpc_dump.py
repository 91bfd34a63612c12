"""Writes the tables of TPC-H and TPC-DS as Parquet, and their queries in Spark's words.

    python tpc_dump.py FOLDER SCALE

`tpc.py` runs it in an environment with DuckDB.
"""

import json
import sys
from pathlib import Path

import duckdb
from duckdb_extensions import import_extension

GENERATORS = {"tpch": "dbgen", "tpcds": "dsdgen"}
# Spark reads names in double quotes as strings, so these queries, by their numbers, have them in backquotes.
# It understands all others as they are.
QUOTED_NAMES = {"tpch": (), "tpcds": (16, 32, 50, 62, 92, 94, 95, 99)}


def dump(suite: str, folder: Path, scale: float) -> None:
    """Write the tables and `queries.json`, which has the text of each query by its number."""
    folder.mkdir(parents=True)
    import_extension(suite)
    with duckdb.connect() as connection:
        connection.load_extension(suite)
        connection.execute(f"CALL {GENERATORS[suite]}(sf = {scale})")
        for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            connection.execute(f"COPY {table} TO '{folder / table}.parquet'")
        texts = dict(
            connection.execute(f"SELECT query_nr, query FROM {suite}_queries() ORDER BY query_nr").fetchall()
        )
    assert tuple(number for number, text in texts.items() if '"' in text) == QUOTED_NAMES[suite]
    queries = {number: text.replace('"', "`").strip().removesuffix(";") for number, text in texts.items()}
    (folder / "queries.json").write_text(json.dumps(queries))


if __name__ == "__main__":
    for each in GENERATORS:
        dump(each, Path(sys.argv[1]) / each, float(sys.argv[2]))
