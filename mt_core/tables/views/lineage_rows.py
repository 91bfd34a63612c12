"""The rows of SHOW LINEAGE: a tree of tables and what they read, each row one branch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from mt_core.base.ages import age_text
from mt_core.base.rowset import INT, Column, RowSet
from mt_core.errors import TableNotFound
from mt_core.model.table import TableIdentifier
from mt_core.sql.statements import ShowLineage
from mt_core.tables.overview.facts import TableFacts
from mt_core.tables.overview.graph import Branch, Graph
from mt_core.tables.pages import UnreadableTable
from mt_core.tables.views.table_rows import overdue_text

_COLUMNS = (
    Column(name="table"),
    Column(name="kind"),
    Column(name="reads"),
    Column(name="depth", type=INT),
    Column(name="state"),
)
_EXTENDED_COLUMNS = (
    *_COLUMNS,
    Column(name="freshness"),
    Column(name="stale for"),
    Column(name="late by"),
)


def lineage_rows(
    tables: Iterable[TableFacts | UnreadableTable],
    now: datetime,
    statement: ShowLineage,
    table: TableIdentifier | None,
) -> RowSet:
    """Return the rows of SHOW LINEAGE of *table*, or of all tables if it is None.

    *tables* are the facts about all tables at *now*. Each row comes before those of its sources, which are
    one deeper. A table that several others read has a row for each, but its sources follow only the first.
    `reads` names them in every row. Raises TableNotFound if *table* has just been dropped.
    """
    graph = Graph.of(tables)
    if table is not None and str(table) not in graph.nodes:
        raise TableNotFound(f"Materialized table {table} was dropped.", table=str(table))
    columns = _EXTENDED_COLUMNS if statement.extended else _COLUMNS
    rows = (_row(graph, branch, now) for branch in graph.tree(None if table is None else str(table)))
    return RowSet(columns=columns, rows=[[row.get(each.name) for each in columns] for row in rows])


def _row(graph: Graph, branch: Branch, now: datetime) -> Mapping[str, object]:
    node = branch.node
    row = {
        "table": node.name,
        "kind": node.kind,
        "reads": ", ".join(graph.sources[node.name]) or None,
        "depth": branch.depth,
        "state": None if node.state is None else node.state.value,
    }
    return row if node.facts is None else {**row, **_freshness(node.facts, now)}


def _freshness(facts: TableFacts, now: datetime) -> Mapping[str, str | None]:
    return {
        "freshness": facts.cadence,
        "stale for": None if facts.shows is None else age_text(max(timedelta(0), now - facts.shows)),
        "late by": overdue_text(facts, now),
    }
