"""Queries in stages, for tests: their lowest aggregates, and what the rest over them returns."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType

from mt_core.incremental.plan import Node, read_plan
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.queries.lineage import LineageReader
from mt_core.spark.queries.staged_query import StagedQuery
from mt_core.tables.engine import Query


def staged(session: SparkSession, text: str) -> tuple[StagedQuery, list[str]]:
    """Return a query in stages, and the source of each of its readings."""
    with active_session(session):
        lineage = LineageReader(session).read(Query(text=text))
    sources = [piece.source.name for piece in lineage.pieces if not isinstance(piece, str)]
    return StagedQuery.of_lineage(session, lineage), sources


def places_of(query: StagedQuery) -> list[str]:
    """Return the places of the aggregates below which there is no other."""
    return [
        json.dumps([number, path])
        for number, tree in enumerate(query.trees())
        for path in _lowest_aggregates(read_plan(tree), [])
    ]


def _lowest_aggregates(node: Node, path: list[int]) -> list[list[int]]:
    found = [
        each
        for position, child in enumerate(node.children)
        for each in _lowest_aggregates(child, [*path, position])
    ]
    return found or ([path] if node.kind == "Aggregate" else [])


def columns_of(frame: DataFrame) -> list[tuple[str, DataType]]:
    return [(field.name, field.dataType) for field in frame.schema]


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(str(tuple(row)) for row in frame.collect())


def check_rest(session: SparkSession, name: str, text: str) -> int:
    """Compare the rest of a query over its lowest aggregates with the query; return how many there are."""
    query, sources = staged(session, text)
    # The readings of a table share its rows.
    rows = {source: session.table(source) for source in sources}
    leaves = {number: rows[source] for number, source in enumerate(sources)}
    states = {place: query.groups(place, leaves) for place in places_of(query) if has_sums(query, place)}

    rest, expected = query.rest(states, leaves), session.sql(text)

    assert columns_of(rest) == columns_of(expected), name
    assert rows_of(rest) == rows_of(expected), name
    return len(states)


def has_sums(query: StagedQuery, place: str) -> bool:
    """Return whether partial sums give what an aggregate returns."""
    try:
        query.schema(place)
    except SPARK_ERRORS:
        return False
    return True
