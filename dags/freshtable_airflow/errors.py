"""The errors between Airflow and the gateway.

FreshtableError
├── GatewayUnavailable     the gateway did not answer, or requested a retry
├── GatewayRefused         the gateway refuses the request; a retry does not help
│   └── TableDropped       the table was dropped or re-created since
├── RefreshFailed          the gateway ran the refresh, and it failed
│   └── RefreshHopeless    another attempt would fail in the same way
└── DefinitionBroken       a workflow definition cannot become a DAG
"""

from __future__ import annotations


class FreshtableError(Exception):
    """The root of all errors; each message names the object and the way out."""


class GatewayUnavailable(FreshtableError):
    """The gateway did not answer, or requested a retry."""


class GatewayRefused(FreshtableError):
    """The gateway refused the request itself; `code` is its machine-readable reason."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class TableDropped(GatewayRefused):
    """The materialized table was dropped, or re-created, since the DAG was written."""


class RefreshFailed(FreshtableError):
    """The run ended without a result."""


class RefreshHopeless(RefreshFailed):
    """The run failed, and another would fail in the same way until the query or one of its sources
    changes.
    """


class DefinitionBroken(FreshtableError):
    """A workflow definition cannot become a DAG."""
