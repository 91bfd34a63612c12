"""Outlook: what a change of each source of a query would lead to, whatever it costs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from mt_core.errors import DefinitionInvalid
from mt_core.incremental.changes import ChangeKind, SourceChange, can_be_looked_up
from mt_core.incremental.merging import inexact_sum
from mt_core.incremental.shape import QueryShape
from mt_core.incremental.strategy import Strategy, Way, choose, choose_partitions
from mt_core.model.table import RefreshMode, TableDefinition, TableIdentifier
from mt_core.tables.definition.options import AUTO, DOUBLES, EXACT, FULL, INCREMENTAL, MERGED, STRATEGY
from mt_core.tables.definition.shape import is_exact
from mt_core.tables.engine import ChangeReader, ShapedQuery, SourceVector, SourceVersion
from mt_core.tables.services import query_of

# Types of partition columns whose values a text names exactly.
_NAMED = re.compile(r"string|tinyint|smallint|int|bigint|date|decimal\(.*\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The strategies after a change of one source alone: rows that are appended,
    and rows that are updated or deleted.
    """

    source: str
    appends: Strategy
    rows: Strategy

    @property
    def is_maintained(self) -> bool:
        """Whether some change is applied."""
        return {self.appends.way, self.rows.way} != {Way.RECOMPUTE}


def strategy_option(definition: TableDefinition) -> str:
    """Return `refresh.strategy` of a table, or its default."""
    return definition.options.get(STRATEGY, AUTO)


def strategy_for(
    query: ShapedQuery, changes: Mapping[str, SourceChange], definition: TableDefinition
) -> Strategy:
    """Return how changes of sources, by their names, are applied to the rows of a table."""
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


def _chosen(shape: QueryShape, query: ShapedQuery, changes: Mapping[str, SourceChange]) -> Strategy:
    columns = [column.name for column in query.columns]
    return choose(shape, by_reading(query, changes), columns=columns, relations=query.readings)


def partitions_for(
    query: ShapedQuery, changes: Mapping[str, SourceChange], definition: TableDefinition
) -> Strategy | None:
    """Return the strategy that replaces the partitions of a table which *changes* of sources touch;
    None if there is none.
    """
    stored = {column.name: column.type.lower() for column in definition.columns}
    if not definition.partition_keys or not all(
        _NAMED.fullmatch(stored.get(key, "")) for key in definition.partition_keys
    ):
        return None
    choice = touched_by(query, changes, definition.partition_keys)
    return choice if choice.way is Way.PARTITIONS and _obstacle(choice, query, definition) is None else None


def touched_by(query: ShapedQuery, changes: Mapping[str, SourceChange], names: Iterable[str]) -> Strategy:
    """Return how the partitions by the columns *names* are found that *changes* of sources,
    by their names, touch.
    """
    columns = [column.name for column in query.columns]
    positions = {column.lower(): position for position, column in enumerate(columns)}
    return choose_partitions(
        query.shape,
        by_reading(query, changes),
        [positions[name.lower()] for name in names],
        columns=columns,
        relations=query.readings,
    )


def by_reading(query: ShapedQuery, changes: Mapping[str, SourceChange]) -> dict[int, SourceChange]:
    """Return changes of sources by the numbers of the places where *query* reads them."""
    return {number: changes[source] for number, source in enumerate(query.readings) if source in changes}


def _is_finer(query: ShapedQuery, choice: Strategy, partitions: Strategy) -> bool:
    """Return whether keys tell fewer rows than their partitions;
    columns with the lineage of another have its values.
    """
    lineages = [query.shape.lineage[position] for position in partitions.keys]
    return any(
        position not in partitions.keys and (not lineage or lineage not in lineages)
        for position, lineage in ((key, query.shape.lineage[key]) for key in choice.keys)
    )


def _inexact(
    choice: Strategy, query: ShapedQuery, changes: Mapping[str, SourceChange], definition: TableDefinition
) -> str | None:
    """Return which sum of doubles *choice* would combine though it has to be exact; None if there is none.

    A large value that is taken out leaves nothing of the small ones that were added to it,
    so this is never done.
    """
    if choice.way is not Way.MERGE or choice.first is not None:
        return None
    grows = all(change.kind <= ChangeKind.APPENDS for change in changes.values())
    if grows and definition.options.get(DOUBLES, EXACT) == MERGED:
        return None
    return inexact_sum(choice.merge, {column.name: column.type for column in query.columns})


def _obstacle(choice: Strategy, query: ShapedQuery, definition: TableDefinition) -> str | None:
    """Return why the table's stored rows are not those of the query that *choice* needs to find again;
    None if they are.
    """
    stored = {column.name.lower(): column.type for column in definition.columns}
    match choice.way:
        case Way.KEYS | Way.PARTITIONS:
            used = looked_up = [query.columns[position] for position in choice.keys]
        case Way.MERGE:
            used = list(query.columns)
            # First rows have no aggregates, and are not looked up.
            looked_up = [
                each
                for each, function in zip(used, choice.merge, strict=choice.first is None)
                if function is None
            ]
        case Way.SIGNED:
            used, looked_up = [], list(definition.columns)
        case _:
            return None
    maps = [each.name for each in looked_up if not can_be_looked_up(each.type)]
    if maps:
        return f"values of column {maps[0]} cannot be compared"
    rounded = [each.name for each in used if not is_exact(each.type, stored.get(each.name.lower(), ""))]
    return f"column {rounded[0]} is stored in another type than the query gives" if rounded else None


def outlook_of(query: ShapedQuery, definition: TableDefinition) -> tuple[Outlook, ...]:
    """Return the outlook of each source, in the order of the query."""
    appends, rows = SourceChange(kind=ChangeKind.APPENDS), SourceChange(kind=ChangeKind.ROWS)
    return tuple(
        Outlook(
            source=source,
            appends=strategy_for(query, {source: appends}, definition),
            rows=strategy_for(query, {source: rows}, definition),
        )
        for source in dict.fromkeys(query.readings)
    )


def outlook_lines(
    reader: ChangeReader, definition: TableDefinition, sources: Iterable[SourceVersion]
) -> dict[str, tuple[str, ...]]:
    """Return for each source, by its name, what EXPLAIN says of changes to come."""
    query = shaped_query(reader, definition)
    if isinstance(query, str):
        return {source.name: (f"any change:    {Way.RECOMPUTE}: {query}",) for source in sources}
    # A table that computes all rows may still want to know what it could do.
    computes_all = strategy_option(definition) == FULL

    def led_to(strategy: Strategy) -> str:
        return f"{Way.RECOMPUTE} ('{AUTO}' has {strategy})" if computes_all else str(strategy)

    return {
        each.source: (f"appended rows: {led_to(each.appends)}", f"changed rows:  {led_to(each.rows)}")
        for each in outlook_of(query, definition)
    }


def shaped_query(reader: ChangeReader, definition: TableDefinition) -> ShapedQuery | str:
    """Return the shape of a table's query, or why no refresh on schedule applies a change."""
    if definition.date_formatters:
        return "each schedule time refreshes the partitions of its date-formatters, all rows of them"
    return reader.read_shape(query_of(definition))


def recomputed_warnings(
    reader: ChangeReader, identifier: TableIdentifier, definition: TableDefinition, vector: SourceVector
) -> tuple[str, ...]:
    """Warn when a continuous refresh computes all rows again and again, with the reason."""
    if definition.refresh_mode is not RefreshMode.CONTINUOUS:
        return ()
    within = definition.interval.words
    if vector.unstable or vector.unversioned:
        why = (
            vector.unstable
            or f"source {vector.unversioned[0]} has no versions, so that nobody can tell when it changes"
        )
        return (f"{identifier} computes all rows every {within}: {why}.",)
    query = shaped_query(reader, definition)
    if strategy_option(definition) != FULL and not isinstance(query, str):
        outlooks = outlook_of(query, definition)
        if not outlooks or any(each.is_maintained for each in outlooks):
            return ()
        query = "; ".join(dict.fromkeys(each.appends.reason for each in outlooks))
    why = query if isinstance(query, str) else f"its '{STRATEGY}' is '{FULL}'"
    return (
        f"{identifier} computes all rows after each change of a source, at most once within {within}: {why}.",
    )


def refuse_unmaintainable(
    reader: ChangeReader, identifier: TableIdentifier, definition: TableDefinition
) -> None:
    """Raise DefinitionInvalid for a table that is to apply changes at any cost, and could apply none."""
    if strategy_option(definition) != INCREMENTAL:
        return
    query = shaped_query(reader, definition)
    if isinstance(query, str):
        reason = query
    else:
        outlooks = outlook_of(query, definition)
        if not outlooks or any(each.is_maintained for each in outlooks):
            return
        reason = "; ".join(dict.fromkeys(each.appends.reason for each in outlooks))
    raise DefinitionInvalid(
        f"Option {STRATEGY} of {identifier} cannot be '{INCREMENTAL}', since no change of a source could be "
        f"applied: {reason}. Use '{AUTO}' or '{FULL}', which compute all rows.",
        table=str(identifier),
        key=STRATEGY,
        value=INCREMENTAL,
    )
