"""The refreshes of tables: GET /tables/{table_id}/refreshes and /staleness, and GET /runs/{run_id}."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from fastapi import APIRouter, Request, Response

from mt_core.errors import FactUnreadable, OperationNotFound, RequestInvalid
from mt_core.gateway.facts import schemas
from mt_core.gateway.facts.answers import FactsAnswer, facts_router, unknown_table
from mt_core.gateway.facts.json_form import hour_json, mark_json, point_json, run_details_json, run_json
from mt_core.gateway.facts.query import AFTER, LIMIT, Parameter, Query, cursor, of_query, whole_number
from mt_core.gateway.http.schemas import described
from mt_core.gateway.services import GatewayServices
from mt_core.model.run import DONE, REFRESHES, RefreshRun, RunKind, RunStatus
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.tables.overview.history import HOUR, staleness
from mt_core.tables.registry import Transaction, each_row
from mt_core.tables.views.run_view import RunView, UnreadableRun

DAY = timedelta(days=1)
# A table with a FRESHNESS of 5 seconds has 17,000 refreshes a day. To read one takes 0.1 milliseconds.
MOST_RUNS = 20_000
_PAGE = 500
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
            table = _stored(tx, table_id)
            page = partial(tx.runs.newest, table_id=table_id, kinds=tuple(RunKind), before=before)
            views = [_view(run, table) for run in each_row(tx, partial(page, limit=limit + 1))]
        following = cursor(kind, _id_of(views[limit - 1])) if len(views) > limit else None
        return FactsAnswer({"refreshes": [run_json(view) for view in views[:limit]], "next": following})

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
            now, table = tx.now(), _stored(tx, table_id)
            since = begin or now - DAY
            if since >= now:
                raise RequestInvalid(f"from must be an instant before now, {now:%Y-%m-%dT%H:%M:%SZ}.")
            if isinstance(table, FactUnreadable):
                raise table
            runs, is_complete = _runs_since(tx, table_id, since)
            hours = tx.freshness.of(table_id, since - HOUR)
        curve = staleness(table, runs, hours, since, now, points)
        return FactsAnswer(
            {
                "from": since,
                "to": now,
                "complete": is_complete,
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


def _stored(tx: Transaction, table_id: str) -> MaterializedTable | FactUnreadable:
    """Return a table, or the reason why it cannot be read. Raises TableNotFound."""
    try:
        table = tx.tables.get(table_id)
    except FactUnreadable as error:
        return error
    if table is None:
        raise unknown_table(table_id)
    return table


def _view(
    run: RefreshRun | FactUnreadable, table: MaterializedTable | FactUnreadable
) -> RunView | UnreadableRun:
    if isinstance(table, MaterializedTable):
        readable, identifier = table, table.identifier
    else:
        readable, identifier = None, TableIdentifier.from_json(table.columns)
    if isinstance(run, RefreshRun):
        return RunView.of(run, readable)
    run_id, table_id = str(run.columns["run_id"]), str(run.columns["table_id"])
    return UnreadableRun(run_id=run_id, table_id=table_id, table=identifier, error=run)


def _id_of(view: RunView | UnreadableRun) -> str:
    return view.run.run_id if isinstance(view, RunView) else view.run_id


def _runs_since(tx: Transaction, table_id: str, since: datetime) -> tuple[list[RefreshRun], bool]:
    """Return the refreshes that ended after *since* and the last one before that published.

    Also returns whether these are all: of more than `MOST_RUNS`, the oldest are left out.
    """
    runs: list[RefreshRun] = []
    ended = (*DONE, RunStatus.FAILED)
    page = partial(tx.runs.newest, table_id=table_id, statuses=ended, kinds=REFRESHES, limit=_PAGE)
    before: str | None = None
    while len(runs) < MOST_RUNS:
        rows = each_row(tx, partial(page, before=before))
        readable = [row for row in rows if isinstance(row, RefreshRun)]
        runs += readable
        if len(rows) < _PAGE or any(_has_published_before(run, since) for run in readable):
            return runs, True
        last = rows[-1]
        before = last.run_id if isinstance(last, RefreshRun) else str(last.columns["run_id"])
    return runs, False


def _has_published_before(run: RefreshRun, instant: datetime) -> bool:
    return run.status in DONE and run.finished_at is not None and run.finished_at < instant
