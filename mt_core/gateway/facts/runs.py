"""The refreshes of tables: GET /tables/{table_id}/refreshes and /staleness, and GET /runs/{run_id}."""

from __future__ import annotations

from datetime import timedelta

from fastapi import APIRouter, Request, Response

from mt_core.errors import FactUnreadable, OperationNotFound, RequestInvalid
from mt_core.gateway.facts import schemas
from mt_core.gateway.facts.answers import FactsAnswer, facts_router
from mt_core.gateway.facts.json_form import hour_json, mark_json, point_json, run_details_json, run_json
from mt_core.gateway.facts.query import AFTER, LIMIT, Parameter, Query, cursor, of_query, whole_number
from mt_core.gateway.facts.refreshes import History, RefreshPage, stored_table
from mt_core.gateway.http.schemas import described
from mt_core.gateway.services import GatewayServices
from mt_core.tables.overview.history import thinned
from mt_core.tables.views.run_view import RunView

DAY = timedelta(days=1)
_LIST = (AFTER, LIMIT)
_POINTS = whole_number("points", "The maximum number of points of the curve.", least=2, most=2000, usual=300)
_FROM = Parameter(
    name="from",
    description="The instant at which the curve begins, in UTC if it has no offset. Absent: 24 hours ago.",
    schema={"type": "string", "format": "date-time"},
)
_CURVE = (_FROM, _POINTS)


def runs_router(services: GatewayServices) -> APIRouter:
    """Return the endpoints of refreshes."""
    router = facts_router()

    @router.get(
        "/tables/{table_id}/refreshes",
        **described(
            "The refreshes of a materialized table, newest first",
            schemas.RUNS,
            parameters=of_query(_LIST),
            errors=schemas.FACT_ERRORS,
        ),
    )
    def get_refreshes(table_id: str, request: Request) -> Response:
        query = Query.of(request, _LIST)
        kind, limit = f"refreshes of {table_id}", query.number(LIMIT)
        [before] = query.position(kind, str) or [None]
        with services.facts.reading() as tx:
            page = RefreshPage.read(tx, table_id, before=before, limit=limit)
        following = None if page.before is None else cursor(kind, page.before)
        return FactsAnswer({"refreshes": [run_json(view) for view in page.views], "next": following})

    @router.get(
        "/tables/{table_id}/staleness",
        **described(
            "The staleness of a materialized table over time",
            schemas.STALENESS,
            parameters=of_query(_CURVE),
            errors=schemas.FACT_ERRORS,
        ),
    )
    def get_staleness(table_id: str, request: Request) -> Response:
        query = Query.of(request, _CURVE)
        points, begin = query.number(_POINTS), query.instant(_FROM.name)
        with services.facts.reading() as tx:
            now, table = tx.now(), stored_table(tx, table_id)
            since = begin or now - DAY
            if since >= now:
                raise RequestInvalid(f"from must be an instant before now, {now:%Y-%m-%dT%H:%M:%SZ}.")
            if isinstance(table, FactUnreadable):
                raise table
            history = History.read(tx, table, since, now)
        curve = thinned(history.curve(), since, now, points)
        return FactsAnswer(
            {
                "from": since,
                "to": now,
                "complete": history.is_complete,
                "points": [point_json(point) for point in curve.points],
                "marks": [mark_json(mark) for mark in curve.marks],
                "hours": [hour_json(hour) for hour in curve.hours],
            }
        )

    @router.get("/runs/{run_id}", **described("A refresh", schemas.RUN_DETAILS, errors=schemas.FACT_ERRORS))
    def get_run(run_id: str, request: Request) -> Response:
        Query.of(request)
        with services.facts.reading() as tx:
            run = tx.runs.get(run_id)
            if run is None:
                raise OperationNotFound(
                    f"Refresh {run_id} is not in the ledger; "
                    "GET /freshtable/v1/tables/{table_id}/refreshes lists those of a table."
                )
            with tx.past_unreadable():
                view = RunView.of(run, tx.tables.get(run.table_id))
        return FactsAnswer({**run_json(view), **run_details_json(view)})

    return router
