"""The lineage of a materialized table: its source tables, views and functions, as a tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.tree import Tree

from mt_core.errors import GatewayError

Row = Mapping[str, Any]
Rows = Callable[[str], Sequence[Row]]
# Spark's error class for a statement that it cannot parse. A gateway that predates SHOW LINEAGE leaves the
# statement to Spark.
_UNKNOWN_STATEMENT = "PARSE_SYNTAX_ERROR"


def lineage(table: str, rows: Rows) -> Tree:
    """Return the source tree of *table*. *rows* runs a statement and returns its rows.

    The sources of a table are shown only once, even if several tables read it or if it depends on itself.
    Raises GatewayError if the table does not exist, or if the gateway predates SHOW LINEAGE.
    """
    root, *below = _branches(table, rows)
    # The branches from the root to the last row.
    path, expanded = [Tree(escape(_title(root)))], {root["table"]}
    for row in below:
        del path[row["depth"] :]
        again = row["table"] in expanded and row["reads"]
        expanded.add(row["table"])
        path.append(path[-1].add(escape(_title(row) + (" (its sources: above)" if again else ""))))
    return path[0]


def _branches(table: str, rows: Rows) -> Sequence[Row]:
    try:
        return rows(f"SHOW LINEAGE OF {table} EXTENDED")
    except GatewayError as error:
        if error.facts.get("error_class") != _UNKNOWN_STATEMENT:
            raise
        raise GatewayError(
            r"\lineage needs a gateway that knows SHOW LINEAGE, and this one is older; upgrade the gateway, "
            f"or read the sources of one table with DESCRIBE EXTENDED {table}."
        ) from error


def _title(row: Row) -> str:
    if row["state"] is None:
        return f"{row['table']} ({row['kind']})"
    times = [f"{key} {row[key]}" for key in ("freshness", "stale for", "late by") if row[key] is not None]
    return f"{row['table']}: {', '.join([row['state'], *times])}"
