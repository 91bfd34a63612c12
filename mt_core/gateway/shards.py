"""Published workflows over HTTP: what a scheduler outside the gateway, such as Airflow, has to run; v3 only."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from mt_core.errors import RequestInvalid, SchedulerNotUsed, TableNotFound
from mt_core.gateway.http.answers import HEADERS, JsonAnswer
from mt_core.gateway.http.errors import error_answer
from mt_core.gateway.http.schemas import PUBLISHED_SHARD, PUBLISHED_WORKFLOW, described
from mt_core.gateway.services import GatewayServices
from mt_core.tables.workflows.published import PublishedWorkflows

_NOT_MODIFIED = 304
_DIGITS = 9


def shards_router(services: GatewayServices) -> APIRouter:
    """Return the endpoints. A shard has an ETag; a request with the present one is answered 304 without a body."""
    router = APIRouter()

    @router.get("/workflows/{scheduler}/shards/{number}", **described("A shard of workflows", PUBLISHED_SHARD))
    def get_shard(
        scheduler: str, number: str, request: Request, if_none_match: Annotated[str | None, Header()] = None
    ) -> Response:
        published = _published(services, scheduler)
        if published is None:
            return _unknown(services, scheduler)
        shard = published.shard(_number(number), _details(request, scheduler))
        etag = {"ETag": f'"{shard.etag}"'}
        if _has(if_none_match, shard.etag):
            return Response(status_code=_NOT_MODIFIED, headers={**HEADERS, **etag})
        return JsonAnswer(shard.body, headers=etag)

    @router.get("/workflows/{scheduler}/{workflow_id}", **described("A workflow", PUBLISHED_WORKFLOW))
    def get_workflow(scheduler: str, workflow_id: str, request: Request) -> JsonAnswer:
        published = _published(services, scheduler)
        if published is None:
            return _unknown(services, scheduler)
        try:
            return JsonAnswer(published.workflow(workflow_id, _details(request, scheduler)))
        except TableNotFound as error:
            return error_answer(error, error.http_status, doing=f"Workflow {workflow_id} cannot be shown.")

    return router


def _published(services: GatewayServices, scheduler: str) -> PublishedWorkflows | None:
    published = services.published
    return published if published is not None and published.scheduler == scheduler else None


def _unknown(services: GatewayServices, scheduler: str) -> JsonAnswer:
    ours = services.published.scheduler if services.published is not None else "none"
    error = SchedulerNotUsed(
        f"This gateway publishes no workflows for the scheduler '{scheduler}': its workflow-scheduler.type is {ours}."
    )
    return error_answer(error, error.http_status, doing="There are no such workflows.")


def _details(request: Request, scheduler: str) -> str:
    return str(request.base_url).rstrip("/") + f"/v3/workflows/{scheduler}"


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise RequestInvalid(f'Cannot resolve path parameter (number) from value "{text[:40]}".')
    return int(text)


def _has(header: str | None, etag: str) -> bool:
    """Whether an If-None-Match header names *etag*; proxies may have made a weak one of it."""
    tags = [part.strip().removeprefix("W/").strip('"') for part in (header or "").split(",")]
    return etag in tags or "*" in tags
