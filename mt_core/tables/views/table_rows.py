"""The rows of SHOW MATERIALIZED TABLES and DESCRIBE.

This module only formats: it turns a `TableView` or `TableDetails`, which has already been read, into rows,
and reads nothing itself. The short form of SHOW fits on one line; EXTENDED has all facts, with times to the
second. All times are in the table's time zone, in which its partitions are also named. If a value could not
be read, the reason replaces it, so that one failure never hides the other facts about a table, or other
tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta

from mt_core.base.identifiers import display_name
from mt_core.base.rowset import BOOLEAN, Column, RowSet
from mt_core.base.secrets import masked
from mt_core.errors import MtError, StorageMissing
from mt_core.model.formatter import show_schedule_time
from mt_core.model.storage import StorageMetadata
from mt_core.model.table import MaterializedTable, RefreshMode, TableDefinition
from mt_core.sql.flink.spark_types import in_flink
from mt_core.sql.statements import ShowMaterializedTables
from mt_core.tables.pages import UnreadableTable
from mt_core.tables.views.brief import brief_scope, brief_text, brief_time
from mt_core.tables.views.continuous_job import ContinuousJob
from mt_core.tables.views.lateness import Fault
from mt_core.tables.views.run_view import RunView
from mt_core.tables.views.table_view import Health, TableDetails, TableView
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


def table_rows(views: Iterable[TableView | UnreadableTable], statement: ShowMaterializedTables) -> RowSet:
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
        _unreadable_row(view) if isinstance(view, UnreadableTable) else _table_row(view, extended)
        for view in views
    ]
    if not extended:
        known = [{**row, "last error": brief_text(row["last error"])} for row in known]
    rows: list[list[object]] = [[row.get(name) for name in names] for row in known]
    return RowSet(columns=tuple(Column(name=name) for name in names), rows=rows)


def _unreadable_row(table: UnreadableTable) -> dict[str, str | None]:
    return {
        "materialized table": table.identifier.name,
        "namespace": display_name(table.identifier.parts[:-1]),
        "health": Health.FAILING.value,
        "last error": f"cannot be read: {table.error}",
    }


def _table_row(view: TableView, extended: bool) -> dict[str, str | None]:
    table, done, ended, workflow = view.table, view.done, view.ended, view.workflow
    zone, cadence, next_run = table.definition.zone, table.definition.cadence, view.next_run
    shown = show_schedule_time if extended else brief_time
    row = {
        "materialized table": table.identifier.name,
        "namespace": display_name(table.identifier.parts[:-1]),
        "refresh mode": table.definition.refresh_mode.value,
        "freshness": str(cadence) if extended else cadence.words,
        "status": table.status.value,
        "stale for": _staleness(view, extended),
        "health": view.health.value if view.health else None,
        "last error": (ended.error if ended else None) or table.doubt or _doubted_text(table),
        "next run": shown(next_run, zone) if next_run is not None else None,
    }
    if not extended:
        return row
    return row | {
        "last refresh": show_schedule_time(done.published_at, zone) if done and done.published_at else None,
        "last result": ended.status.value if ended else None,
        "status by": table.status_by + (f": {table.status_reason}" if table.status_reason else ""),
        "status at": show_schedule_time(table.status_at, zone),
        "as of": show_schedule_time(workflow.as_of, zone) if workflow and workflow.as_of else None,
        "late by": f"{age_text(late.by)} ({late.fault})" if (late := view.lateness) is not None else None,
    }


def _staleness(view: TableView, extended: bool = True) -> str | None:
    """Return the age of the source versions that were last read.

    If *extended*, it is followed by the partitions to which that refresh was restricted.
    """
    if view.done is None or view.stale_for is None:
        return None
    age, scope = age_text(view.stale_for), view.done.scope
    return f"{age} (only {brief_scope(scope)})" if extended and scope.specs is not None else age


def _staleness_text(view: TableView) -> str:
    """Return `_staleness` and, if there is one, the upstream table that read its sources at that time."""
    age = _staleness(view)
    if age is None or view.data_as_of is None:
        return "never refreshed"
    if view.data_as_of.by is None:
        return age
    when = show_schedule_time(view.data_as_of.until, view.table.definition.zone)
    return f"{age}: {view.data_as_of.by} read its sources at {when}"


def age_text(age: timedelta) -> str:
    """Format a duration in the largest unit in which it is at least two."""
    seconds = int(age.total_seconds())
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h" if seconds < 172800 else f"{seconds // 86400} d"


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
    report = details.workflow.report if details.workflow else None
    last = details.last
    facts = {
        "identifier": str(table.identifier),
        "table id": table.table_id,
        "status": f"{table.status}, by {table.status_by} at {show_schedule_time(table.status_at, zone)}"
        + (f": {table.status_reason}" if table.status_reason else ""),
        "refresh mode": f"{definition.refresh_mode} ({definition.logical_refresh_mode})",
        "freshness": str(definition.cadence),
        "schedule": _schedule_text(definition),
        "next run": show_schedule_time(report.next_run, zone) if report and report.next_run else "none",
        "workflow": _workflow_text(details.workflow, table)
        + (details.objection and f": {details.objection}"),
        **({} if (job := ContinuousJob.of(table)) is None else {"job": job.job_id}),
        "last run": _run_text(last) if last else "none",
        **({} if details.waiting is None else {"waiting": _waiting_text(details.waiting)}),
        "decision": f"{last.run.decision}: {last.reason}" if last and last.run.decision else "none",
        "stale for": _staleness_text(details.view),
        "late by": "no"
        if (late := details.view.lateness) is None
        else f"{age_text(late.by)}: {_FAULTS[late.fault]}",
        "sources": "none read yet" if details.sources is None else "; ".join(map(str, details.sources)),
        "storage": _storage_text(details.storage, table),
        "rebuild due": "yes" if table.rebuild_due else "no",
        **({} if table.doubt is None else {"doubt": table.doubt}),
        **({} if (doubted := _doubted_text(table)) is None else {"partitions in doubt": doubted}),
        "options": json.dumps(masked(definition.options), sort_keys=True),
        "dynamic options": json.dumps(masked(table.dynamic_options), sort_keys=True),
        "query": definition.original_query,
    }
    if details.engine_trouble:
        facts["engine"] = details.engine_trouble
    if table.intent is not None:
        facts["under way"] = (
            f"{table.intent.command} ({table.intent.step}) since {table.intent.started_at:%H:%M:%S}"
        )
    return facts


def _doubted_text(table: MaterializedTable) -> str | None:
    """Return which partitions are in doubt, why, and what to do about it, or None if none are."""
    if table.doubted is None:
        return None
    name = f"MATERIALIZED TABLE {table.identifier}"
    return (
        f"it is not known whether the rows of their sources changed in {table.doubted}: "
        f"{table.doubted.reason}; VERIFY {name} compares them, ALTER {name} REFRESH computes them again"
    )


def _schedule_text(definition: TableDefinition) -> str:
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
