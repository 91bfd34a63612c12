"""A refusal of the gateway: why, in words and as a code, and whether to come again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from freshtable_airflow.errors import FreshtableError, GatewayRefused, GatewayUnavailable, TableDropped

UNAUTHORIZED = 401
PASSWORD = (
    "the password of the Airflow connection (freshtable_default, unless another was chosen) must be one of the gateway's "
    "tokens. The gateway says: "
)
GONE = 410
# Codes whose HTTP status is 500 on endpoints that Flink's clients use too; asking again does not help.
FOR_GOOD = frozenset({"TABLE_NOT_FOUND", "OPERATION_NOT_FOUND", "REQUEST_INVALID", "UNSUPPORTED", "UNAUTHORIZED"})
COME_AGAIN = frozenset({408, 425, 429})


@dataclass(frozen=True)
class Refusal:
    """An answer that is an error."""

    status: int
    code: str
    text: str

    def __str__(self) -> str:
        return self.text

    def as_error(self, what: str) -> FreshtableError:
        """Return the refusal of *what* as the error that it means for a task."""
        if self.status == GONE:
            return TableDropped(
                f"{what}: the table was dropped, or re-created, since this DAG was written, and the DAG goes with the next look "
                f"at the gateway; there is nothing left to refresh. The gateway says: {self.text}",
                code=self.code,
            )
        way_out = PASSWORD if self.status == UNAUTHORIZED else ""
        message = f"{what} was refused with {self.status}{f' {self.code}' if self.code else ''}: {way_out}{self.text}"
        if self.code in FOR_GOOD or (self.status < 500 and self.status not in COME_AGAIN and not self._session_lost):
            return GatewayRefused(message, code=self.code)
        return GatewayUnavailable(message)

    @property
    def _session_lost(self) -> bool:
        return self.code == "SESSION_NOT_FOUND"


def read_refusal(response: httpx.Response) -> Refusal:
    """Return what an answer that is an error says."""
    body = _body(response)
    error = body.get("error")
    ours = error if isinstance(error, dict) else {}
    return Refusal(
        status=response.status_code,
        code=str(ours.get("code") or response.headers.get("Freshtable-Error", "")),
        text=str(ours.get("message") or _text(body) or response.text[:500]).strip()
        or f"HTTP {response.status_code} without a word",
    )


def _body(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _text(body: dict[str, Any]) -> str:
    """Return what a gateway says that has no `error`: what follows the last `Caused by:`, without the class name."""
    errors = body.get("errors")
    last = str(errors[-1]) if isinstance(errors, list) and errors else ""
    _, found, cause = last.rpartition("Caused by: ")
    if not found:
        return last
    cause = cause.partition("\n\tat ")[0].partition("\n\nEnd of exception")[0]
    name, _, text = cause.partition(": ")
    return text if text and name.isidentifier() else cause
