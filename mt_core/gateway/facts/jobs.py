"""GET /jobs: the jobs of statements and refreshes."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter, Request, Response

from mt_core.gateway.facts import schemas
from mt_core.gateway.facts.answers import FactsAnswer, facts_router
from mt_core.gateway.facts.json_form import job_json
from mt_core.gateway.facts.query import AFTER, LIMIT, Parameter, Query, cursor, not_a_cursor, of_query
from mt_core.gateway.http.schemas import described
from mt_core.gateway.services import GatewayServices
from mt_core.model.job import JobStatus
from mt_core.sessions.operations.jobs import place_of
from mt_core.tables.registry import JobPlace

_PARAMETERS = (
    Parameter(
        name="status",
        description=f"Only jobs with these statuses, separated by commas: {', '.join(JobStatus)}.",
    ),
    AFTER,
    LIMIT,
)
_KIND = "jobs"


def jobs_router(services: GatewayServices) -> APIRouter:
    """Return the endpoint of jobs."""
    router = facts_router()

    @router.get("/jobs", **described("Jobs, newest first", schemas.JOBS, parameters=of_query(_PARAMETERS)))
    def get_jobs(request: Request) -> Response:
        query = Query.of(request, _PARAMETERS)
        before, limit = _place(query), query.number(LIMIT)
        statuses = query.choices("status", JobStatus) or frozenset(JobStatus)
        with services.facts.reading() as tx:
            jobs = services.jobs.page(tx, before=before, limit=limit + 1, statuses=statuses)
        following = _cursor(place_of(jobs[limit - 1])) if len(jobs) > limit else None
        return FactsAnswer({"jobs": [job_json(job) for job in jobs[:limit]], "next": following})

    return router


def _cursor(place: JobPlace) -> str:
    started_at, job_id = place
    return cursor(_KIND, started_at.isoformat(), job_id)


def _place(query: Query) -> JobPlace | None:
    position = query.position(_KIND, str, str)
    if position is None:
        return None
    started_at, job_id = position
    try:
        return datetime.fromisoformat(started_at).astimezone(UTC), job_id
    except (ValueError, OverflowError) as cause:
        raise not_a_cursor() from cause
