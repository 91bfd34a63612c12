"""EXPLAIN REFRESH: what a refresh would do now, and why, without doing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mt_core.model.freshness import grid_of
from mt_core.model.partition import WHOLE, PartitionValues, Scope
from mt_core.model.run import RunKind
from mt_core.model.table import MaterializedTable, RefreshMode, TableIdentifier
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.engine import SourceVector
from mt_core.tables.refresh.change_plan import plan_change
from mt_core.tables.refresh.circles import refuse_closed_circle
from mt_core.tables.refresh.named_partitions import scope_named
from mt_core.tables.refresh.requests import refuse_initializing
from mt_core.tables.registry import in_transaction
from mt_core.tables.runs.decide import Decision, decide
from mt_core.tables.runs.due import due_share, scope_of
from mt_core.tables.runs.periodic import with_spans
from mt_core.tables.services import TableServices, query_of
from mt_core.tables.views.run_view import SourceView


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshPlan:
    """What a refresh of a table would do: `why` it has this scope, the decision about it, and the sources it would read.

    `strategy` says how what changed would be applied, or why all rows would be computed; None where the table always does that.
    """

    table: TableIdentifier
    scope: Scope
    why: str
    decision: Decision
    strategy: str | None
    vector: SourceVector

    def __str__(self) -> str:
        lines = [
            f"Refresh of {self.table}",
            f"  scope:    {self.scope} ({self.why})",
            f"  decision: {self.decision.name}: {self.decision.reason}",
            *([] if self.strategy is None else [f"  strategy: {self.strategy}"]),
            f"  writes:   {self.decision.scope if self.decision.scope is not None else 'nothing'}",
            f"  pinned:   {'no: ' + self.vector.unpinnable if self.vector.unpinnable else 'yes'}",
            *(f"  source:   {SourceView.of(source)}" for source in self.vector.to_json()),
        ]
        return "\n".join(lines)


def plan_refresh(
    services: TableServices, identifier: TableIdentifier, partitions: Mapping[str, PartitionValues]
) -> RefreshPlan:
    """Return the plan of a refresh of *partitions*, without any of what is due.

    Raises TableInitializing, and DefinitionInvalid for a table that reads itself.
    """
    table = services.intents.current(identifier)
    refuse_initializing(table)
    scope, why = _scope_now(services, table, partitions)
    vector = services.engine.read_vector(query_of(table.definition))
    refuse_closed_circle(services.registry, services.engine, identifier, vector)
    metadata = services.engine.load(identifier)
    decision = decide(
        kind=RunKind.PERIODIC,
        scope=scope,
        vector=vector,
        fingerprint=fingerprint_of(table.definition),
        history=services.engine.ancestors(metadata),
    )
    _, strategy = plan_change(services.engine, table.definition, base=decision.base, main=metadata.main, vector=vector)
    return RefreshPlan(table=identifier, scope=scope, why=why, decision=decision, strategy=strategy, vector=vector)


def _scope_now(
    services: TableServices, table: MaterializedTable, partitions: Mapping[str, PartitionValues]
) -> tuple[Scope, str]:
    if partitions:
        return scope_named(services, table, partitions), "as asked"
    if table.rebuild_due is not None or not table.definition.date_formatters:
        continuous = table.definition.refresh_mode is RefreshMode.CONTINUOUS
        return WHOLE, "rebuild due" if table.rebuild_due else "continuous" if continuous else "no date-formatter"

    now, current = in_transaction(services.registry, lambda tx: (tx.now(), with_spans(tx, table)))
    share = due_share(current, now, max_partitions=services.settings.max_partitions, without=table.failing)
    if share.points:
        return scope_of(table, share.points), f"{len(share.points)} grid points are due"
    latest = grid_of(table.definition.freshness, table.definition.zone).at_or_before(now)
    return scope_of(table, [latest]), "nothing is due; the latest grid point again"
