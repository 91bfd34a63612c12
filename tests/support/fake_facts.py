"""Bodies of /freshtable/v1 as a gateway sends them, for tests of its clients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpx

from mt_core.client.http import GatewayClient

JSON = dict[str, Any]
AS_OF = "2026-03-01T12:00:00Z"
TABLE: JSON = {
    "id": "t1",
    "name": "lake.shop.daily",
    "catalog": "lake",
    "namespace": ["shop"],
    "table": "daily",
    "mode": "FULL",
    "status": "ACTIVATED",
    "state": "OK",
    "freshness": "1 day",
    "freshness_seconds": 86400.0,
    "zone": "UTC",
    "shows_by": None,
    "shows": "2026-03-01T11:00:00Z",
    "late_at": "2026-03-02T00:00:00Z",
    "late_by": None,
    "inherited": False,
    "fault": None,
    "below": None,
    "because": "",
    "doubt": None,
    "silent_at": "2026-03-02T00:00:00Z",
    "silent_by": None,
    "last": None,
    "next": "2026-03-02T00:00:00Z",
    "running": False,
    "queued": 0,
    "reads": [{"name": "lake.shop.orders", "kind": "table"}],
    "status_by": "anna",
    "status_reason": None,
    "suspended_by": None,
    "status_at": "2026-02-01T00:00:00Z",
}
LAST: JSON = {
    "id": "r1",
    "status": "SUCCEEDED",
    "kind": "PERIODIC",
    "requested_at": "2026-03-01T11:00:00Z",
    "started_at": "2026-03-01T11:00:00Z",
    "finished_at": "2026-03-01T11:00:05Z",
    "strategy": None,
    "rows": 3,
    "reason": "lake.shop.orders changed",
    "reason_code": "SOURCES_CHANGED",
    "error": None,
    "attempt": 1,
}
JOB: JSON = {
    "id": "ab",
    "name": "insert-x",
    "kind": "INSERT",
    "status": "RUNNING",
    "target": "lake.shop.x",
    "error": None,
    "started_at": "2026-03-01T11:00:00Z",
    "finished_at": None,
}


def failed(error: str | None) -> JSON:
    """Return the last refresh of a table, which failed."""
    return {**LAST, "status": "FAILED", "error": error}


def page_of(member: str, entries: Iterable[JSON], following: str | None = None, **more: Any) -> JSON:
    """Return one page of *entries*."""
    return {"version": 1, member: list(entries), "next": following, **more}


def page_of_tables(entries: Iterable[JSON], following: str | None = None) -> JSON:
    """Return one page of *entries* of a gateway with three tables."""
    return page_of("tables", entries, following, as_of=AS_OF, read=3, total=3, counts={})


class FactsServer:
    """Answers requests by path with one prepared body after the other, and counts what it was asked for.

    The last body of a path is repeated. A path without bodies answers like a gateway that does not know it.
    """

    def __init__(self, bodies: dict[str, list[JSON]]) -> None:
        self.bodies, self.asked = bodies, list[str]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(
            str(request.url.copy_with(scheme="http", host="gw", port=None)).removeprefix("http://gw")
        )
        bodies = self.bodies.get(request.url.path)
        if bodies is None:
            body = {"errors": [f"Not found: {request.url.path}"]}
            return httpx.Response(404, json=body, headers={"Freshtable-Error": "NOT_FOUND"})
        return httpx.Response(200, json=bodies.pop(0) if len(bodies) > 1 else bodies[0])

    def client(self) -> GatewayClient:
        return GatewayClient("http://gw", transport=httpx.MockTransport(self))
