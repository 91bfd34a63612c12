"""Source relations: a table at one of its snapshots as a relation in SQL that has the columns
of the table now.

`VERSION AS OF` reads a snapshot with the columns that the table had then. Iceberg tells columns by their
ids, so that each column of now is found in a snapshot whatever it was called, wherever it stood and
whichever narrower type it had; one that came later is NULL. A table without a snapshot is a version of
its own: it has no rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from mt_core.base.identifiers import quote, sql_name
from mt_core.model.storage import EMPTY
from mt_core.spark.catalogs.columns import iceberg_columns, iceberg_fields
from mt_core.spark.queries.lineage import Lineage, Source

MOST_PLAIN = 1000
"""Snapshots that a lineage keeps as known."""


def relation_at(session: SparkSession, lineage: Lineage, source: Source, snapshot: str) -> str | None:
    """Return a source of *lineage* at a snapshot with its columns of now, in brackets if it is a query.

    None if they cannot be told there. The caller holds the lock of *lineage*.
    """
    name = sql_name(source.parts)
    if snapshot == EMPTY:
        return f"(SELECT * FROM {name} WHERE false)"
    table, at = source.table, f"{name} VERSION AS OF {snapshot}"
    if (source.name, snapshot) in lineage.plain:
        return at
    found = table.snapshot(int(snapshot))
    then = None if found is None else found.schemaId()
    # One that has expired is refused by Spark when the text is read.
    if then is None or int(then) == int(table.schema().schemaId()):
        if len(lineage.plain) >= MOST_PLAIN:
            lineage.plain.clear()
        lineage.plain.add((source.name, snapshot))
        return at
    before = table.schemas().get(then)
    return None if before is None else _with_columns_of_now(session, table.schema(), before, at)


def is_query(relation: str) -> bool:
    """Return whether a relation is a query, which needs an alias where a table does not."""
    return relation.startswith("(")


def _with_columns_of_now(session: SparkSession, schema: Any, before: Any, at: str) -> str | None:
    now, then = iceberg_fields(session, schema), iceberg_fields(session, before)
    if [_facts(each) for each in now] == [_facts(each) for each in then]:
        return at
    types = {each.name: each.type for each in iceberg_columns(session, schema)}
    known = {each["id"]: each for each in then}
    items = [_item(each, known.get(each["id"]), types[each["name"]]) for each in now]
    return None if None in items else f"(SELECT {', '.join(map(str, items))} FROM {at})"


def _facts(field: Mapping[str, Any]) -> tuple[Any, ...]:
    return field["id"], field["name"], field["type"]


def _item(now: Mapping[str, Any], then: Mapping[str, Any] | None, type_: str) -> str | None:
    """Return a column of now in the terms of a snapshot; None where SQL cannot say it as Iceberg reads it."""
    name = quote(now["name"])
    if then is None:
        return None if now.get("initial-default") is not None else f"CAST(NULL AS {type_}) AS {name}"
    if now["type"] == then["type"]:
        return name if now["name"] == then["name"] else f"{quote(then['name'])} AS {name}"
    if not isinstance(now["type"], str) or not isinstance(then["type"], str):
        return None
    return f"CAST({quote(then['name'])} AS {type_}) AS {name}"
