"""Outlook: what a change of each source of a query would lead to, whatever it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mt_core.errors import DefinitionInvalid
from mt_core.maintenance.changes import ChangeKind, SourceChange
from mt_core.maintenance.strategy import Strategy, Way, choose
from mt_core.model.table import RefreshMode, TableDefinition, TableIdentifier
from mt_core.tables.definition.options import AUTO, FULL, INCREMENTAL, STRATEGY
from mt_core.tables.engine import RefreshEngine, ShapedQuery
from mt_core.tables.services import query_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The strategies after a change of one source alone: rows that are appended, and rows that are updated or deleted."""

    source: str
    appends: Strategy
    rows: Strategy

    @property
    def is_maintained(self) -> bool:
        """Whether some change is applied."""
        return {self.appends.way, self.rows.way} != {Way.RECOMPUTE}


def strategy_for(query: ShapedQuery, changes: Mapping[str, SourceChange]) -> Strategy:
    """Return how changes of sources, by their names, are applied."""
    return choose(
        query.shape,
        {number: changes[source] for number, source in enumerate(query.readings) if source in changes},
        columns=[column.name for column in query.columns],
        relations=query.readings,
    )


def outlook_of(query: ShapedQuery) -> tuple[Outlook, ...]:
    """Return the outlook of each source, in the order of the query."""
    appends, rows = SourceChange(kind=ChangeKind.APPENDS), SourceChange(kind=ChangeKind.ROWS)
    return tuple(
        Outlook(
            source=source,
            appends=strategy_for(query, {source: appends}),
            rows=strategy_for(query, {source: rows}),
        )
        for source in dict.fromkeys(query.readings)
    )


def shaped_query(engine: RefreshEngine, definition: TableDefinition) -> ShapedQuery | str:
    """Return the shape of a table's query, or why no refresh on schedule applies a change."""
    if definition.refresh_mode is RefreshMode.FULL and definition.date_formatters:
        return "each schedule time refreshes the partitions of its date-formatters, all rows of them"
    return engine.read_shape(query_of(definition))


def refuse_unmaintainable(engine: RefreshEngine, identifier: TableIdentifier, definition: TableDefinition) -> None:
    """Raise DefinitionInvalid for a table that is to apply changes at any cost, and could apply none."""
    if definition.options.get(STRATEGY) != INCREMENTAL:
        return
    query = shaped_query(engine, definition)
    if isinstance(query, str):
        reason = query
    else:
        outlooks = outlook_of(query)
        if not outlooks or any(each.is_maintained for each in outlooks):
            return
        reason = "; ".join(dict.fromkeys(each.appends.reason for each in outlooks))
    raise DefinitionInvalid(
        f"Option {STRATEGY} of {identifier} cannot be '{INCREMENTAL}', since no change of a source could be applied: {reason}. "
        f"Use '{AUTO}' or '{FULL}', which compute all rows.",
        table=str(identifier),
        key=STRATEGY,
        value=INCREMENTAL,
    )
