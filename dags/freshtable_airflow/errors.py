"""The errors between Airflow and the gateway.

FreshtableError
├── GatewayUnavailable     the gateway did not answer, or requested a retry
├── GatewayRefused         the gateway refuses the request; a retry does not help
│   └── TableDropped       the table was dropped or recreated
├── RefreshFailed          the gateway ran the refresh, and it failed
│   └── RefreshHopeless    another attempt would fail in the same way
└── DefinitionBroken       a workflow definition cannot become a DAG
"""

from __future__ import annotations


class FreshtableError(Exception):
    """The root of all errors; each message names the object and a way to fix the problem."""


class GatewayUnavailable(FreshtableError):
    """Raised if the gateway did not answer, or requested a retry."""


class GatewayRefused(FreshtableError):
    """Raised if the gateway refused the request itself; `code` is its machine-readable reason."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class TableDropped(GatewayRefused):
    """Raised if the materialized table was dropped or recreated after the DAG was written."""


class RefreshFailed(FreshtableError):
    """Raised if the run ended without a result."""


class RefreshHopeless(RefreshFailed):
    """Raised if the run failed and would fail in the same way until the query or a source changes."""


class DefinitionBroken(FreshtableError):
    """Raised if a workflow definition cannot become a DAG."""
