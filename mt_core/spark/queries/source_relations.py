"""Source relations: a table snapshot as an SQL relation with the table's current columns.

`VERSION AS OF` reads a snapshot with the columns of that time. Iceberg identifies columns by id, so each
current column can be mapped to a column of the snapshot, even after renames, moves and type promotions.
Columns that were added later are NULL. For a table without a snapshot, the version is `EMPTY` and has no
rows.
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
"""The capacity of a lineage's set of snapshots whose columns are the current ones."""


def relation_at(session: SparkSession, lineage: Lineage, source: Source, snapshot: str) -> str | None:
    """Return a source at a snapshot as an SQL relation with the source's current columns.

    A query is returned in parentheses. Return None if the columns cannot be mapped. The caller must hold
    the lock of *lineage*.
    """
    name = sql_name(source.parts)
    if snapshot == EMPTY:
        return f"(SELECT * FROM {name} WHERE false)"
    table, at = source.table, f"{name} VERSION AS OF {snapshot}"
    if (source.name, snapshot) in lineage.plain:
        return at
    live = table.snapshot(int(snapshot))
    then = None if live is None else live.schemaId()
    # If the snapshot has expired, Spark reports that when it analyses the text.
    if then is None or int(then) == int(table.schema().schemaId()):
        if len(lineage.plain) >= MOST_PLAIN:
            lineage.plain.clear()
        lineage.plain.add((source.name, snapshot))
        return at
    before = table.schemas().get(then)
    return None if before is None else _with_columns_of_now(session, table.schema(), before, at)


def is_query(relation: str) -> bool:
    """Return whether a relation is a subquery. Unlike a table, it needs an alias."""
    return relation.startswith("(")


def _with_columns_of_now(session: SparkSession, schema: Any, before: Any, at: str) -> str | None:
    now, then = iceberg_fields(session, schema), iceberg_fields(session, before)
    if [_facts(each) for each in now] == [_facts(each) for each in then]:
        return at
    types = {each.name: each.type for each in iceberg_columns(session, schema)}
    by_id = {each["id"]: each for each in then}
    items = [_item(each, by_id.get(each["id"]), types[each["name"]]) for each in now]
    return None if None in items else f"(SELECT {', '.join(map(str, items))} FROM {at})"


def _facts(field: Mapping[str, Any]) -> tuple[Any, ...]:
    return field["id"], field["name"], field["type"]


def _item(now: Mapping[str, Any], then: Mapping[str, Any] | None, type_: str) -> str | None:
    """Return a SELECT item for a current column over a snapshot, or None if SQL cannot express it."""
    name = quote(now["name"])
    if then is None:
        return None if now.get("initial-default") is not None else f"CAST(NULL AS {type_}) AS {name}"
    if now["type"] == then["type"]:
        return name if now["name"] == then["name"] else f"{quote(then['name'])} AS {name}"
    if not isinstance(now["type"], str) or not isinstance(then["type"], str):
        return None
    return f"CAST({quote(then['name'])} AS {type_}) AS {name}"
