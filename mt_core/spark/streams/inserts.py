"""The parts of an INSERT or CREATE TABLE … AS that runs as a stream: table, columns and query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from mt_core.base.identifiers import display_name
from mt_core.errors import Unsupported
from mt_core.spark.driver.jvm_objects import class_name, scala_items, scala_sequence, state_of
from mt_core.spark.queries.views import Names

_INSERT, _WITH = "InsertIntoStatement", "UnresolvedWith"
_CREATIONS = frozenset({"CreateTableAsSelect", "ReplaceTableAsSelect"})
_BATCH = "run it in batch mode: SET 'execution.runtime-mode' = 'batch'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """The parsed parts of an INSERT.

    `table` is the full table name, or the one-part name of a temporary table. `columns` are the columns
    listed after the table name. `plan` is the parsed query, and `statement` the parsed statement without
    its WITH clause. If the statement has *created* the table, its columns are those of the query.
    """

    table: tuple[str, ...]
    columns: tuple[str, ...]
    by_name: bool
    created: bool = False
    plan: Any = field(repr=False)
    statement: Any = field(repr=False)

    def of(self, session: SparkSession, query: Any) -> Any:
        """Return the plan of the statement with its query replaced by the analysed plan *query*."""
        *others, _ = scala_items(self.statement.children())
        return self.statement.withNewChildren(scala_sequence(session, [*others, query]))


def read_insert(session: SparkSession, text: str) -> Insert:
    """Return the parts of an INSERT or a CREATE TABLE … AS; *session* must be active.

    Raises Unsupported for statements that replace rows.
    """
    plan = state_of(session).sqlParser().parsePlan(text)
    if class_name(plan) in _CREATIONS:
        parts = tuple(map(str, scala_items(plan.name().nameParts())))
        name = _full_name(session, parts, temporary=False)
        return Insert(table=name, columns=(), by_name=True, created=True, plan=plan.query(), statement=plan)
    common = plan if class_name(plan) == _WITH else None
    statement = plan if common is None else common.child()
    if class_name(statement) != _INSERT or class_name(statement.table()) != "UnresolvedRelation":
        raise Unsupported(f"Only INSERT INTO a table runs as a stream; {_BATCH}.")
    parts = tuple(map(str, scala_items(statement.table().multipartIdentifier())))
    if statement.overwrite():
        raise Unsupported(
            f"INSERT OVERWRITE {display_name(parts)} replaces rows, and a stream only adds rows; {_BATCH}."
        )
    if statement.partitionSpec().nonEmpty():
        raise Unsupported(
            f"INSERT INTO {display_name(parts)} PARTITION: a stream takes the values of partition columns "
            "from its query; select them there."
        )
    query = statement.query()
    if common is not None:
        query = common.copy(query, common.cteRelations(), common.allowRecursion())
    return Insert(
        table=_full_name(session, parts),
        columns=tuple(map(str, scala_items(statement.userSpecifiedCols()))),
        by_name=bool(statement.byName()),
        plan=query,
        statement=statement,
    )


def is_insert(session: SparkSession, text: str) -> bool:
    """Return whether *text* is an INSERT; *session* must be active."""
    plan = state_of(session).sqlParser().parsePlan(text)
    return class_name(plan.child() if class_name(plan) == _WITH else plan) == _INSERT


def query_of(session: SparkSession, text: str) -> Any:
    """Return the parsed query of an INSERT, or of *text* if that is a query; *session* must be active."""
    plan = state_of(session).sqlParser().parsePlan(text)
    statement = plan.child() if class_name(plan) == _WITH else plan
    return read_insert(session, text).plan if class_name(statement) in {_INSERT, *_CREATIONS} else plan


def _full_name(session: SparkSession, parts: tuple[str, ...], *, temporary: bool = True) -> tuple[str, ...]:
    if temporary and len(parts) == 1 and state_of(session).catalog().getTempView(parts[0]).isDefined():
        return parts
    names = Names(session)
    return names.qualify(parts, *names.current())
