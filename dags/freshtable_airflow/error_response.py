"""Error responses of the gateway, and the exceptions that a task raises for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from freshtable_airflow.errors import FreshtableError, GatewayRefused, GatewayUnavailable, TableDropped

UNAUTHORIZED = 401
PASSWORD = (
    "the password of the Airflow connection (freshtable_default, unless another was chosen) must be one of "
    "the gateway's tokens. The gateway says: "
)
GONE = 410
# Permanent errors, including codes with HTTP status 500 on endpoints that Flink's clients also use.
PERMANENT = frozenset(
    {"TABLE_NOT_FOUND", "OPERATION_NOT_FOUND", "REQUEST_INVALID", "UNSUPPORTED", "UNAUTHORIZED"}
)
RETRYABLE = frozenset({408, 425, 429})


@dataclass(frozen=True)
class ErrorResponse:
    """An error response; `code` is "" if the response has none."""

    status: int
    code: str
    text: str

    @classmethod
    def of(cls, response: httpx.Response) -> ErrorResponse:
        try:
            body = response.json()
        except ValueError:
            body = {}
        error = body.get("error") if isinstance(body, dict) else None
        facts = error if isinstance(error, dict) else {}
        text = facts.get("message") or (_text(body) if isinstance(body, dict) else "") or response.text[:500]
        return cls(
            status=response.status_code,
            code=str(facts.get("code") or response.headers.get("Freshtable-Error", "")),
            text=str(text).strip() or f"HTTP {response.status_code} without a message",
        )

    def as_error(self, what: str) -> FreshtableError:
        """Return the exception for a response to the request *what*."""
        if self.status == GONE:
            return TableDropped(
                f"{what}: the table was dropped, or re-created, since this DAG was written, "
                "and the DAG will be removed at the next update from the gateway; "
                f"there is nothing left to refresh. The gateway says: {self.text}",
                code=self.code,
            )
        way_out = PASSWORD if self.status == UNAUTHORIZED else ""
        message = (
            f"{what} was refused with {self.status}{f' {self.code}' if self.code else ''}: "
            f"{way_out}{self.text}"
        )
        is_permanent = self.status < 500 and self.status not in RETRYABLE and self.code != "SESSION_NOT_FOUND"
        if self.code in PERMANENT or is_permanent:
            return GatewayRefused(message, code=self.code)
        return GatewayUnavailable(message)


def _text(body: dict[str, Any]) -> str:
    """Return the message of a body without `error`.

    This is the text after the last `Caused by:`, without the class name.
    """
    errors = body.get("errors")
    last = str(errors[-1]) if isinstance(errors, list) and errors else ""
    _, separator, cause = last.rpartition("Caused by: ")
    if not separator:
        return last
    cause = cause.partition("\n\tat ")[0].partition("\n\nEnd of exception")[0]
    name, _, text = cause.partition(": ")
    return text if text and name.isidentifier() else cause
