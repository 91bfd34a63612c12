"""A refusal of the gateway: why, in words and as a code, and whether to come again."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
_CAUSE = re.compile(r"Caused by: (?:\w+: )?(.*?)(?:\n\tat |\n\nEnd of exception|\Z)", re.DOTALL)


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
                f"{what}: the table was dropped, or made anew, since this DAG was written, and the DAG goes with the next look "
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
    return Refusal(
        status=response.status_code,
        code=response.headers.get("Freshtable-Error", ""),
        text=_text(response).strip() or f"HTTP {response.status_code} without a word",
    )


def _text(response: httpx.Response) -> str:
    try:
        errors = response.json()["errors"]
        last = str(errors[-1])
    except (ValueError, KeyError, IndexError, TypeError):
        return response.text[:500]
    causes = _CAUSE.findall(last)
    return causes[-1] if causes else last
