"""Writes the tables of TPC-H and TPC-DS as Parquet, and their queries in Spark's words.

    python tpc_dump.py FOLDER SCALE

`tpc.py` runs it in an environment with DuckDB.

A query keeps its LIMIT only where its ORDER BY leaves no choice of rows, and names each of its columns once,
as tables must.
"""

import json
import sys
from pathlib import Path

import duckdb
import sqlglot
from duckdb_extensions import import_extension
from sqlglot import exp

GENERATORS = {"tpch": "dbgen", "tpcds": "dsdgen"}


def dump(suite: str, folder: Path, scale: float) -> None:
    """Write the tables and `queries.json`, which has the text of each query by its number."""
    folder.mkdir(parents=True)
    import_extension(suite)
    with duckdb.connect() as connection:
        connection.load_extension(suite)
        connection.execute(f"CALL {GENERATORS[suite]}(sf = {scale})")
        for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            connection.execute(f"COPY {table} TO '{folder / table}.parquet'")
        texts = connection.execute(
            f"SELECT query_nr, query FROM {suite}_queries() ORDER BY query_nr"
        ).fetchall()
    queries = {str(number): in_sparks_words(text) for number, text in texts}
    (folder / "queries.json").write_text(json.dumps(queries))


def in_sparks_words(text: str) -> str:
    """Return a query of DuckDB as one of Spark."""
    query = sqlglot.parse_one(text, read="duckdb")
    if query.args.get("limit") and not is_total(query):
        query.set("limit", None)
    name_columns(query)
    return query.sql(dialect="spark")


def is_total(query: exp.Query) -> bool:
    """Return whether the ORDER BY of a query has all of its columns:
    rows that it leaves equal are the same.
    """
    order = query.args.get("order")
    keys = [each.this for each in order.expressions] if order else []
    ordered = {key.name for key in keys if isinstance(key, exp.Column)}
    return set(query.named_selects) <= ordered


def name_columns(query: exp.Query) -> None:
    """Name the columns that have none, and those of a name that an earlier one has."""
    names: set[str] = set()
    while isinstance(query, exp.SetOperation):
        query = query.this
    for number, column in enumerate(query.expressions):
        name = column.output_name.lower()
        if not name or name in names:
            query.expressions[number] = exp.alias_(column.unalias(), f"column_{number + 1}")
        names.add(name)


if __name__ == "__main__":
    for each in GENERATORS:
        dump(each, Path(sys.argv[1]) / each, float(sys.argv[2]))
