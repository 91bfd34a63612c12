"""What SHOW, DESCRIBE and EXPLAIN answer about materialized tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from mt_core.errors import MtError, StorageMissing
from mt_core.model.formatter import show_schedule_time
from mt_core.model.freshness import grid_of
from mt_core.model.partition import WHOLE, PartitionSpec, Scope
from mt_core.model.run import DONE, RefreshRun, RunKind, RunStatus
from mt_core.model.table import MaterializedTable, Namespace, TableIdentifier
from mt_core.rowset import BIGINT, BOOLEAN, INT, STRING, Column, RowSet
from mt_core.secrets import masked
from mt_core.sql.spark_types import in_flink
from mt_core.sql.statements import ShowMaterializedTables
from mt_core.tables.commands import CommandContext
from mt_core.tables.decide import SUSPENDED, decide
from mt_core.tables.definition import check_partition_spec
from mt_core.tables.due import due_share, scope_of
from mt_core.tables.fingerprint import fingerprint_of
from mt_core.tables.glance import Glance, Glimpse
from mt_core.tables.intents import found
from mt_core.tables.ledger import in_transaction
from mt_core.tables.pages import on_each_page
from mt_core.tables.periodic import with_spans
from mt_core.tables.ports import Transaction
from mt_core.tables.requests import refuse_initializing
from mt_core.tables.services import TableServices, query_of

LEDGER_LIMIT = 20
_WILDCARDS = {"%": ".*", "_": "."}
_TEXT = tuple[str, ...]
TABLE_COLUMNS: _TEXT = (
    "materialized table",
    "refresh mode",
    "freshness",
    "status",
    "last refresh",
    "stale for",
    "status by",
    "status at",
    "as of",
)


class Reports:
    """Reads registry, scheduler and storage; changes nothing but the status that people gave a table in the scheduler."""

    def __init__(self, services: TableServices) -> None:
        self._services = services
        self._glance = Glance(services)

    # -------------------------------------------------------------------------------------------------------- tables

    def show_tables(self, statement: ShowMaterializedTables, context: CommandContext) -> RowSet:
        """SHOW MATERIALIZED TABLES."""
        catalog, namespace = _place(statement.namespace, context)

        def wanted(_tx: Transaction, tables: Iterable[MaterializedTable]) -> list[MaterializedTable]:
            return [table for table in tables if _in(table, catalog, namespace) and _like(table, statement)]

        registry = self._services.registry
        now = in_transaction(registry, lambda tx: tx.now())
        glimpses = self._glimpses(on_each_page(registry, wanted), now)

        def rows(tx: Transaction, tables: Iterable[MaterializedTable]) -> list[list[object]]:
            return [self._table_row(tx, table, glimpses.get(table.table_id)) for table in wanted(tx, tables)]

        columns = tuple(Column(name=name) for name in TABLE_COLUMNS)
        return RowSet(columns=columns, rows=on_each_page(registry, rows))

    def _glimpses(self, tables: Sequence[MaterializedTable], now: datetime) -> dict[str, Glimpse]:
        """Return what the scheduler says of *tables*, which were read at *now* or later, by their ids."""
        return self._glance.at(tables, now) if tables else {}

    def _glimpse_of(self, identifier: TableIdentifier) -> dict[str, Glimpse]:
        now, table = in_transaction(self._services.registry, lambda tx: (tx.now(), found(tx, identifier)))
        return self._glimpses([table], now)

    def _table_row(self, tx: Transaction, table: MaterializedTable, glimpse: Glimpse | None) -> list[object]:
        done = _last_done(tx, table)
        zone = table.definition.zone
        return [
            table.identifier.name,
            table.definition.refresh_mode.value,
            str(table.definition.freshness),
            table.status.value,
            show_schedule_time(done.finished_at, zone) if done and done.finished_at else None,
            _age(tx.now() - fresh_as_of(done)) if done else None,
            table.status_by,
            show_schedule_time(table.status_at, zone),
            show_schedule_time(glimpse.as_of, zone) if glimpse and glimpse.as_of else None,
        ]

    # ------------------------------------------------------------------------------------------------------ describe

    def describe(self, identifier: TableIdentifier, *, extended: bool) -> RowSet:
        """DESCRIBE with Flink's columns; EXTENDED adds key/value rows."""
        glimpses = self._glimpse_of(identifier) if extended else {}
        table = self._services.intents.current(identifier)
        keys = set(table.definition.partition_keys)
        rows: list[list[object]] = [
            [
                column.name,
                in_flink(column.type),
                column.nullable,
                None,
                "PARTITION KEY" if column.name in keys else None,
                None,
            ]
            for column in table.definition.columns
        ]
        comments = [column.comment for column in table.definition.columns]
        names: list[Column] = [
            Column(name="name"),
            Column(name="type"),
            Column(name="null", type=BOOLEAN),
            Column(name="key"),
            Column(name="extras"),
            Column(name="watermark"),
        ]
        if any(comments):
            names.append(Column(name="comment"))
            rows = [[*row, comment] for row, comment in zip(rows, comments, strict=True)]
        if extended:
            blank: list[object] = [None] * (len(names) - 2)
            rows.append(["", "", *blank])
            rows.append(["# Materialized table", "", *blank])
            rows.extend([key, value, *blank] for key, value in self._facts(table, glimpses.get(table.table_id)))
        return RowSet(columns=tuple(names), rows=rows)

    def _facts(self, table: MaterializedTable, glimpse: Glimpse | None) -> list[tuple[str, str]]:
        definition, zone = table.definition, table.definition.zone
        runs = in_transaction(self._services.registry, lambda tx: tx.runs(table_id=table.table_id, limit=50))
        next_run = glimpse.workflow.next_run if glimpse and glimpse.workflow else None
        last = next((run for run in runs if run.status is not RunStatus.QUEUED), None)
        facts = {
            "identifier": str(table.identifier),
            "table id": table.table_id,
            "status": f"{table.status}, by {table.status_by} at {show_schedule_time(table.status_at, zone)}",
            "refresh mode": f"{definition.refresh_mode} ({definition.logical_refresh_mode})",
            "freshness": str(definition.freshness),
            "schedule": f"every {definition.freshness.words} in {zone}",
            "next run": show_schedule_time(next_run, zone) if next_run else "none",
            "workflow": _workflow_text(glimpse, table),
            "last run": _run_text(last, zone) if last else "none",
            "decision": f"{last.decision}: {last.reason}" if last and last.decision else "none",
            "sources": _sources_text(last),
            "storage": self._storage_text(table),
            "rebuild due": "yes" if table.rebuild_due else "no",
            "options": json.dumps(masked(definition.options), sort_keys=True),
            "dynamic options": json.dumps(masked(table.dynamic_options), sort_keys=True),
            "query": definition.original_query,
        }
        if table.intent is not None:
            facts["under way"] = (
                f"{table.intent.command} ({table.intent.step}) since {table.intent.started_at:%H:%M:%S}"
            )
        return list(facts.items())

    def _storage_text(self, table: MaterializedTable) -> str:
        try:
            metadata = self._services.engine.load(table.identifier)
        except StorageMissing:
            return f"missing; ALTER MATERIALIZED TABLE {table.identifier} RESUME makes it again"
        except MtError as error:
            return f"unknown: {error}"
        return f"{metadata.location} (snapshot {metadata.main})"

    # -------------------------------------------------------------------------------------------------------- ledger

    def show_refreshes(self, identifier: TableIdentifier | None, limit: int | None) -> RowSet:
        """SHOW REFRESHES: the run ledger, newest first."""

        def read(tx: Transaction) -> list[list[object]]:
            table_id = found(tx, identifier).table_id if identifier else None
            runs = tx.runs(table_id=table_id, limit=LEDGER_LIMIT if limit is None else limit)
            # Only those shown: thousands of tables would keep everybody else out of the registry for a while.
            tables = {table_id: tx.table(table_id) for table_id in {run.table_id for run in runs}}
            return [_ledger_row(run, tables[run.table_id]) for run in runs]

        return RowSet(columns=_LEDGER_COLUMNS, rows=in_transaction(self._services.registry, read))

    def explain_refresh(self, identifier: TableIdentifier, partitions: Mapping[str, str]) -> RowSet:
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
            fingerprint=fingerprint_of(definition, table.dynamic_options),
            history=engine.ancestors(engine.load(identifier)),
        )
        lines = [
            f"Refresh of {identifier}",
            f"  scope:    {scope} ({why})",
            f"  decision: {decision.name}: {decision.reason}",
            f"  writes:   {decision.scope if decision.scope is not None else 'nothing'}",
            f"  pinned:   {'no: ' + vector.unpinnable if vector.unpinnable else 'yes'}",
            *(f"  source:   {_source_text(source.to_json())}" for source in vector.sources),
        ]
        return RowSet(columns=(Column(name="result"),), rows=[["\n".join(lines)]])

    def _scope_now(self, table: MaterializedTable, partitions: Mapping[str, str]) -> tuple[Scope, str]:
        if partitions:
            spec = check_partition_spec(table.identifier, table.definition, partitions)
            return Scope.of([PartitionSpec.of(spec)]), "as asked"
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
)


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
    ]


def _last_done(tx: Transaction, table: MaterializedTable) -> RefreshRun | None:
    """The newest refresh that is done; those skipped as suspended, of which there may be many, are none."""
    for limit in (10, None):
        runs = tx.runs(table_id=table.table_id, statuses=DONE, limit=limit)
        for run in runs:
            if run.decision != SUSPENDED:
                return run
        if len(runs) < 10:
            break
    return None


def fresh_as_of(run: RefreshRun) -> datetime:
    """Return the instant at which the table was true after *run*: when it read its sources."""
    return run.started_at or run.requested_at


def _age(age: timedelta) -> str:
    seconds = max(0, int(age.total_seconds()))
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h" if seconds < 172800 else f"{seconds // 86400} d"


def _place(parts: Sequence[str] | None, context: CommandContext) -> tuple[str, Namespace]:
    if not parts:
        return context.catalog, context.namespace
    if len(parts) == 1:
        return context.catalog, tuple(parts)
    return parts[0], tuple(parts[1:])


def _in(table: MaterializedTable, catalog: str, namespace: Namespace) -> bool:
    return (table.identifier.catalog, table.identifier.namespace) == (catalog, namespace)


def _like(table: MaterializedTable, statement: ShowMaterializedTables) -> bool:
    if statement.like is None:
        return True
    pattern = "".join(_WILDCARDS.get(letter, re.escape(letter)) for letter in statement.like)
    return bool(re.fullmatch(pattern, table.identifier.name, re.DOTALL)) is not statement.negated


def _workflow_text(glimpse: Glimpse | None, table: MaterializedTable) -> str:
    if glimpse is None or glimpse.workflow is None:
        return f"unknown: {glimpse.error if glimpse and glimpse.error else 'it is being changed'}"
    text = f"{glimpse.workflow.state} in {table.scheduler}"
    if glimpse.as_of is None:
        return text
    why = f" ({glimpse.error})" if glimpse.error else ""
    return f"{text} as of {show_schedule_time(glimpse.as_of, table.definition.zone)}{why}"


def _run_text(run: RefreshRun, zone: str) -> str:
    when = show_schedule_time(run.started_at or run.requested_at, zone)
    outcome = f": {run.error}" if run.error else ""
    return f"{run.status} {run.kind} {run.scope} at {when} (attempt {run.attempt}){outcome}"


def _sources_text(run: RefreshRun | None) -> str:
    if run is None or not run.vector:
        return "none read yet"
    return "; ".join(_source_text(source) for source in run.vector)


def _source_text(source: Mapping[str, object]) -> str:
    version = source["version"]
    if not isinstance(version, Mapping):
        return f"{source['name']} ({source['kind']}, no versions)"
    shown = version.get("snapshot", version.get("hash"))
    return f"{source['name']} ({source['kind']}, version {shown})"
