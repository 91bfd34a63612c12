"""The change plan of a run: how what changed in the sources is applied to the rows that the table has, or why it is not."""

from __future__ import annotations

import json

from mt_core.maintenance.changes import INCOMPARABLE
from mt_core.maintenance.cost import Sizes, dearer_than_recomputing
from mt_core.maintenance.strategy import Strategy, Way
from mt_core.model.storage import Snapshot
from mt_core.model.table import RefreshMode, TableDefinition
from mt_core.tables.definition.options import AUTO, FULL, INCREMENTAL, STRATEGY
from mt_core.tables.definition.shape import is_exact
from mt_core.tables.engine import Maintenance, RefreshEngine, SourceChanges, SourceVector
from mt_core.tables.refresh.outlook import strategy_for
from mt_core.tables.services import query_of


def plan_change(
    engine: RefreshEngine, definition: TableDefinition, *, base: Snapshot | None, main: str | None, vector: SourceVector
) -> tuple[Maintenance | None, str | None]:
    """Return how a run applies what changed since *base*, whose rows *main* has; None with the reason for a recomputation.

    The reason is in words for users, None if the definition asks for a recomputation, or there is no *base*.
    """
    # A continuous refresh that computed all rows for each change would not keep up with its sources.
    default = AUTO if definition.refresh_mode is RefreshMode.CONTINUOUS else FULL
    strategy = definition.options.get(STRATEGY, default)
    if strategy == FULL or base is None or main is None:
        return None, None
    since = SourceVector.from_json(json.loads(base.sources or "[]"))
    changes = engine.changes_since(query_of(definition), since, vector)
    if isinstance(changes, str):
        return None, f"recomputed: {changes}"
    choice = strategy_for(changes, changes.changes)
    if choice.way is Way.RECOMPUTE:
        return None, f"recomputed: {choice.reason}"
    obstacle = _obstacle(choice, changes, definition)
    if obstacle is not None:
        return None, f"recomputed: {obstacle}"
    dear = dearer_than_recomputing(choice, _sizes(changes, base))
    if dear is not None and strategy != INCREMENTAL:
        return None, f"recomputed: {dear}"
    return Maintenance(strategy=choice, changes=changes, since=since, base=main), choice.reason


def _obstacle(choice: Strategy, changes: SourceChanges, definition: TableDefinition) -> str | None:
    """Return why the table's stored rows are not those of the query that *choice* needs to find again; None if they are."""
    stored = {column.name.lower(): column.type for column in definition.columns}
    match choice.way:
        case Way.KEYS:
            used = [changes.columns[position] for position in choice.keys]
        case Way.MERGE:
            used = list(changes.columns)
        case Way.SIGNED:
            maps = [each.name for each in definition.columns if INCOMPARABLE.search(each.type.lower())]
            return f"values of column {maps[0]} cannot be compared" if maps else None
        case _:
            return None
    rounded = [each.name for each in used if not is_exact(each.type, stored.get(each.name.lower(), ""))]
    return f"column {rounded[0]} is stored in another type than the query gives" if rounded else None


def _sizes(changes: SourceChanges, base: Snapshot) -> Sizes:
    return Sizes(
        changed_bytes=sum(change.size or 0 for change in changes.changes.values()),
        changed_rows=sum(change.rows or 0 for change in changes.changes.values()),
        source_bytes=changes.source_bytes,
        table_bytes=base.total_bytes,
        table_rows=base.total_rows,
    )
