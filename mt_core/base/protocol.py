"""The wire protocol of gateway and clients: headers and fields in addition to Flink's, and error bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mt_core.base.secrets import without_passwords
from mt_core.errors import GatewayError, MtError

# Headers of a refresh request: the idempotency key, the table's uuid, the number of the caller's attempt, and
# whether a periodic refresh runs even if no source has changed. The last one is what triggered the caller's
# own run, such as a backfill.
REQUEST_KEY_HEADER = "Idempotency-Key"
TABLE_HEADER = "Freshtable-Table"
ATTEMPT_HEADER = "Freshtable-Attempt"
FORCE_HEADER = "Freshtable-Force"
TRIGGER_HEADER = "Freshtable-Trigger"

# The id of a request: clients may choose it, and each response has it.
REQUEST_ID_HEADER = "Freshtable-Request-Id"

# Headers of responses.
ERROR_CODE_HEADER = "Freshtable-Error"
ENGINE_HEADER = "Freshtable-Engine"
ENGINE_NOTE_HEADER = "Freshtable-Engine-Note"
SCHEDULER_HEADER = "Freshtable-Scheduler"
WORK_HEADER = "Freshtable-Work"
RESULT_TYPE_HEADER = "Freshtable-Result-Type"
NEXT_URI_HEADER = "Freshtable-Next-Result-Uri"
AFFECTED_ROWS_HEADER = "Freshtable-Affected-Rows"
ARROW_TYPE = "application/vnd.apache.arrow.stream"

# A client that sends this header receives errors as JSON. Without it, error bodies contain only Flink's
# fields, because Flink's clients of any version do not recognize an error with an unknown field.
ERRORS_HEADER, ERRORS_AS_JSON = "Freshtable-Errors", "json"

# Fields of a refresh (FLIP-448).
IS_PERIODIC = "isPeriodic"
SCHEDULE_TIME = "scheduleTime"
DYNAMIC_OPTIONS = "dynamicOptions"
STATIC_PARTITIONS = "staticPartitions"
EXECUTION_CONFIG = "executionConfig"

_CAUSE, _ORIGIN, _END = "Caused by: ", "\n\tat ", "\n\nEnd of exception on server side>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    """A request to the refresh endpoint, which is safe to repeat if it has a `request_key`.

    `table_id` is the table's uuid. With `force`, a periodic refresh runs even if no source has changed.
    """

    identifier: str
    is_periodic: bool = False
    schedule_time: str | None = None
    dynamic_options: Mapping[str, str] | None = None
    static_partitions: Mapping[str, str] | None = field(default_factory=dict)
    execution_config: Mapping[str, str] | None = None
    request_key: str | None = None
    table_id: str | None = None
    attempt: int | None = None
    force: bool = False

    def body(self) -> dict[str, Any]:
        partitions = (
            {} if self.static_partitions is None else {STATIC_PARTITIONS: dict(self.static_partitions)}
        )
        return {
            IS_PERIODIC: self.is_periodic,
            SCHEDULE_TIME: self.schedule_time,
            DYNAMIC_OPTIONS: dict(self.dynamic_options or {}),
            **partitions,
            EXECUTION_CONFIG: dict(self.execution_config or {}),
        }

    def headers(self) -> dict[str, str]:
        values = {
            REQUEST_KEY_HEADER: self.request_key,
            TABLE_HEADER: self.table_id,
            ATTEMPT_HEADER: None if self.attempt is None else str(self.attempt),
            FORCE_HEADER: "true" if self.force else None,
        }
        return {name: value for name, value in values.items() if value is not None}


def error_facts(error: MtError, request_id: str) -> dict[str, Any]:
    """Return the error as JSON for clients that send `Freshtable-Errors: json`, with passwords masked.

    *request_id* is the id of the request that failed.
    """
    facts = {
        name: without_passwords(fact) if isinstance(fact, str) else fact for name, fact in error.facts.items()
    }
    message = _message(error, request_id)
    return {"code": error.code, "message": message, "facts": facts, "requestId": request_id}


def cause_text(error: MtError, origin: str, request_id: str) -> str:
    """Return the error in the form that Flink's clients parse.

    They show the text between `Caused by:` and *origin*, which is a location in the code.
    """
    return f"{_CAUSE}{type(error).__name__}: {_message(error, request_id)}{_ORIGIN}{origin}"


def _message(error: MtError, request_id: str) -> str:
    """Return the message of *error* for users, who can look an internal error up in the gateway's log."""
    message = without_passwords(str(error))
    return f"{message} Request id: {request_id}" if error.code == MtError.code else message


def server_errors(doing: str, cause: str) -> list[str]:
    """Return the two strings in which Flink reports an error that occurred while *doing* something."""
    return [
        "Internal server error.",
        f"<Exception on server side:\nSqlGatewayException: {doing}\n{cause}{_END}",
    ]


def error_body(texts: Sequence[str], facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the body of an error: Flink's *texts*, and the error's *facts* for clients that read them."""
    return {"errors": list(texts)} | ({} if facts is None else {"error": facts})


def is_error_body(body: Mapping[str, Any]) -> bool:
    """Return whether the body of a response is an error, whatever its HTTP status."""
    return body.keys() - {"error"} == {"errors"}


def read_error(body: Any, headers: Mapping[str, str]) -> GatewayError:
    """Parse an error body.

    The *headers* supply the code and the request id for gateways that send only Flink's strings.
    """
    code, request_id = headers.get(ERROR_CODE_HEADER), headers.get(REQUEST_ID_HEADER)
    facts = body.get("error") if isinstance(body, dict) else None
    if isinstance(facts, dict):
        return GatewayError(
            str(facts.get("message", "")),
            code=facts.get("code", code),
            facts=facts.get("facts"),
            request_id=facts.get("requestId", request_id),
        )
    return GatewayError(root_cause(body), code=code, request_id=request_id)


def root_cause(body: Any) -> str:
    """Return the text after the last `Caused by:` in Flink's errors, without the class name.

    If none of the errors contains `Caused by:`, the result is all of them.
    """
    errors = body.get("errors") if isinstance(body, dict) else None
    if not isinstance(errors, list) or not errors:
        return f"The gateway answered with an error that cannot be read: {body}"
    _, marker, cause = str(errors[-1]).rpartition(_CAUSE)
    if not marker:
        return "\n".join(str(error) for error in errors)
    cause = cause.partition(_ORIGIN)[0].partition("\n\nEnd of exception")[0].strip()
    name, _, text = cause.partition(": ")
    return text if text and name.replace(".", "").replace("$", "").isidentifier() else cause
