"""Workflows served over HTTP to an external scheduler such as Airflow, only in v3."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from mt_core.errors import SchedulerNotUsed, TableNotFound
from mt_core.gateway.http.answers import JsonAnswer, not_modified
from mt_core.gateway.http.errors import error_answer
from mt_core.gateway.http.requests import ShardNumber
from mt_core.gateway.http.schemas import PUBLISHED_SHARD, PUBLISHED_WORKFLOW, described
from mt_core.gateway.services import GatewayServices
from mt_core.tables.workflows.served import ServedWorkflows


def shards_router(services: GatewayServices) -> APIRouter:
    """Return the endpoints of shards and workflows.

    The response to a request with the current ETag of a shard is 304.
    """
    router = APIRouter()

    @router.get(
        "/workflows/{scheduler}/shards/{number}", **described("A shard of workflows", PUBLISHED_SHARD)
    )
    def get_shard(
        scheduler: str,
        number: ShardNumber,
        request: Request,
        if_none_match: Annotated[str | None, Header()] = None,
    ) -> Response:
        published = services.published
        if published is None or published.scheduler != scheduler:
            return _unknown(published, scheduler)
        shard = published.shard(number, _tables_url(request, services, scheduler))
        etag = f'"{shard.etag}"'
        return not_modified(etag, if_none_match) or JsonAnswer(shard.body, headers={"ETag": etag})

    @router.get("/workflows/{scheduler}/{workflow_id}", **described("A workflow", PUBLISHED_WORKFLOW))
    def get_workflow(scheduler: str, workflow_id: str, request: Request) -> JsonAnswer:
        published = services.published
        if published is None or published.scheduler != scheduler:
            return _unknown(published, scheduler)
        try:
            return JsonAnswer(published.workflow(workflow_id, _tables_url(request, services, scheduler)))
        except TableNotFound as error:
            return error_answer(error, error.http_status, doing=f"Workflow {workflow_id} cannot be shown.")

    return router


def _unknown(published: ServedWorkflows | None, scheduler: str) -> JsonAnswer:
    ours = published.scheduler if published is not None else "none"
    error = SchedulerNotUsed(
        f"This gateway publishes no workflows for the scheduler '{scheduler}': "
        f"its workflow-scheduler.type is {ours}."
    )
    return error_answer(error, error.http_status, doing="The workflows cannot be shown.")


def _tables_url(request: Request, services: GatewayServices, scheduler: str) -> str:
    """Return the URL that, followed by a table's id, leads to its page, or to its workflow if there is none.

    A task's link adds the query parameter `run`, which both accept.
    """
    gateway = str(request.base_url).rstrip("/")
    if services.page_base is None:
        return f"{gateway}/v3/workflows/{scheduler}"
    return f"{services.page_url or gateway + services.page_base}/tables"
