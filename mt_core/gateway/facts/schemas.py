"""The JSON schemas of the resources under /freshtable/v1, for the OpenAPI document."""

from __future__ import annotations

from mt_core.gateway.http.schemas import ERRORS as ALL_ERRORS
from mt_core.gateway.http.schemas import FLAG, NUMBER, TEXT, Schema, fields, items, one_of
from mt_core.model.job import JobStatus
from mt_core.model.run import STEPS, ReasonCode, RunStatus
from mt_core.model.table import RefreshMode, RefreshStatus, SuspendedBy
from mt_core.sessions.operations.operation import OperationStatus
from mt_core.tables.overview.lateness import Fault, State

FACT_ERRORS = {**ALL_ERRORS, 404: "There is no such path, or nothing with this id or name."}


def or_null(schema: Schema) -> Schema:
    """Return *schema*, or null."""
    if "enum" in schema:
        return {**schema, "type": [schema["type"], "null"], "enum": [*schema["enum"], None]}
    return {**schema, "type": [schema["type"], "null"]}


def body(members: Schema) -> Schema:
    """Return the schema of a response with these members, all of which are present."""
    return fields({"version": {"type": "integer", "enum": [1]}, **members})


INSTANT: Schema = {"type": "string", "format": "date-time"}
AMOUNT: Schema = {"type": "number"}
NULL_TEXT, NULL_NUMBER, NULL_AMOUNT, NULL_INSTANT = map(or_null, (TEXT, NUMBER, AMOUNT, INSTANT))
VALUES: Schema = {"type": "object", "additionalProperties": TEXT}
COUNTS = fields({state.value: NUMBER for state in State})
NEXT = {"next": NULL_TEXT}

# --------------------------------------------------------------------------------------------------- tables

LAST_RUN = fields(
    {
        "id": TEXT,
        "status": one_of(*RunStatus),
        "kind": TEXT,
        "requested_at": INSTANT,
        "started_at": NULL_INSTANT,
        "finished_at": NULL_INSTANT,
        "strategy": NULL_TEXT,
        "rows": NULL_NUMBER,
        "reason": NULL_TEXT,
        "reason_code": or_null(one_of(*ReasonCode)),
        "error": NULL_TEXT,
        "attempt": NUMBER,
    }
)
TABLE: Schema = {
    "id": NULL_TEXT,
    "name": TEXT,
    "catalog": TEXT,
    "namespace": items(TEXT),
    "table": TEXT,
    "mode": or_null(one_of(*RefreshMode)),
    "status": or_null(one_of(*RefreshStatus)),
    "state": one_of(*State),
    "freshness": NULL_TEXT,
    "freshness_seconds": NULL_AMOUNT,
    "zone": NULL_TEXT,
    "shows": NULL_INSTANT,
    "shows_by": NULL_TEXT,
    "late_at": NULL_INSTANT,
    "late_by": NULL_AMOUNT,
    "silent_at": NULL_INSTANT,
    "silent_by": NULL_AMOUNT,
    "inherited": FLAG,
    "fault": or_null(one_of(*Fault)),
    "below": NULL_TEXT,
    "because": TEXT,
    "doubt": NULL_TEXT,
    "last": or_null(LAST_RUN),
    "next": NULL_INSTANT,
    "running": FLAG,
    "queued": NUMBER,
    "reads": items(fields({"name": TEXT, "kind": TEXT})),
    "status_by": NULL_TEXT,
    "status_reason": NULL_TEXT,
    "suspended_by": or_null(one_of(*SuspendedBy)),
    "status_at": NULL_INSTANT,
}
TABLES = body(
    {
        "as_of": INSTANT,
        "read": NUMBER,
        "total": NUMBER,
        "counts": COUNTS,
        "tables": items(fields(TABLE)),
        **NEXT,
    }
)
COLUMN = fields({"name": TEXT, "type": TEXT, "nullable": FLAG, "comment": NULL_TEXT})
# The members that only a single table has. They are null if the table cannot be read.
DETAILS: Schema = {
    "created_at": NULL_INSTANT,
    "comment": NULL_TEXT,
    "columns": or_null(items(COLUMN)),
    "partition_keys": or_null(items(TEXT)),
    "partitioned_by": or_null(items(TEXT)),
    "options": or_null(VALUES),
    "dynamic_options": or_null(VALUES),
    "query": NULL_TEXT,
    "expanded_query": NULL_TEXT,
}
TABLE_DETAILS = body({"as_of": INSTANT, **TABLE, **DETAILS, "read_by": items(TEXT)})

NODE = fields(
    {
        "name": TEXT,
        "kind": TEXT,
        "id": NULL_TEXT,
        "state": or_null(one_of(*State)),
        "shows": NULL_INSTANT,
        "late_at": NULL_INSTANT,
        "depth": NUMBER,
    }
)
GRAPH = body(
    {
        "as_of": INSTANT,
        "namespaces": items(fields({"name": TEXT, "counts": COUNTS})),
        "nodes": items(NODE),
        "edges": items(fields({"reader": TEXT, "source": TEXT})),
        "further": NUMBER,
        "cause": items(TEXT),
    }
)

# ------------------------------------------------------------------------------------------------ refreshes

RUN: Schema = {
    "id": TEXT,
    "table_id": TEXT,
    "table": NULL_TEXT,
    "kind": NULL_TEXT,
    "status": or_null(one_of(*RunStatus)),
    "schedule_time": NULL_INSTANT,
    "partitions": NULL_TEXT,
    "decision": NULL_TEXT,
    "reason": NULL_TEXT,
    "reason_code": or_null(one_of(*ReasonCode)),
    "attempt": NULL_NUMBER,
    "requested_by": NULL_TEXT,
    "requested_at": NULL_INSTANT,
    "started_at": NULL_INSTANT,
    "finished_at": NULL_INSTANT,
    "steps": {"type": "object", "properties": dict.fromkeys(STEPS, AMOUNT)},
    "strategy": NULL_TEXT,
    "rows": NULL_NUMBER,
    "rows_inserted": NULL_NUMBER,
    "rows_updated": NULL_NUMBER,
    "rows_deleted": NULL_NUMBER,
    "bytes_read": NULL_NUMBER,
    "snapshot": NULL_TEXT,
    "error": NULL_TEXT,
    "covered_by": NULL_TEXT,
    "job": NULL_TEXT,
}
RUNS = body({"refreshes": items(fields(RUN)), **NEXT})
BATCH = fields(
    {
        "number": NUMBER,
        "began_at": INSTANT,
        "seconds": AMOUNT,
        "lag": NULL_AMOUNT,
        "strategy": TEXT,
        "rows": NUMBER,
        "bytes_read": NULL_NUMBER,
        "snapshot": TEXT,
    }
)
RUN_DETAILS = body(
    {
        **RUN,
        "points": items(INSTANT),
        "retry_of": NULL_TEXT,
        "trigger": NULL_TEXT,
        "waits_until": NULL_INSTANT,
        "waits_for": items(TEXT),
        "cancel_requested": FLAG,
        "options": VALUES,
        "sources": items(fields({"name": TEXT, "kind": TEXT, "version": NULL_TEXT})),
        "cause": NULL_TEXT,
        "batches": NUMBER,
        "recent_batches": items(BATCH),
    }
)
STALENESS = body(
    {
        "from": INSTANT,
        "to": INSTANT,
        "complete": FLAG,
        "points": items(fields({"at": INSTANT, "seconds": NULL_AMOUNT, "promise": AMOUNT})),
        "marks": items(fields({"at": INSTANT, "status": one_of(*RunStatus), "run": TEXT, "times": NUMBER})),
        "hours": items(
            fields(
                {
                    "hour": INSTANT,
                    "worst_seconds": AMOUNT,
                    "late_seconds": AMOUNT,
                    "fault": or_null(one_of(*Fault)),
                    "batches": NUMBER,
                    "rows": NUMBER,
                    "failed": NUMBER,
                }
            )
        ),
    }
)

# ----------------------------------------------------------------------------- jobs, sessions and the gateway

JOB = fields(
    {
        "id": TEXT,
        "name": TEXT,
        "kind": TEXT,
        "status": one_of(*JobStatus),
        "target": NULL_TEXT,
        "session": NULL_TEXT,
        "user": TEXT,
        "started_at": INSTANT,
        "finished_at": NULL_INSTANT,
        "rows_read": NULL_NUMBER,
        "rows_written": NULL_NUMBER,
        "restarts": NUMBER,
        "error": NULL_TEXT,
    }
)
JOBS = body({"jobs": items(JOB), **NEXT})
OPERATION = fields(
    {"statement": TEXT, "status": one_of(*OperationStatus), "begun_at": INSTANT, "job": NULL_TEXT}
)
SESSIONS = body(
    {
        "sessions": items(
            fields(
                {
                    "id": TEXT,
                    "name": NULL_TEXT,
                    "user": TEXT,
                    "opened_at": INSTANT,
                    "idle_since": INSTANT,
                    "operations": items(OPERATION),
                    "properties": VALUES,
                }
            )
        )
    }
)
GATEWAY = body(
    {
        "as_of": INSTANT,
        "release": TEXT,
        "started_at": INSTANT,
        "spark": fields({"state": one_of("READY", "TROUBLE"), "trouble": TEXT, "note": TEXT}),
        "scheduler": fields({"state": one_of("READY", "TROUBLE", "UNKNOWN"), "trouble": TEXT}),
        "refreshes": fields({"running": NUMBER, "most_running": NUMBER, "queued": NUMBER}),
        "sessions": NUMBER,
        "overview": fields({"read": NUMBER, "total": NUMBER}),
        "loops": items(
            fields({"name": TEXT, "every": AMOUNT, "succeeded_at": NULL_INSTANT, "failures": NUMBER})
        ),
    }
)
