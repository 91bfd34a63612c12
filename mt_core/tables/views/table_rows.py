"""The rows of SHOW MATERIALIZED TABLES and DESCRIBE.

This module only formats: it turns `TableFacts` or `TableDetails`, which have already been read, into rows,
and reads nothing itself. The short form of SHOW fits on one line; EXTENDED has all facts, with times to the
second. All times are in the table's time zone, in which its partitions are also named. If a value could not
be read, the reason replaces it, so that one failure never hides the other facts about a table, or other
tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from mt_core.base.ages import age_text
from mt_core.base.identifiers import display_name
from mt_core.base.rowset import BOOLEAN, Column, RowSet
from mt_core.base.secrets import masked
from mt_core.errors import MtError, StorageMissing
from mt_core.model.formatter import show_schedule_time
from mt_core.model.storage import StorageMetadata
from mt_core.model.table import MaterializedTable, RefreshMode, TableDefinition
from mt_core.sql.flink.spark_types import in_flink
from mt_core.sql.statements import ShowMaterializedTables
from mt_core.tables.brief import brief_scope, brief_text, brief_time
from mt_core.tables.overview.facts import TableFacts
from mt_core.tables.overview.lateness import Fault, State
from mt_core.tables.overview.standing import doubted_text
from mt_core.tables.pages import UnreadableTable
from mt_core.tables.views.continuous_job import ContinuousJob
from mt_core.tables.views.run_view import RunView
from mt_core.tables.views.table_details import TableDetails
from mt_core.tables.workflows.observer import ObservedWorkflow

# The columns that Flink's clients expect.
DESCRIBE_COLUMNS = (
    Column(name="name"),
    Column(name="type"),
    Column(name="null", type=BOOLEAN),
    Column(name="key"),
    Column(name="extras"),
    Column(name="watermark"),
)
_SHORT_COLUMNS = (
    "materialized table",
    "namespace",
    "refresh mode",
    "freshness",
    "status",
    "health",
    "stale for",
    "next run",
    "last error",
)
_COLUMNS_IN_NAMESPACE = tuple(name for name in _SHORT_COLUMNS if name != "namespace")
_TABLE_COLUMNS = (
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
    "late by",
    "next run",
)
_FAULTS = {
    Fault.SOURCE: "a materialized table that it reads is late",
    Fault.WRITER: "its sources have no new rows",
    Fault.QUEUE: "its refresh waits for a worker, or did for most of its time",
    Fault.QUERY: "its refreshes fail, or take too long",
    Fault.SCHEDULE: "no refresh was requested",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTable:
    """The facts about a table at *now*, and its workflow, None if that was not observed."""

    facts: TableFacts
    now: datetime
    workflow: ObservedWorkflow | None


def table_rows(tables: Iterable[ListedTable | UnreadableTable], statement: ShowMaterializedTables) -> RowSet:
    """Return the rows of *statement*; an unreadable table has only its name and a reason in `last error`."""
    extended = statement.extended
    names = (
        _TABLE_COLUMNS
        if extended
        else _SHORT_COLUMNS
        if statement.namespace is None
        else _COLUMNS_IN_NAMESPACE
    )
    known = [
        _unreadable_row(table) if isinstance(table, UnreadableTable) else _table_row(table, extended)
        for table in tables
    ]
    if not extended:
        known = [{**row, "last error": brief_text(row["last error"])} for row in known]
    rows: list[list[object]] = [[row.get(name) for name in names] for row in known]
    return RowSet(columns=tuple(Column(name=name) for name in names), rows=rows)


def _unreadable_row(table: UnreadableTable) -> dict[str, str | None]:
    return {
        "materialized table": table.identifier.name,
        "namespace": display_name(table.identifier.parts[:-1]),
        "health": State.FAILING.value,
        "last error": f"cannot be read: {table.error}",
    }


def _table_row(table: ListedTable, extended: bool) -> dict[str, str | None]:
    facts, last, workflow, zone = table.facts, table.facts.last, table.workflow, table.facts.zone
    shown = show_schedule_time if extended else brief_time
    row = {
        "materialized table": facts.identifier.name,
        "namespace": display_name(facts.identifier.parts[:-1]),
        "refresh mode": facts.mode.value,
        "freshness": facts.cadence if extended else facts.freshness,
        "status": facts.status.value,
        "stale for": _staleness(facts, table.now, extended),
        "health": facts.state.value,
        "last error": (last.error if last is not None else None) or facts.doubt,
        "next run": shown(facts.next_run, zone) if facts.next_run is not None else None,
    }
    if not extended:
        return row
    return row | {
        "last refresh": show_schedule_time(facts.refreshed_at, zone) if facts.refreshed_at else None,
        "last result": last.status.value if last is not None else None,
        "status by": facts.status_by + (f": {facts.status_reason}" if facts.status_reason else ""),
        "status at": show_schedule_time(facts.status_at, zone),
        "as of": show_schedule_time(workflow.as_of, zone) if workflow and workflow.as_of else None,
        "late by": overdue_text(facts, table.now),
    }


def overdue_text(facts: TableFacts, now: datetime) -> str | None:
    """Return how long the table has been late, or its sources silent, with the cause; None if neither."""
    overdue_by = facts.overdue_by(now)
    return None if overdue_by is None else f"{age_text(overdue_by)} ({facts.fault})"


def _staleness(facts: TableFacts, now: datetime, extended: bool = True) -> str | None:
    """Return the age of the source versions that were last read, None if nothing was ever read.

    If *extended*, it is followed by the partitions to which that refresh was restricted.
    """
    if facts.shows is None or facts.refreshed_at is None:
        return None
    age = age_text(max(timedelta(0), now - facts.shows))
    return f"{age} (only {brief_scope(facts.only)})" if extended and facts.only.specs is not None else age


def _staleness_text(facts: TableFacts, now: datetime) -> str:
    """Return `_staleness` and, if there is one, the upstream table that read its sources at that time."""
    age = _staleness(facts, now)
    if age is None or facts.shows is None:
        return "never refreshed"
    if facts.shows_by is None:
        return age
    return f"{age}: {facts.shows_by} read its sources at {show_schedule_time(facts.shows, facts.zone)}"


def column_rows(table: MaterializedTable, details: TableDetails | None) -> RowSet:
    """Return the rows of DESCRIBE, with Flink's columns; *details* become the key/value rows of EXTENDED."""
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
    columns = list(DESCRIBE_COLUMNS)
    if any(comments):
        columns.append(Column(name="comment"))
        rows = [[*row, comment] for row, comment in zip(rows, comments, strict=True)]
    if details is not None:
        blank: list[object] = [None] * (len(columns) - 2)
        rows.append(["", "", *blank])
        rows.append(["# Materialized table", "", *blank])
        rows.extend([key, value, *blank] for key, value in _facts(details).items())
    return RowSet(columns=tuple(columns), rows=rows)


def _facts(details: TableDetails) -> dict[str, str]:
    table, definition, zone = details.table, details.table.definition, details.table.definition.zone
    facts = details.facts
    report = details.workflow.report if details.workflow else None
    last = details.last
    rows = {
        "identifier": str(table.identifier),
        "table id": table.table_id,
        "status": f"{table.status}, by {table.status_by} at {show_schedule_time(table.status_at, zone)}"
        + (f": {table.status_reason}" if table.status_reason else ""),
        "refresh mode": f"{definition.refresh_mode} ({definition.logical_refresh_mode})",
        "freshness": str(definition.cadence),
        "schedule": schedule_text(definition),
        "next run": show_schedule_time(report.next_run, zone) if report and report.next_run else "none",
        "workflow": _workflow_text(details.workflow, table)
        + (details.objection and f": {details.objection}"),
        **({} if (job := ContinuousJob.of(table)) is None else {"job": job.job_id}),
        "last run": _run_text(last) if last else "none",
        **({} if details.waiting is None else {"waiting": _waiting_text(details.waiting)}),
        "decision": f"{last.run.decision}: {last.reason}" if last and last.run.decision else "none",
        "stale for": "never refreshed" if facts is None else _staleness_text(facts, details.now),
        "health": "unknown" if facts is None else _health_text(facts),
        "late by": "no" if facts is None else _lateness_text(facts, details.now),
        "sources": "none read yet" if details.sources is None else "; ".join(map(str, details.sources)),
        "storage": _storage_text(details.storage, table),
        "rebuild due": "yes" if table.rebuild_due else "no",
        **({} if table.doubt is None else {"doubt": table.doubt}),
        **({} if (doubted := doubted_text(table)) is None else {"partitions in doubt": doubted}),
        "options": json.dumps(masked(definition.options), sort_keys=True),
        "dynamic options": json.dumps(masked(table.dynamic_options), sort_keys=True),
        "query": definition.original_query,
    }
    if details.engine_trouble:
        rows["engine"] = details.engine_trouble
    if table.intent is not None:
        rows["under way"] = (
            f"{table.intent.command} ({table.intent.step}) since {table.intent.started_at:%H:%M:%S}"
        )
    return rows


def _health_text(facts: TableFacts) -> str:
    return facts.state.value + (f": {facts.because}" if facts.because else "")


def _lateness_text(facts: TableFacts, now: datetime) -> str:
    """Return by how much the table is late and why, or "no"."""
    late_by = facts.overdue_by(now)
    return "no" if late_by is None or facts.fault is None else f"{age_text(late_by)}: {_FAULTS[facts.fault]}"


def schedule_text(definition: TableDefinition) -> str:
    """Return how often a table is refreshed, or within which time of a change."""
    if definition.streams:
        return f"within {definition.interval.words} of a new row"
    if definition.refresh_mode is RefreshMode.CONTINUOUS:
        return f"within {definition.interval.words} of a change"
    return f"{definition.cadence.every} in {definition.zone}"


def _workflow_text(workflow: ObservedWorkflow | None, table: MaterializedTable) -> str:
    if workflow is None or workflow.report is None:
        return f"unknown: {workflow.error if workflow and workflow.error else 'it is being changed'}"
    if table.definition.streams:
        return (
            f"none: a streaming job adds the rows of {', '.join(table.definition.streams)} "
            f"({workflow.report.state})"
        )
    if table.definition.refresh_mode is RefreshMode.CONTINUOUS:
        return f"none: the gateway watches its sources ({workflow.report.state})"
    text = f"{workflow.report.state} in {table.scheduler}"
    if workflow.as_of is None:
        return text
    why = f" ({workflow.error})" if workflow.error else ""
    return f"{text} as of {show_schedule_time(workflow.as_of, table.definition.zone)}{why}"


def _run_text(view: RunView) -> str:
    run = view.run
    when = show_schedule_time(run.started_at or run.requested_at, view.zone)
    outcome = f": {run.error}" if run.error else ""
    how = f", by {run.strategy}" if run.strategy else ""
    return f"{run.status} {view.kind} {run.scope} at {when} (attempt {run.attempt}{how}){outcome}"


def _waiting_text(view: RunView) -> str:
    run = view.run
    until = show_schedule_time(run.waits_until, view.zone) if run.waits_until else ""
    return f"{view.kind} {run.scope} {view.reason}, until {until} at most"


def _storage_text(storage: StorageMetadata | MtError, table: MaterializedTable) -> str:
    match storage:
        case StorageMissing():
            return f"missing; ALTER MATERIALIZED TABLE {table.identifier} RESUME recreates it"
        case MtError():
            return f"unknown: {storage}"
        case _:
            return f"{storage.location} (snapshot {storage.main})"
