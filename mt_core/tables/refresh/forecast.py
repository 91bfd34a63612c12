"""The refresh forecast: which strategy a change of each source would lead to, regardless of cost.

A refresh either applies the changes of its sources to the table's rows, or recomputes all rows. The choice
depends on the query, on the kinds of changes, on the types in which the table stores its columns, and on its
options. It does not depend on versions or sizes. So one function, `strategy_for`, chooses the strategy of a
run, which the change plan then compares with a recomputation by cost. The same function makes the forecasts
that EXPLAIN, the warnings of CREATE and the check of `refresh.strategy` use. A forecast is the strategy that
the next run would choose if only that source had changed.

A strategy is rejected here if the rows that it has to look up are not stored as the query returns them. With
a rounded or incomparable key column, outdated rows would remain in the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from mt_core.errors import DefinitionInvalid
from mt_core.incremental.changes import ChangeKind, SourceChange, can_be_looked_up
from mt_core.incremental.merging import inexact_sum
from mt_core.incremental.shape import QueryShape
from mt_core.incremental.stages.stage_plan import StagePlan
from mt_core.incremental.strategy import (
    StoredRows,
    Strategy,
    Way,
    choose,
    choose_first_rows,
    choose_partitions,
    choose_rows,
    choose_stages,
    stages_of,
)
from mt_core.model.storage import UPSERT
from mt_core.model.table import Column, RefreshMode, TableDefinition, TableIdentifier
from mt_core.tables.definition.options import (
    AUTO,
    DOUBLES,
    EXACT,
    FULL,
    INCREMENTAL,
    MERGED,
    STRATEGY,
)
from mt_core.tables.definition.shape import is_exact
from mt_core.tables.engine import ChangeReader, ShapedQuery, SourceVector, SourceVersion
from mt_core.tables.services import query_of

# Types of partition columns whose values have exactly one text form each.
_NAMED = re.compile(r"string|tinyint|smallint|int|bigint|date|decimal\(.*\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshForecast:
    """The strategies if only this source changes: `appends` for appended rows, `rows` for other changes."""

    source: str
    appends: Strategy
    rows: Strategy

    @property
    def is_maintained(self) -> bool:
        """Whether at least one kind of change is applied to the table instead of recomputing it."""
        return {self.appends.way, self.rows.way} != {Way.RECOMPUTE}


def strategy_option(definition: TableDefinition) -> str:
    """Return the option `refresh.strategy` of a table, or its default."""
    return definition.options.get(STRATEGY, AUTO)


def strategy_for(
    query: ShapedQuery, changes: Mapping[int, SourceChange], definition: TableDefinition
) -> Strategy:
    """Return the strategy that applies *changes*, keyed by reading, to the rows of a table."""
    plan = kept_stages(query, definition)
    if plan is None:
        rows = _rows(query, changes, definition)
        is_applied = rows is not None and rows.way is not Way.RECOMPUTE
        if rows is not None and is_applied and (rows.limit is not None or _is_linear(query, changes)):
            return rows
        choice = _without_stages(query, changes, definition)
        if rows is None or choice.way is Way.MERGE or (choice.way is Way.PARTITIONS and rows.by_key):
            return choice
        return rows if is_applied or choice.way is Way.RECOMPUTE else choice
    if plan.rows is not None:
        return _over_values(plan, query, changes, definition)
    choice = choose_stages(plan, changes, keys=plan.row_keys or (), relations=query.readings)
    return choice if _obstacle(choice, query, definition) is None else replace(choice, keys=())


def kept_stages(query: ShapedQuery, definition: TableDefinition) -> StagePlan | None:
    """Return the stages that maintain a table, or None if its changes are applied without states.

    A table whose schedule times refresh partitions of their own has no rows as of one version, and no states.
    """
    if definition.date_formatters:
        return None
    rows = dict.fromkeys(range(len(query.readings)), SourceChange(kind=ChangeKind.ROWS))
    return stages_of(query.shape, _without_stages(query, rows, definition))


def _rows(
    query: ShapedQuery, changes: Mapping[int, SourceChange], definition: TableDefinition
) -> Strategy | None:
    """Return the strategy that changes rows of the result, or None if their change is not computed."""
    rows, first = query.shape.rows, query.shape.first_rows
    if isinstance(rows, str) and first is None:
        return None
    stored = _stored(query, definition)
    if not isinstance(rows, str):
        choice = choose_rows(rows, changes, stored=stored, relations=query.readings)
    else:
        assert first is not None
        choice = choose_first_rows(*first, changes, stored=stored, relations=query.readings)
    return None if choice.way is Way.NOTHING else choice


def _stored(query: ShapedQuery, definition: TableDefinition) -> StoredRows:
    stored = {column.name.lower(): column.type for column in definition.columns}
    exact = {
        position: is_exact(column.type, stored.get(column.name.lower(), ""))
        for position, column in enumerate(query.columns)
    }
    return StoredRows(
        columns=[column.name for column in query.columns],
        # Rows are compared as they are stored, whatever the query returned.
        obstacle=_incomparable(definition.columns) or "",
        usable=[each for each in exact if exact[each] and can_be_looked_up(query.columns[each].type)],
        upserts=UPSERT in definition.options,
    )


def _over_values(
    plan: StagePlan, query: ShapedQuery, changes: Mapping[int, SourceChange], definition: TableDefinition
) -> Strategy:
    """Return the strategy for the rows of a result that depend on the values of scalar subqueries."""
    changed = frozenset(number for number, each in changes.items() if each.kind.changes_rows)
    assert plan.rows is not None
    if not plan.moved(changed):
        stored = _stored(query, definition)
        choice = choose_rows(plan.rows, changes, stored=stored, relations=query.readings)
        return choice if choice.rows is None else replace(choice, stages=plan)
    choice = choose_stages(plan, changes, keys=range(len(query.columns)), relations=query.readings)
    # All rows are computed if a value changes, and none if no other source has changed.
    return choice if _incomparable(definition.columns) is None else replace(choice, keys=())


def _is_linear(query: ShapedQuery, changes: Mapping[int, SourceChange]) -> bool:
    """Return whether each changed row changes rows of the result by itself."""
    changed = {number for number, change in changes.items() if change.kind.changes_rows}
    return not isinstance(query.shape.rows, str) and changed <= query.shape.rows.linear()


def _without_stages(
    query: ShapedQuery, changes: Mapping[int, SourceChange], definition: TableDefinition
) -> Strategy:
    choice = _chosen(query.shape, query, changes)
    obstacle = _inexact(choice, query, changes, definition) or _obstacle(choice, query, definition)
    if obstacle is not None and choice.way is Way.MERGE:
        choice = _chosen(replace(query.shape, merge=obstacle), query, changes)
        obstacle = _obstacle(choice, query, definition)
    if obstacle is not None:
        choice = Strategy(way=Way.RECOMPUTE, reason=obstacle)
    if choice.way not in (Way.KEYS, Way.RECOMPUTE):
        return choice
    partitions = partitions_for(query, changes, definition)
    return choice if partitions is None or _is_finer(query, choice, partitions) else partitions


def _chosen(shape: QueryShape, query: ShapedQuery, changes: Mapping[int, SourceChange]) -> Strategy:
    columns = [column.name for column in query.columns]
    return choose(shape, changes, columns=columns, relations=query.readings)


def partitions_for(
    query: ShapedQuery, changes: Mapping[int, SourceChange], definition: TableDefinition
) -> Strategy | None:
    """Return the strategy that replaces the partitions affected by *changes*.

    The result is None if the table is not partitioned, or if its partitions cannot be computed from the
    changed rows.
    """
    stored = {column.name: column.type.lower() for column in definition.columns}
    if not definition.partition_keys or not all(
        _NAMED.fullmatch(stored.get(key, "")) for key in definition.partition_keys
    ):
        return None
    choice = touched_by(query, changes, definition.partition_keys)
    return choice if choice.way is Way.PARTITIONS and _obstacle(choice, query, definition) is None else None


def touched_by(query: ShapedQuery, changes: Mapping[int, SourceChange], names: Iterable[str]) -> Strategy:
    """Return the strategy that finds the partitions affected by *changes*, which are keyed by reading.

    *names* are the partition columns.
    """
    columns = [column.name for column in query.columns]
    positions = {column.lower(): position for position, column in enumerate(columns)}
    return choose_partitions(
        query.shape,
        changes,
        [positions[name.lower()] for name in names],
        columns=columns,
        relations=query.readings,
    )


def by_reading(query: ShapedQuery, changes: Mapping[str, SourceChange]) -> dict[int, SourceChange]:
    """Return *changes* keyed by the position at which *query* reads a source, instead of by source name."""
    return {number: changes[source] for number, source in enumerate(query.readings) if source in changes}


def _is_finer(query: ShapedQuery, choice: Strategy, partitions: Strategy) -> bool:
    """Return whether the keys of *choice* select fewer rows than the partitions that contain them.

    They do not if each additional key column has the same lineage as a partition column, and therefore the
    same value.
    """
    lineages = [query.shape.lineage[position] for position in partitions.keys]
    return any(
        position not in partitions.keys and (not lineage or lineage not in lineages)
        for position, lineage in ((key, query.shape.lineage[key]) for key in choice.keys)
    )


def _inexact(
    choice: Strategy, query: ShapedQuery, changes: Mapping[int, SourceChange], definition: TableDefinition
) -> str | None:
    """Return why *choice* would merge a sum of doubles that must be exact, or None if it merges none.

    Deletes are never merged: subtracting a large value does not restore the digits that were lost when it was
    added.
    """
    if choice.way is not Way.MERGE or choice.first is not None:
        return None
    grows = all(change.kind <= ChangeKind.APPENDS for change in changes.values())
    if grows and definition.options.get(DOUBLES, EXACT) == MERGED:
        return None
    return inexact_sum(choice.merge, {column.name: column.type for column in query.columns})


def _obstacle(choice: Strategy, query: ShapedQuery, definition: TableDefinition) -> str | None:
    """Return why *choice* cannot look up its rows in the table, or None if it can.

    It cannot if the table stores them differently from the query's results.
    """
    stored = {column.name.lower(): column.type for column in definition.columns}
    match choice.way:
        case Way.KEYS | Way.PARTITIONS | Way.STAGES:
            used = looked_up = [query.columns[position] for position in choice.keys]
        case Way.MERGE:
            used = list(query.columns)
            # A strategy for first rows has no aggregates and looks up no keys.
            looked_up = [
                each
                for each, function in zip(used, choice.merge, strict=choice.first is None)
                if function is None
            ]
        case _:
            return None
    if (maps := _incomparable(looked_up)) is not None:
        return maps
    rounded = [each.name for each in used if not is_exact(each.type, stored.get(each.name.lower(), ""))]
    return f"column {rounded[0]} is stored in another type than the query returns" if rounded else None


def _incomparable(columns: Iterable[Column]) -> str | None:
    """Return which of some *columns* has values that SQL cannot compare, or None if it can compare all."""
    maps = (each.name for each in columns if not can_be_looked_up(each.type))
    return next((f"values of column {name} cannot be compared" for name in maps), None)


def forecasts_of(query: ShapedQuery, definition: TableDefinition) -> tuple[RefreshForecast, ...]:
    """Return a forecast for each source, in the order in which the query reads them."""

    def strategy(source: str, kind: ChangeKind) -> Strategy:
        choice = strategy_for(query, by_reading(query, {source: SourceChange(kind=kind)}), definition)
        if choice.way is not Way.RECOMPUTE or not isinstance(query.shape.stages, str):
            return choice
        return replace(choice, reason=f"{choice.reason}; no stages: {query.shape.stages}")

    return tuple(
        RefreshForecast(
            source=source,
            appends=strategy(source, ChangeKind.APPENDS),
            rows=strategy(source, ChangeKind.ROWS),
        )
        for source in dict.fromkeys(query.readings)
    )


def forecast_lines(
    reader: ChangeReader, definition: TableDefinition, sources: Iterable[SourceVersion]
) -> dict[str, tuple[str, ...]]:
    """Return the lines of EXPLAIN about future changes, keyed by source name."""
    query = shaped_query(reader, definition)
    if isinstance(query, str):
        return {source.name: (f"any change:    {Way.RECOMPUTE}: {query}",) for source in sources}
    # With 'full', users also see what 'auto' would do.
    computes_all = strategy_option(definition) == FULL

    def shown(strategy: Strategy) -> str:
        return f"{Way.RECOMPUTE} ('{AUTO}' has {strategy})" if computes_all else str(strategy)

    return {
        each.source: (f"any change:    {shown(each.rows)}",)
        if each.appends == each.rows
        else (f"appended rows: {shown(each.appends)}", f"changed rows:  {shown(each.rows)}")
        for each in forecasts_of(query, definition)
    }


def shaped_query(reader: ChangeReader, definition: TableDefinition) -> ShapedQuery | str:
    """Return the shape of a table's query, or the reason why scheduled refreshes never apply changes."""
    if definition.date_formatters:
        return "each schedule time refreshes the partitions of its date-formatters, all rows of them"
    return reader.read_shape(query_of(definition))


def recomputed_warnings(
    reader: ChangeReader, identifier: TableIdentifier, definition: TableDefinition, vector: SourceVector
) -> tuple[str, ...]:
    """Return a warning, with the reason, if each refresh of a CONTINUOUS table recomputes all rows."""
    if definition.refresh_mode is not RefreshMode.CONTINUOUS:
        return ()
    within = definition.interval.words
    if vector.unstable or vector.unversioned:
        why = (
            vector.unstable
            or f"source {vector.unversioned[0]} has no versions, so its changes cannot be detected"
        )
        return (f"{identifier} computes all rows every {within}: {why}.",)
    query = shaped_query(reader, definition)
    if strategy_option(definition) != FULL and not isinstance(query, str):
        forecasts = forecasts_of(query, definition)
        if not forecasts or any(each.is_maintained for each in forecasts):
            return ()
        query = "; ".join(dict.fromkeys(each.appends.reason for each in forecasts))
    why = query if isinstance(query, str) else f"its '{STRATEGY}' is '{FULL}'"
    return (
        f"{identifier} computes all rows after each change of a source, at most once within {within}: {why}.",
    )


def refuse_unmaintainable(
    reader: ChangeReader, identifier: TableIdentifier, definition: TableDefinition
) -> None:
    """Raise DefinitionInvalid if the strategy is 'incremental' but no change could ever be applied."""
    if strategy_option(definition) != INCREMENTAL:
        return
    query = shaped_query(reader, definition)
    if isinstance(query, str):
        reason = query
    else:
        forecasts = forecasts_of(query, definition)
        if not forecasts or any(each.is_maintained for each in forecasts):
            return
        reason = "; ".join(dict.fromkeys(each.appends.reason for each in forecasts))
    raise DefinitionInvalid(
        f"Option {STRATEGY} of {identifier} cannot be '{INCREMENTAL}', since no change of a source could be "
        f"applied: {reason}. Use '{AUTO}' or '{FULL}', which compute all rows.",
        table=str(identifier),
        key=STRATEGY,
        value=INCREMENTAL,
    )
