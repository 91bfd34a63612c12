"""EXPLAIN REFRESH: what a refresh would do now, and why, without carrying it out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mt_core.base.plural import plural
from mt_core.incremental.strategy import Way
from mt_core.model.partition import WHOLE, PartitionValues, Scope
from mt_core.model.storage import StorageMetadata
from mt_core.model.table import MaterializedTable, RefreshMode, TableDefinition, TableIdentifier
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.engine import RefreshEngine, SourceVector
from mt_core.tables.refresh.change_plan import RECOMPUTED, ChangesUntil, plan_change
from mt_core.tables.refresh.cycles import refuse_new_cycle
from mt_core.tables.refresh.forecast import forecast_lines
from mt_core.tables.refresh.late_data import LateData, LateRows
from mt_core.tables.refresh.named_partitions import scope_named
from mt_core.tables.refresh.requests import refuse_initializing
from mt_core.tables.refresh.streaming_only import refuse_refresh
from mt_core.tables.registry import in_transaction
from mt_core.tables.runs.decide import Decision, decide
from mt_core.tables.runs.due import due_share, scope_of
from mt_core.tables.services import TableServices, query_of
from mt_core.tables.views.run_view import SourceView


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshPlan:
    """What a refresh of a table would do.

    `why` explains the scope. `how` says how the rows would be computed and how many bytes this would read. It
    is None if nothing would be written, or if all rows of partitions would. `late` names other partitions
    with late rows, None if there are none or they are unknown. `details` has, for each source, what has
    changed since the last refresh, and how future changes would be applied.
    """

    table: TableIdentifier
    scope: Scope
    why: str
    decision: Decision
    how: str | None
    vector: SourceVector
    details: Mapping[str, Sequence[str]]
    late: str | None = None

    def __str__(self) -> str:
        lines = [
            f"Refresh of {self.table}",
            f"  scope:    {self.scope} ({self.why})",
            f"  decision: {self.decision.name}: {self.decision.reason}",
            *([] if self.how is None else [f"  strategy: {self.how}"]),
            *([] if self.late is None else [f"  late:     {self.late}"]),
            f"  writes:   {self.decision.scope if self.decision.scope is not None else 'nothing'}",
            f"  pinned:   {'no: ' + self.vector.unpinnable if self.vector.unpinnable else 'yes'}",
            *source_lines(self.vector, self.details),
        ]
        return "\n".join(lines)


def source_lines(vector: SourceVector, details: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the lines of EXPLAIN about the sources of a query; *details* are lines keyed by source name."""
    for source in vector.to_json():
        yield f"  source:   {SourceView.of(source)}"
        yield from (f"    {detail}" for detail in details.get(source["name"], ()))


def plan_refresh(
    services: TableServices, identifier: TableIdentifier, partitions: Mapping[str, PartitionValues]
) -> RefreshPlan:
    """Return the plan of a refresh of *partitions*, or of everything that is due if *partitions* is empty.

    Raises TableInitializing if the table is being created, and DefinitionInvalid if it reads itself.
    """
    table = services.intents.current(identifier)
    refuse_initializing(table)
    refuse_refresh(table, "EXPLAIN REFRESH")
    scope, why = _scope_now(services, table, partitions)
    vector = services.engine.sources.read_vector(query_of(table.definition))
    refuse_new_cycle(services.registry, services.engine.sources, identifier, vector)
    metadata = services.engine.metadata.load(identifier)
    late = LateData()
    if not partitions and not scope.whole:
        rows = LateRows(
            ledger=services.ledger, engine=services.engine, table=table, metadata=metadata, vector=vector
        )
        now = in_transaction(services.registry, lambda tx: tx.now())
        latest = table.definition.grid().at_or_before(now)
        late = rows.search(
            scope, until=latest, most=services.settings.max_partitions, job_id=services.new_id()
        )
    decision = decide(
        asked=None,
        scope=scope.union(late.taken),
        vector=vector,
        fingerprint=fingerprint_of(table.definition),
        history=services.engine.metadata.ancestors(metadata),
        doubted=table.doubt is not None,
    )
    details = _details(services.engine, table.definition, metadata, vector)
    return RefreshPlan(
        table=identifier,
        scope=scope,
        why=why,
        decision=decision,
        how=_how(services, table, decision, metadata, vector),
        vector=vector,
        late=late.message,
        details=details,
    )


def _details(
    engine: RefreshEngine, definition: TableDefinition, metadata: StorageMetadata, vector: SourceVector
) -> Mapping[str, Sequence[str]]:
    """Return, by source name, what has changed since the last refresh, and strategies for future changes."""
    changed = _changed(engine, definition, metadata, vector)
    ahead = forecast_lines(engine.changes, definition, vector.sources)
    return {
        source.name: (*changed.get(source.name, ()), *ahead.get(source.name, ())) for source in vector.sources
    }


def _changed(
    engine: RefreshEngine, definition: TableDefinition, metadata: StorageMetadata, vector: SourceVector
) -> dict[str, tuple[str, ...]]:
    """Return, by source name, what has changed since the refresh that wrote the newest rows.

    Returns nothing if the table was never refreshed.
    """
    newest = next(
        (snapshot for snapshot in engine.metadata.ancestors(metadata) if snapshot.describes_rows), None
    )
    if newest is None or newest.sources is None:
        return {}
    changes = engine.changes.changes_since(
        query_of(definition), SourceVector.from_json(json.loads(newest.sources)), vector
    )
    if isinstance(changes, str):
        return {source.name: (f"since then:    unknown: {changes}",) for source in vector.sources}
    return {name: (f"since then:    {change}",) for name, change in changes.changes.items()}


def _how(
    services: TableServices,
    table: MaterializedTable,
    decision: Decision,
    metadata: StorageMetadata,
    vector: SourceVector,
) -> str | None:
    if decision.scope is None:
        return None
    until = ChangesUntil(
        reader=services.engine.changes,
        job_id=services.new_id(),
        query=query_of(table.definition),
        vector=vector,
    )
    plan = plan_change(services.registry, until, table, metadata, decision=decision)
    if plan.maintenance is not None:
        changes = plan.maintenance.changes
        read = "some" if changes.changed_bytes is None else f"{changes.changed_bytes:,}"
        strategy = plan.maintenance.strategy
        joined = changes.joined_by(strategy)
        more = "" if joined.is_empty else f"; {joined}"
        return f"{strategy}; reads {read} of {changes.source_bytes:,} bytes{more}"
    if not decision.scope.whole:
        return None
    size = services.engine.changes.source_bytes(query_of(table.definition), vector)
    reads = "" if size is None else f"; reads all {size:,} bytes"
    kept = "; keeps states" if plan.stages is not None else ""
    why = "" if plan.reason is None else plan.reason.removeprefix(RECOMPUTED)
    return f"{Way.RECOMPUTE}{why}{kept}{reads}"


def _scope_now(
    services: TableServices, table: MaterializedTable, partitions: Mapping[str, PartitionValues]
) -> tuple[Scope, str]:
    if partitions:
        return scope_named(services, table, partitions), "as asked"
    if table.rebuild_due is not None or not table.definition.date_formatters:
        continuous = table.definition.refresh_mode is RefreshMode.CONTINUOUS
        return (
            WHOLE,
            "rebuild due" if table.rebuild_due else "continuous" if continuous else "no date-formatter",
        )

    now = in_transaction(services.registry, lambda tx: tx.now())
    share = due_share(table, now, max_partitions=services.settings.max_partitions, without=table.failing)
    if count := len(share.points):
        return scope_of(
            table, share.points
        ), f"{count} {plural(count, 'schedule time is', 'schedule times are')} due"
    latest = table.definition.grid().at_or_before(now)
    return scope_of(table, [latest]), "no schedule time is due; this is the latest one"
