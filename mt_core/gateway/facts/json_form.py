"""The JSON of facts about tables, refreshes, jobs and sessions.

Instants remain datetimes, which the response encodes; durations are seconds. A member whose value is unknown
or absent is null, never missing. Passwords in texts of users are masked, because the role `read` may read all
of this, and handles of sessions are replaced by ids, because a handle gives access to its session.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from mt_core.base.background import LoopState
from mt_core.base.secrets import masked, without_passwords
from mt_core.errors import FactUnreadable
from mt_core.gateway.facts import schemas
from mt_core.model.freshness_hour import FreshnessHour
from mt_core.model.job import Job
from mt_core.model.run import Batch
from mt_core.model.table import Column, MaterializedTable, TableIdentifier
from mt_core.sessions.session import OperationView, SessionView
from mt_core.tables.overview.facts import LastRun, Read, TableFacts
from mt_core.tables.overview.graph import Node
from mt_core.tables.overview.history import CurvePoint, Mark
from mt_core.tables.overview.lateness import State
from mt_core.tables.pages import UnreadableTable
from mt_core.tables.views.run_view import RunView, SourceView, UnreadableRun

JSON = dict[str, Any]
# Enough to tell the sessions of a gateway apart.
_ID_LENGTH = 16


# --------------------------------------------------------------------------------------------------- tables


def table_json(table: TableFacts | UnreadableTable, now: datetime) -> JSON:
    """Return the JSON of a table at *now*.

    Of one that cannot be read, only its name and the reason are known.
    """
    if isinstance(table, UnreadableTable):
        return _unreadable_json(table)
    return {
        "id": table.table_id,
        **_name_json(table.identifier),
        "mode": table.mode,
        "status": table.status,
        "state": table.state,
        "freshness": table.freshness,
        "freshness_seconds": table.freshness_s,
        "zone": table.zone,
        "shows": table.shows,
        "shows_by": _text(table.shows_by),
        "late_at": table.late_at,
        "late_by": _seconds(table.late_by(now)),
        "silent_at": table.silent_at,
        "silent_by": _seconds(table.silent_by(now)),
        "inherited": table.inherited,
        "fault": table.fault,
        "below": _text(table.below),
        "because": table.because,
        "doubt": table.doubt,
        "last": None if table.last is None else _last_json(table.last),
        "next": table.next_run,
        "running": table.running,
        "queued": table.queued,
        "reads": [_read_json(read) for read in table.reads],
        "status_by": table.status_by,
        "status_reason": table.status_reason,
        "suspended_by": table.suspended_by,
        "status_at": table.status_at,
    }


def id_of(table: TableFacts | UnreadableTable) -> str | None:
    """Return the id of a table, None if the table cannot be read and its id is unknown."""
    if isinstance(table, TableFacts):
        return table.table_id
    error = table.error
    return str(error.columns["table_id"]) if isinstance(error, FactUnreadable) else None


def _unreadable_json(table: UnreadableTable) -> JSON:
    return {
        **dict.fromkeys(schemas.TABLE),
        "id": id_of(table),
        **_name_json(table.identifier),
        "state": State.FAILING,
        "inherited": False,
        "because": f"cannot be read: {table.error}",
        "running": False,
        "queued": 0,
        "reads": [],
    }


def details_json(table: MaterializedTable) -> JSON:
    """Return what is only shown of a single table."""
    definition = table.definition
    return {
        "created_at": table.created_at,
        "comment": definition.comment,
        "columns": [_column_json(column) for column in definition.columns],
        "partition_keys": list(definition.partition_keys),
        "partitioned_by": list(definition.partitioning),
        "options": masked(definition.options),
        "dynamic_options": masked(table.dynamic_options),
        "query": without_passwords(definition.original_query),
        "expanded_query": without_passwords(definition.expanded_query),
    }


def _name_json(identifier: TableIdentifier) -> JSON:
    return {
        "name": str(identifier),
        "catalog": identifier.catalog,
        "namespace": list(identifier.namespace),
        "table": identifier.name,
    }


def _column_json(column: Column) -> JSON:
    return {
        "name": column.name,
        "type": column.type,
        "nullable": column.nullable,
        "comment": column.comment,
    }


def _read_json(read: Read) -> JSON:
    return {"name": read.name, "kind": read.kind}


def _last_json(run: LastRun) -> JSON:
    return {
        "id": run.run_id,
        "status": run.status,
        "kind": run.kind,
        "requested_at": run.requested_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "strategy": run.strategy,
        "rows": run.rows,
        "reason": run.reason,
        "reason_code": run.reason_code,
        "error": run.error,
        "attempt": run.attempt,
    }


def node_json(node: Node, depth: int) -> JSON:
    """Return the JSON of a node of the graph; *depth* is the number of levels below it."""
    facts = node.facts
    return {
        "name": node.name,
        "kind": node.kind,
        "id": None if facts is None else facts.table_id,
        "state": node.state,
        "shows": None if facts is None else facts.shows,
        "late_at": None if facts is None else facts.late_at,
        "depth": depth,
    }


# ------------------------------------------------------------------------------------------------ refreshes


def run_json(view: RunView | UnreadableRun) -> JSON:
    """Return the JSON of a run; of one that cannot be read, only its id and the reason are known."""
    if isinstance(view, UnreadableRun):
        error = f"cannot be read: {view.error}"
        return {
            **dict.fromkeys(schemas.RUN),
            "id": view.run_id,
            "table_id": view.table_id,
            "table": _text(view.table),
            "steps": {},
            "error": error,
        }
    run = view.run
    return {
        "id": run.run_id,
        "table_id": run.table_id,
        "table": _text(view.table),
        "kind": view.kind,
        "status": run.status,
        "schedule_time": run.schedule_time,
        "partitions": str(run.scope),
        "decision": run.decision,
        "reason": view.reason,
        "reason_code": run.reason_code,
        "attempt": run.attempt,
        "requested_by": run.requested_by,
        "requested_at": run.requested_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "steps": dict(run.steps),
        "strategy": run.strategy,
        "rows": run.rows,
        "rows_inserted": run.rows_inserted,
        "rows_updated": run.rows_updated,
        "rows_deleted": run.rows_deleted,
        "bytes_read": run.bytes_read,
        "snapshot": run.snapshot_id,
        "error": run.error,
        "covered_by": run.covered_by,
        "job": run.continuous_job or run.job_id,
    }


def run_details_json(view: RunView) -> JSON:
    """Return what is only shown of a single run."""
    run = view.run
    return {
        "points": list(run.points),
        "retry_of": run.retry_of,
        "trigger": run.trigger,
        "waits_until": run.waits_until if view.is_waiting else None,
        "waits_for": sorted(run.waits_for.values()) if view.is_waiting else [],
        "cancel_requested": run.cancel_requested,
        "options": masked(run.options),
        "sources": [_source_json(source) for source in view.sources],
        "cause": run.cause,
        "batches": run.batches,
        "recent_batches": [_batch_json(batch) for batch in run.recent],
    }


def _source_json(source: SourceView) -> JSON:
    return {"name": source.name, "kind": source.kind, "version": _text(source.version)}


def _batch_json(batch: Batch) -> JSON:
    return {
        "number": batch.number,
        "began_at": batch.began_at,
        "seconds": batch.seconds,
        "lag": batch.lag,
        "strategy": batch.strategy,
        "rows": batch.rows,
        "bytes_read": batch.bytes_read,
        "snapshot": batch.snapshot_id,
    }


def point_json(point: CurvePoint) -> JSON:
    return {"at": point.at, "seconds": point.seconds, "promise": point.promise}


def mark_json(mark: Mark) -> JSON:
    return {"at": mark.at, "status": mark.status, "run": mark.run_id, "times": mark.times}


def hour_json(hour: FreshnessHour) -> JSON:
    return {
        "hour": hour.hour,
        "worst_seconds": hour.worst_s,
        "late_seconds": hour.late_s,
        "fault": hour.fault,
        "batches": hour.batches,
        "rows": hour.rows,
        "failed": hour.failed,
    }


# ----------------------------------------------------------------------------- jobs, sessions and the gateway


def job_json(job: Job) -> JSON:
    return {
        "id": job.job_id,
        "name": job.name,
        "kind": job.kind,
        "status": job.status,
        "target": job.target,
        "session": session_id(job.session) if job.session else None,
        "user": job.user,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "rows_read": job.rows_read,
        "rows_written": job.rows_written,
        "restarts": job.restarts,
        "error": job.error,
    }


def session_json(session: SessionView) -> JSON:
    return {
        "id": session_id(session.handle),
        "name": session.name,
        "user": session.owner,
        "opened_at": session.opened_at,
        "idle_since": session.last_access,
        "operations": [_operation_json(operation) for operation in session.operations],
        "properties": masked(session.properties),
    }


def session_id(handle: str) -> str:
    """Return the text that identifies the session with *handle*, from which the handle cannot be derived."""
    return hashlib.sha256(handle.encode()).hexdigest()[:_ID_LENGTH]


def _operation_json(operation: OperationView) -> JSON:
    return {
        "statement": operation.statement,
        "status": operation.status,
        "begun_at": operation.created_at,
        "job": operation.job_id,
    }


def loop_json(loop: LoopState) -> JSON:
    return {
        "name": loop.name,
        "every": loop.every.total_seconds(),
        "succeeded_at": loop.succeeded_at,
        "failures": loop.failures,
    }


def counts_json(states: Mapping[State, int]) -> JSON:
    """Return the number of tables in each state, including those in which none is."""
    return {state.value: states.get(state, 0) for state in State}


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


def _text(value: object) -> str | None:
    """Return *value* as text, such as a snapshot id, whose number is too long for some clients."""
    return None if value is None else str(value)
