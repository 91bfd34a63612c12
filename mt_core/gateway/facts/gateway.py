"""GET /gateway: how the gateway itself fares."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from mt_core.gateway.facts import schemas
from mt_core.gateway.facts.answers import FactsAnswer, facts_router, up_to_date
from mt_core.gateway.facts.json_form import JSON, loop_json
from mt_core.gateway.facts.query import Query
from mt_core.gateway.http.schemas import described
from mt_core.gateway.info import READY, UNKNOWN
from mt_core.gateway.services import GatewayServices
from mt_core.model.run import RunKind, RunStatus
from mt_core.tables.overview.facts import TableFacts

TROUBLE = "TROUBLE"
# The kinds of runs that the workers carry out; batches of CONTINUOUS tables have threads of their own.
OF_WORKERS = frozenset(RunKind) - {RunKind.CONTINUOUS}


def gateway_router(services: GatewayServices) -> APIRouter:
    """Return the endpoint of the gateway's own state."""
    router = facts_router()

    @router.get("/gateway", **described("The state of the gateway", schemas.GATEWAY))
    def get_gateway(request: Request) -> Response:
        Query.of(request)
        facts = services.facts
        now = up_to_date(facts)
        tables = facts.overview.facts(now)
        progress = facts.overview.progress
        with facts.reading() as tx, tx.past_unreadable():
            running = tx.runs.newest(statuses=(RunStatus.RUNNING,), kinds=OF_WORKERS)
        return FactsAnswer(
            {
                "as_of": now,
                "release": services.info.version,
                "started_at": facts.started_at,
                "spark": _state(services.engine_trouble()) | {"note": services.engine_note()},
                "scheduler": _state(services.scheduler_trouble()),
                "refreshes": {
                    "running": len(running),
                    "most_running": facts.workers,
                    "queued": sum(table.queued for table in tables if isinstance(table, TableFacts)),
                },
                "sessions": len(services.sessions),
                "overview": {"read": progress.read, "total": progress.total},
                "loops": [loop_json(loop) for loop in facts.loops()],
            }
        )

    return router


def _state(trouble: str | None) -> JSON:
    if trouble is None:
        return {"state": UNKNOWN, "trouble": ""}
    return {"state": TROUBLE if trouble else READY, "trouble": trouble}
