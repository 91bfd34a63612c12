"""The strategies of `maintained_queries`, from their recorded plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.plan import occurrences_below, read_plan
from mt_core.incremental.shape import QueryShape, read_shape
from mt_core.incremental.stages.compiler import compile_first_rows, compile_rows, compile_stages
from mt_core.incremental.stages.stage_plan import StagePlan
from mt_core.incremental.strategy import Strategy, choose
from mt_core.model.freshness import Freshness
from mt_core.model.table import Column, RefreshMode, TableDefinition
from mt_core.tables.engine import ShapedQuery
from mt_core.tables.refresh.forecast import kept_stages, strategy_for
from tests.support.maintained_queries import QUERIES, MaintainedQuery
from tests.support.recorded_plans import Plan, recorded, recorded_trees

APPENDS, ROWS = SourceChange(kind=ChangeKind.APPENDS), SourceChange(kind=ChangeKind.ROWS)
PLANS, TREES = recorded(), recorded_trees()
# Types of results that decide whether aggregates combine; the recorded plans do not name those of the result.
TYPES: Mapping[str, Mapping[str, str]] = {
    "sum of doubles": {"cid": "bigint", "s": "double"},
    "try_sum": {"cid": "bigint", "t": "decimal(20,2)"},
}
BY_NAME = {query.name: query for query in QUERIES}


def shape_of(query: MaintainedQuery) -> QueryShape:
    plan, subqueries = PLANS[query.name]
    return read_shape(plan, subqueries)


def source_of(plan: Plan, number: int) -> str:
    """Return the source that the relation with that number reads:
    the name below the alias that carries the number.
    """
    node = next(
        node for node in _nodes(plan) if node.get("identifier", {}).get("name") == f"_source_{number}"
    )
    below = _nodes(plan)[_nodes(plan).index(node) + 1 :]
    return next(str(each["identifier"]["name"]) for each in below if "identifier" in each)


def _nodes(plan: Plan) -> Plan:
    return [node for node in plan if node["class"] == "SubqueryAlias"]


def readings_of(name: str) -> list[str]:
    """Return the source of each relation of a query, by number."""
    plan, subqueries = PLANS[name]
    places = {number: part for part in (plan, *subqueries) for number in occurrences_below(read_plan(part))}
    return [source_of(places[number], number) for number in sorted(places)]


def strategy(name: str, **changes: SourceChange) -> Strategy:
    """Return the strategy without stages for changes of sources, by their names; the others stay as they
    are.
    """
    shape, readings = shape_of(BY_NAME[name]), readings_of(name)
    unchanged = SourceChange(kind=ChangeKind.NOTHING)
    return choose(
        shape,
        {number: changes.get(source, unchanged) for number, source in enumerate(readings)},
        columns=[f"column {position}" for position in range(len(shape.lineage))],
        relations=readings,
    )


def shaped(name: str) -> ShapedQuery:
    """Return a query as a refresh knows it. The recorded plans do not name the types of its columns."""
    query, readings = shape_of(BY_NAME[name]), tuple(readings_of(name))
    plan = compile_stages(TREES[name], sources=readings, version="")
    blocks = compile_rows(TREES[name], sources=readings)
    columns = tuple(
        Column(name=f"column {position}", type="bigint") for position in range(len(query.lineage))
    )
    first = compile_first_rows(TREES[name], sources=readings)
    shape = replace(query, stages=plan, rows=blocks, first_rows=first)
    return ShapedQuery(shape=shape, columns=columns, readings=readings)


def stages(name: str) -> StagePlan | str:
    """Return the stages that maintain a query, or why it has none."""
    query = shaped(name)
    kept, plan = kept_stages(query, definition_of(query.columns)), query.shape.stages
    return kept or (
        plan if isinstance(plan, str) else str(strategy(name, **dict.fromkeys(readings_of(name), ROWS)))
    )


def strategy_of(name: str, **changes: SourceChange) -> Strategy:
    """Return the strategy of the one engine that maintains a query, for changes of sources by their names."""
    query = shaped(name)
    by_reading = {number: changes[each] for number, each in enumerate(query.readings) if each in changes}
    return strategy_for(query, by_reading, definition_of(query.columns))


def way(name: str, source: str, change: SourceChange) -> str:
    """Return the way in which a change of a source is applied."""
    return strategy_of(name, **{source: change}).way


def definition_of(columns: tuple[Column, ...]) -> TableDefinition:
    """Return the definition of a table that stores *columns* as they are."""
    return TableDefinition(
        columns=columns,
        original_query="",
        expanded_query="",
        freshness=Freshness(1, "DAY"),
        refresh_mode=RefreshMode.FULL,
        logical_refresh_mode="FULL",
        zone="UTC",
    )
