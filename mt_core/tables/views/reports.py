"""What SHOW, DESCRIBE and EXPLAIN answer about materialized tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from mt_core.errors import MtError, StorageMissing, TableNotFound
from mt_core.identifiers import Namespace, display_name
from mt_core.model.formatter import show_schedule_time
from mt_core.model.run import DONE, RefreshRun, RunStatus
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.rowset import BOOLEAN, Column, RowSet
from mt_core.secrets import masked
from mt_core.sql.flink.spark_types import in_flink
from mt_core.sql.statements import ShowMaterializedTables
from mt_core.tables.intents import get_table
from mt_core.tables.keeper import KeeperState
from mt_core.tables.pages import on_each_page
from mt_core.tables.registry import Transaction, in_transaction
from mt_core.tables.services import TableServices
from mt_core.tables.table_commands import CommandContext
from mt_core.tables.views.health import ENDED, health_of, last_run, staleness
from mt_core.tables.views.refresh_reports import source_text
from mt_core.tables.workflows.observer import ObservedWorkflow, WorkflowObserver

# As Flink's clients read them.
DESCRIBE_COLUMNS = (
    Column(name="name"),
    Column(name="type"),
    Column(name="null", type=BOOLEAN),
    Column(name="key"),
    Column(name="extras"),
    Column(name="watermark"),
)
_WILDCARDS = {"%": ".*", "_": "."}
_TEXT = tuple[str, ...]
TABLE_COLUMNS: _TEXT = (
    "materialized table",
    "namespace",
    "refresh mode",
    "freshness",
    "status",
    "last refresh",
    "stale for",
    "health",
    "last result",
    "last error",
    "status by",
    "status at",
    "as of",
)


class Reports:
    """Reads registry, scheduler and storage; changes nothing but the status that people gave a table in the scheduler."""

    def __init__(self, services: TableServices) -> None:
        self._services = services
        self._observer = WorkflowObserver(services)

    # -------------------------------------------------------------------------------------------------------- tables

    def show_tables(self, statement: ShowMaterializedTables, context: CommandContext) -> RowSet:
        """SHOW MATERIALIZED TABLES."""
        place = self._place(statement.namespace, context)

        def wanted(_tx: Transaction, tables: Iterable[MaterializedTable]) -> list[MaterializedTable]:
            return [table for table in tables if _in(table, place) and _like(table, statement)]

        registry = self._services.registry
        now = in_transaction(registry, lambda tx: tx.now())
        observed = self._observe(on_each_page(registry, wanted), now)

        def rows(tx: Transaction, tables: Iterable[MaterializedTable]) -> list[list[object]]:
            return [self._table_row(tx, table, observed.get(table.table_id)) for table in wanted(tx, tables)]

        columns = tuple(Column(name=name) for name in TABLE_COLUMNS)
        return RowSet(columns=columns, rows=on_each_page(registry, rows))

    def _place(self, parts: Sequence[str] | None, context: CommandContext) -> tuple[str, Namespace] | None:
        """Return catalog and namespace that *parts* mean, None for all; raises TableNotFound when they do not exist."""
        if not parts:
            return None
        catalog, *levels = parts if len(parts) > 1 else (context.catalog, *parts)
        namespace = tuple(levels)
        if not self._services.engine.namespace_exists(catalog, namespace):
            raise TableNotFound(
                f"Namespace {display_name((catalog, *namespace))} does not exist; SHOW DATABASES IN {catalog} lists those "
                "there are."
            )
        return catalog, namespace

    def _observe(self, tables: Sequence[MaterializedTable], now: datetime) -> dict[str, ObservedWorkflow]:
        """Return what the scheduler says of *tables*, which were read at *now* or later, by their ids."""
        return self._observer.observe(tables, now) if tables else {}

    def _observe_one(self, identifier: TableIdentifier) -> dict[str, ObservedWorkflow]:
        now, table = in_transaction(self._services.registry, lambda tx: (tx.now(), get_table(tx, identifier)))
        return self._observe([table], now)

    def _table_row(self, tx: Transaction, table: MaterializedTable, workflow: ObservedWorkflow | None) -> list[object]:
        done, ended = last_run(tx, table, DONE), last_run(tx, table, ENDED)
        zone, now = table.definition.zone, tx.now()
        return [
            table.identifier.name,
            display_name(table.identifier.parts[:-1]),
            table.definition.refresh_mode.value,
            str(table.definition.freshness),
            table.status.value,
            show_schedule_time(done.finished_at, zone) if done and done.finished_at else None,
            staleness(done, now) if done else None,
            health_of(table, ended=ended, done=done, now=now),
            ended.status.value if ended else None,
            ended.error if ended else None,
            table.status_by,
            show_schedule_time(table.status_at, zone),
            show_schedule_time(workflow.as_of, zone) if workflow and workflow.as_of else None,
        ]

    # ------------------------------------------------------------------------------------------------------ describe

    def describe(self, identifier: TableIdentifier, *, extended: bool) -> RowSet:
        """DESCRIBE with Flink's columns; EXTENDED adds key/value rows."""
        observed = self._observe_one(identifier) if extended else {}
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
        names = list(DESCRIBE_COLUMNS)
        if any(comments):
            names.append(Column(name="comment"))
            rows = [[*row, comment] for row, comment in zip(rows, comments, strict=True)]
        if extended:
            blank: list[object] = [None] * (len(names) - 2)
            rows.append(["", "", *blank])
            rows.append(["# Materialized table", "", *blank])
            rows.extend([key, value, *blank] for key, value in self._facts(table, observed.get(table.table_id)))
        return RowSet(columns=tuple(names), rows=rows)

    def _facts(self, table: MaterializedTable, workflow: ObservedWorkflow | None) -> list[tuple[str, str]]:
        definition, zone = table.definition, table.definition.zone
        runs = in_transaction(self._services.registry, lambda tx: tx.runs.newest(table_id=table.table_id, limit=50))
        next_run = workflow.report.next_run if workflow and workflow.report else None
        last = next((run for run in runs if run.status is not RunStatus.QUEUED), None)
        facts = {
            "identifier": str(table.identifier),
            "table id": table.table_id,
            "status": f"{table.status}, by {table.status_by} at {show_schedule_time(table.status_at, zone)}",
            "refresh mode": f"{definition.refresh_mode} ({definition.logical_refresh_mode})",
            "freshness": str(definition.freshness),
            "schedule": f"every {definition.freshness.words} in {zone}",
            "next run": show_schedule_time(next_run, zone) if next_run else "none",
            "workflow": _workflow_text(workflow, table) + self._problem_of(workflow, table),
            "last run": _run_text(last, zone) if last else "none",
            "decision": f"{last.decision}: {last.reason}" if last and last.decision else "none",
            "sources": _sources_text(next((run for run in runs if run.vector), None)),
            "storage": self._storage_text(table),
            "rebuild due": "yes" if table.rebuild_due else "no",
            "options": json.dumps(masked(definition.options), sort_keys=True),
            "dynamic options": json.dumps(masked(table.dynamic_options), sort_keys=True),
            "query": definition.original_query,
        }
        if trouble := self._services.engine.trouble():
            facts["engine"] = trouble
        if table.intent is not None:
            facts["under way"] = (
                f"{table.intent.command} ({table.intent.step}) since {table.intent.started_at:%H:%M:%S}"
            )
        return list(facts.items())

    def _problem_of(self, workflow: ObservedWorkflow | None, table: MaterializedTable) -> str:
        """Return why a workflow that is missing will not be made again, if that is so."""
        missing = workflow is not None and workflow.report is not None and workflow.report.state is KeeperState.MISSING
        problem = self._services.keeper.objection(table) if missing else ""
        return f": {problem}" if problem else ""

    def _storage_text(self, table: MaterializedTable) -> str:
        try:
            metadata = self._services.engine.load(table.identifier)
        except StorageMissing:
            return f"missing; ALTER MATERIALIZED TABLE {table.identifier} RESUME makes it again"
        except MtError as error:
            return f"unknown: {error}"
        return f"{metadata.location} (snapshot {metadata.main})"


def _in(table: MaterializedTable, place: tuple[str, Namespace] | None) -> bool:
    return place is None or (table.identifier.catalog, table.identifier.namespace) == place


def _like(table: MaterializedTable, statement: ShowMaterializedTables) -> bool:
    if statement.like is None:
        return True
    pattern = "".join(_WILDCARDS.get(letter, re.escape(letter)) for letter in statement.like)
    return bool(re.fullmatch(pattern, table.identifier.name, re.DOTALL)) is not statement.negated


def _workflow_text(workflow: ObservedWorkflow | None, table: MaterializedTable) -> str:
    if workflow is None or workflow.report is None:
        return f"unknown: {workflow.error if workflow and workflow.error else 'it is being changed'}"
    text = f"{workflow.report.state} in {table.scheduler}"
    if workflow.as_of is None:
        return text
    why = f" ({workflow.error})" if workflow.error else ""
    return f"{text} as of {show_schedule_time(workflow.as_of, table.definition.zone)}{why}"


def _run_text(run: RefreshRun, zone: str) -> str:
    when = show_schedule_time(run.started_at or run.requested_at, zone)
    outcome = f": {run.error}" if run.error else ""
    return f"{run.status} {run.kind} {run.scope} at {when} (attempt {run.attempt}){outcome}"


def _sources_text(run: RefreshRun | None) -> str:
    if run is None or not run.vector:
        return "none read yet"
    return "; ".join(source_text(source) for source in run.vector)
