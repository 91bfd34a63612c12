"""The JSON schemas of requests and responses, for the OpenAPI documents.

Endpoints parse bodies with `requests.Body` and not with pydantic models, because Flink's parsing is more
lenient: null means absent, and unknown fields are ignored. FastAPI therefore cannot derive the schemas from
the endpoints' signatures, and this module declares them. Two functions express the leniency. `request` makes
every member optional and nullable. `fields` lists required and optional members without excluding others.
Endpoints refer to schemas by `described`. The schemas are only documentation; requests are not validated
against them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mt_core.base.protocol import (
    AFFECTED_ROWS_HEADER,
    ARROW_TYPE,
    DYNAMIC_OPTIONS,
    EXECUTION_CONFIG,
    IS_PERIODIC,
    NEXT_URI_HEADER,
    RESULT_TYPE_HEADER,
    SCHEDULE_TIME,
    STATIC_PARTITIONS,
)
from mt_core.gateway.http.versions import ApiVersion

Schema = Mapping[str, Any]

RESULT_TYPES = ("NOT_READY", "PAYLOAD", "EOS")
ROW_FORMATS = ("JSON", "PLAIN_TEXT")

ERRORS = {
    400: "A body, path or query parameter cannot be used.",
    401: "The bearer token is missing or wrong.",
    403: "The role of the token does not allow it, or the request was made by a web page of another site.",
    404: "There is no such path in this version.",
    500: "Anything else that went wrong.",
}
PLAN_ERRORS = {
    **ERRORS,
    400: "The name, the body or the plan in it cannot be used.",
    404: "There is no such path in this version, or no such plan in the session.",
}
BODY_ERRORS = {
    408: "The body stopped arriving.",
    503: "The bodies of all requests together are too long: try again after Retry-After seconds.",
}
REFRESH_ERRORS = {
    **ERRORS,
    404: "There is no such path, table or session.",
    409: "The status of the table, or another command on it, does not allow it.",
    410: "The table was dropped since.",
    503: "The table is being created, or Spark is starting: try again after Retry-After seconds.",
}


def described(
    summary: str,
    answer: Schema,
    *,
    body: Schema | None = None,
    parameters: Iterable[Schema] = (),
    errors: Mapping[int, str] = ERRORS,
) -> dict[str, Any]:
    """Return the route arguments that describe an endpoint's request and responses in OpenAPI.

    *parameters* are those that the endpoint itself reads from the request.
    """
    extra: dict[str, Any] = {}
    if found := list(parameters):
        extra["parameters"] = found
    if body is not None:
        extra["requestBody"] = {
            "required": "required" in body,
            "content": {"application/json": {"schema": body}},
        }
        errors = dict(sorted({**BODY_ERRORS, **errors}.items()))
    failures = {status: json_content(text, ERROR_REFERENCE) for status, text in errors.items()}
    return {
        "summary": summary,
        "responses": {200: json_content("Success.", answer), **failures},
        "openapi_extra": extra,
    }


def or_arrow(route: dict[str, Any]) -> dict[str, Any]:
    """Return the route arguments with an additional Arrow response and the headers that it needs."""
    success = route["responses"][200]
    content = success["content"] | {ARROW_TYPE: {"schema": {"type": "string", "format": "binary"}}}
    headers = {
        RESULT_TYPE_HEADER: {
            "description": "`resultType` of an Arrow answer.",
            "schema": one_of(*RESULT_TYPES),
        },
        NEXT_URI_HEADER: {
            "description": "`nextResultUri` of an Arrow answer; absent at the end.",
            "schema": TEXT,
        },
        AFFECTED_ROWS_HEADER: {
            "description": "How many rows a change wrote; absent where that is not known.",
            "schema": NUMBER,
        },
    }
    return {
        **route,
        "responses": {**route["responses"], 200: {**success, "content": content, "headers": headers}},
    }


def json_content(description: str, schema: Schema) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def fields(required: Schema, optional: Schema | None = None) -> Schema:
    """Return the schema of an object with these members, which may have others too."""
    schema: dict[str, Any] = {"type": "object", "properties": {**required, **(optional or {})}}
    return schema | ({"required": list(required)} if required else {})


def request(**members: Schema) -> Schema:
    """Return the schema of a request body. Members may be null or absent, and others are ignored."""
    nullable = {name: {**schema, "type": [schema["type"], "null"]} for name, schema in members.items()}
    return {"type": "object", "properties": nullable}


def items(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "integer"}
MILLISECONDS: Schema = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
TEXTS: Schema = {"type": "object", "additionalProperties": {"type": ["string", "null"]}}
UUID: Schema = {"type": "string", "format": "uuid"}
NOTHING: Schema = {"type": "object"}
ERROR_REFERENCE: Schema = {"$ref": "#/components/schemas/Error"}
ERROR: Schema = {
    **fields(
        {"errors": items(TEXT)},
        {"error": fields({"code": TEXT, "message": TEXT, "facts": {"type": "object"}, "requestId": TEXT})},
    ),
    "additionalProperties": False,
}

INFO = fields({"productName": TEXT, "version": TEXT})
VERSIONS = fields({"versions": items(one_of("V1", "V2", "V3", "V4"))})
OPEN_SESSION = request(sessionName=TEXT, properties=TEXTS)
SESSION_OPENED = fields({"sessionHandle": UUID})
SESSION = fields({"properties": {"type": "object", "additionalProperties": TEXT}})
SESSION_CLOSED = fields({"status": one_of("CLOSED")})
CONFIGURE = fields({"statement": TEXT}, request(executionTimeout=MILLISECONDS)["properties"])
COMPLETE = request(statement=TEXT, position=NUMBER)
CANDIDATES = fields({"candidates": items(TEXT)})
STATEMENT = fields(
    {"statement": TEXT}, request(executionTimeout=MILLISECONDS, executionConfig=TEXTS)["properties"]
)
OPERATION = fields({"operationHandle": UUID})
PLAN = fields({"plan": TEXT})
PARTITIONS: Schema = {"type": ["array", "null"], "items": TEXTS}
REFRESH_TAKEN = fields({"operationHandle": UUID, "partitions": PARTITIONS})
OPERATION_CLOSED = fields({"status": one_of("CLOSED")})
OPERATION_CANCELED = fields({"status": one_of("CANCELED")})
STATUSES = ("INITIALIZED", "PENDING", "RUNNING", "FINISHED", "CANCELED", "CLOSED", "ERROR", "TIMEOUT")
ATTEMPT_CANCELED = fields({"status": one_of(*STATUSES)})
OPERATION_STATUS = fields({"status": one_of(*STATUSES)}, {"progress": {"type": "object"}})

LOGICAL_TYPE = fields({"type": TEXT}, {"nullable": FLAG})
COLUMN: Schema = {
    **fields({"name": TEXT, "logicalType": LOGICAL_TYPE}, {"comment": {"type": ["string", "null"]}}),
    "additionalProperties": False,
}
ROW = fields(
    {"kind": one_of("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"), "fields": {"type": "array"}}
)


def result(version: ApiVersion) -> Schema:
    """Return the schema of a result page in *version*."""
    formats = ROW_FORMATS if version.row_formats else ROW_FORMATS[:1]
    rows = fields({"columns": items(COLUMN), "rowFormat": one_of(*formats), "data": items(ROW)})
    uri = {"type": ["string", "null"] if version.null_uri else ["string"]}
    return fields(
        {"resultType": one_of(*RESULT_TYPES)},
        {
            "isQueryResult": FLAG,
            "jobID": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
            "resultKind": one_of("SUCCESS", "SUCCESS_WITH_CONTENT"),
            "results": rows,
            "nextResultUri": uri,
            **({"changelog": FLAG} if version.extras else {}),
        },
    )


REFRESH = fields(
    {IS_PERIODIC: FLAG},
    request(
        **{SCHEDULE_TIME: TEXT, DYNAMIC_OPTIONS: TEXTS, STATIC_PARTITIONS: TEXTS, EXECUTION_CONFIG: TEXTS}
    )["properties"],
)
CREATE_WORKFLOW = request(
    materializedTableIdentifier=TEXT,
    cronExpression=TEXT,
    initConfig=TEXTS,
    executionConfig=TEXTS,
    restEndpointUrl=TEXT,
)
WORKFLOW = request(workflowName=TEXT, workflowGroup=TEXT)
RESUME_WORKFLOW = request(workflowName=TEXT, workflowGroup=TEXT, dynamicOptions=TEXTS)
WORKFLOW_CREATED = fields({"workflowName": TEXT, "workflowGroup": TEXT})
PUBLISHED_WORKFLOW = fields(
    {
        "name": TEXT,
        "workflow_id": TEXT,
        "identifier": TEXT,
        "description": TEXT,
        "schedule": fields(
            {
                "version": NUMBER,
                "amount": NUMBER,
                "unit": TEXT,
                "anchor": {"type": "string", "format": "date"},
                "zone": TEXT,
            },
            {"cron": TEXT},
        ),
        "freshness": fields({"amount": NUMBER, "unit": TEXT}),
        "zone": TEXT,
        "since": {"type": "string", "format": "date-time"},
        "paused": FLAG,
        "init_config": TEXTS,
        "execution_config": TEXTS,
        "dynamic_options": TEXTS,
        "definition": TEXT,
        "details_url": TEXT,
    }
)
PUBLISHED_SHARD = fields(
    {
        "version": NUMBER,
        "scheduler": TEXT,
        "shard": NUMBER,
        "shards": NUMBER,
        "state": TEXT,
        "workflows": items(PUBLISHED_WORKFLOW),
    }
)
SCRIPT = request(script=TEXT, scriptUri=TEXT, executionConfig=TEXTS)
DEPLOYED = fields({"clusterID": TEXT})

# -------------------------------------------------------------------------------- the draft of FLIP-91, on v1

DRAFT_INFO = fields({"productName": TEXT, "product_name": TEXT, "version": TEXT})
DRAFT_OPEN_SESSION = request(
    sessionName=TEXT, session_name=TEXT, planner=TEXT, execution_type=TEXT, properties=TEXTS
)
DRAFT_SESSION_OPENED = fields({"sessionHandle": UUID, "session_id": UUID})
DRAFT_STATEMENT = fields(
    {"statement": TEXT},
    request(executionTimeout=MILLISECONDS, execution_timeout=MILLISECONDS, executionConfig=TEXTS)[
        "properties"
    ],
)
_DRAFT_COLUMNS = items(fields({"name": TEXT, "type": TEXT}))
_DRAFT_ROWS = items({"type": "array"})
_DRAFT_RESULTS = items(fields({"columns": _DRAFT_COLUMNS, "data": _DRAFT_ROWS}))
DRAFT_BEGUN = fields({"operationHandle": UUID, "statement_types": items(TEXT)}, {"results": _DRAFT_RESULTS})
DRAFT_DONE = fields({"statement_types": items(TEXT), "results": _DRAFT_RESULTS})
DRAFT_PAGE = fields(
    {
        "results": items(
            fields({"columns": _DRAFT_COLUMNS, "data": _DRAFT_ROWS, "change_flags": items(FLAG)})
        ),
        "next_result_uri": TEXT,
    }
)
DRAFT_JOB_STATUS = fields({"status": one_of("CREATED", "RUNNING", "FINISHED", "FAILED", "CANCELED")})
