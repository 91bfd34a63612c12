"""What SHOW REFRESHES and EXPLAIN REFRESH answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial

from mt_core.model.formatter import show_schedule_time
from mt_core.model.freshness import grid_of
from mt_core.model.partition import WHOLE, PartitionValues, Scope
from mt_core.model.run import RefreshRun, RunKind, RunStatus
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.rowset import BIGINT, INT, STRING, Column, RowSet
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.intents import get_table
from mt_core.tables.refresh.named_partitions import scope_named
from mt_core.tables.refresh.requests import refuse_initializing
from mt_core.tables.registry import Transaction, in_transaction
from mt_core.tables.runs.decide import decide
from mt_core.tables.runs.due import due_share, scope_of
from mt_core.tables.runs.periodic import with_spans
from mt_core.tables.services import TableServices, query_of

LEDGER_LIMIT = 20
# A page takes some ten milliseconds, in which nobody else has the registry.
PAGE = 500


class RefreshReports:
    """Reads ledger, sources and storage; changes nothing."""

    def __init__(self, services: TableServices) -> None:
        self._services = services

    def show(self, identifier: TableIdentifier | None, status: RunStatus | None, limit: int | None) -> RowSet:
        """SHOW REFRESHES: the run ledger, newest first."""
        registry, wanted = self._services.registry, LEDGER_LIMIT if limit is None else limit
        table_id = in_transaction(registry, lambda tx: get_table(tx, identifier).table_id) if identifier else None
        rows: list[list[object]] = []
        before: str | None = None
        while len(rows) < wanted:
            number = min(PAGE, wanted - len(rows))
            read = partial(_page, table_id=table_id, status=status, before=before, number=number)
            page = in_transaction(registry, read)
            rows += page
            if len(page) < number:
                break
            before = str(page[-1][0])
        return RowSet(columns=_LEDGER_COLUMNS, rows=rows)

    def explain(self, identifier: TableIdentifier, partitions: Mapping[str, PartitionValues]) -> RowSet:
        """EXPLAIN REFRESH: what a refresh would do now, and why, without doing it."""
        table = self._services.intents.current(identifier)
        refuse_initializing(table)
        scope, why = self._scope_now(table, partitions)
        engine, definition = self._services.engine, table.definition
        vector = engine.read_vector(query_of(definition))
        decision = decide(
            kind=RunKind.PERIODIC,
            scope=scope,
            vector=vector,
            fingerprint=fingerprint_of(definition),
            history=engine.ancestors(engine.load(identifier)),
        )
        lines = [
            f"Refresh of {identifier}",
            f"  scope:    {scope} ({why})",
            f"  decision: {decision.name}: {decision.reason}",
            f"  writes:   {decision.scope if decision.scope is not None else 'nothing'}",
            f"  pinned:   {'no: ' + vector.unpinnable if vector.unpinnable else 'yes'}",
            *(f"  source:   {source_text(source.to_json())}" for source in vector.sources),
        ]
        return RowSet(columns=(Column(name="result"),), rows=[["\n".join(lines)]])

    def _scope_now(self, table: MaterializedTable, partitions: Mapping[str, PartitionValues]) -> tuple[Scope, str]:
        if partitions:
            return scope_named(self._services, table, partitions), "as asked"
        if table.rebuild_due is not None or not table.definition.date_formatters:
            return WHOLE, "rebuild due" if table.rebuild_due else "no date-formatter"

        now, known = in_transaction(self._services.registry, lambda tx: (tx.now(), with_spans(tx, table)))
        share = due_share(known, now, max_partitions=self._services.settings.max_partitions, without=table.failing)
        if share.points:
            return scope_of(table, share.points), f"{len(share.points)} grid points are due"
        latest = grid_of(table.definition.freshness, table.definition.zone).at_or_before(now)
        return scope_of(table, [latest]), "nothing is due; the latest grid point again"


_LEDGER_COLUMNS = (
    Column(name="refresh"),
    Column(name="materialized table"),
    Column(name="kind"),
    Column(name="schedule time"),
    Column(name="partitions"),
    Column(name="status"),
    Column(name="decision"),
    Column(name="reason"),
    Column(name="attempt", type=INT),
    Column(name="requested at"),
    Column(name="started at"),
    Column(name="finished at"),
    Column(name="rows", type=BIGINT),
    Column(name="snapshot"),
    Column(name="error", type=STRING),
    Column(name="requested by"),
)


def _page(
    tx: Transaction, *, table_id: str | None, status: RunStatus | None, before: str | None, number: int
) -> list[list[object]]:
    statuses = None if status is None else (status,)
    runs = tx.runs.newest(table_id=table_id, statuses=statuses, before=before, limit=number)
    # Only those shown: thousands of tables would keep everybody else out of the registry for a while.
    tables = {each: tx.tables.get(each) for each in {run.table_id for run in runs}}
    return [_ledger_row(run, tables[run.table_id]) for run in runs]


def _ledger_row(run: RefreshRun, table: MaterializedTable | None) -> list[object]:
    zone = table.definition.zone if table else "UTC"

    def shown(instant: datetime | None) -> str | None:
        return show_schedule_time(instant, zone) if instant else None

    reason = f"covered by {run.covered_by}" if run.covered_by else run.reason
    return [
        run.run_id,
        str(table.identifier) if table else f"dropped ({run.table_id})",
        run.kind.value,
        shown(run.schedule_time),
        str(run.scope),
        run.status.value,
        run.decision,
        reason,
        run.attempt,
        shown(run.requested_at),
        shown(run.started_at),
        shown(run.finished_at),
        run.rows,
        run.snapshot_id,
        run.error,
        run.requested_by,
    ]


def source_text(source: Mapping[str, object]) -> str:
    version = source["version"]
    if not isinstance(version, Mapping):
        return f"{source['name']} ({source['kind']}, no versions)"
    shown = version.get("snapshot", version.get("hash"))
    return f"{source['name']} ({source['kind']}, version {shown})"
