"""GET /api_versions and GET /info."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool

from mt_core.base.protocol import ENGINE_HEADER, ENGINE_NOTE_HEADER, SCHEDULER_HEADER, WORK_HEADER
from mt_core.gateway.http.answers import JsonAnswer
from mt_core.gateway.http.endpoints import direct_router
from mt_core.gateway.http.schemas import DRAFT_INFO, INFO, VERSIONS, described
from mt_core.gateway.http.versions import ApiVersion
from mt_core.gateway.services import GatewayServices

READY, UNKNOWN = "READY", "UNKNOWN"


def info_router(services: GatewayServices, version: ApiVersion) -> APIRouter:
    """Return the endpoints for the supported API versions and for the product's name and version.

    Headers of the latter report the state of Spark and of the scheduler. For an embedded gateway they also
    report the work that continues without clients.
    """
    router = direct_router()
    info = {"productName": services.info.product_name, "version": services.info.version}
    if version.draft:
        info["product_name"] = services.info.product_name

    @router.get("/api_versions", **described("API versions", VERSIONS))
    async def get_api_versions() -> JsonAnswer:
        return JsonAnswer({"versions": list(services.versions)})

    @router.get("/info", **described("Product and version", DRAFT_INFO if version.draft else INFO))
    async def get_info() -> JsonAnswer:
        scheduler = services.scheduler_trouble()
        headers = {
            ENGINE_HEADER: _line(services.engine_trouble()) or READY,
            SCHEDULER_HEADER: UNKNOWN if scheduler is None else _line(scheduler) or READY,
        }
        if note := services.engine_note():
            headers[ENGINE_NOTE_HEADER] = _line(note)
        if services.remaining_work is not None:
            headers[WORK_HEADER] = await run_in_threadpool(services.remaining_work)
        return JsonAnswer(info, headers=headers)

    return router


def _line(text: str) -> str:
    """Return *text* as a valid header value: a single line of ASCII."""
    return " ".join(text.split()).encode("ascii", "replace").decode("ascii")
