"""The routers of the page."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from mt_core.gateway.page.actions.api import actions_router
from mt_core.gateway.page.charts.curves import Curves, curves_router
from mt_core.gateway.page.console.endpoints import sql_router
from mt_core.gateway.page.graph.view import graph_router
from mt_core.gateway.page.page import PREFIX, Page
from mt_core.gateway.page.run import run_router
from mt_core.gateway.page.sign_in import sign_in_router
from mt_core.gateway.page.static_files import icon_router, static_router
from mt_core.gateway.page.table import table_router
from mt_core.gateway.page.tables import tables_router
from mt_core.gateway.page.work.gateway import gateway_router
from mt_core.gateway.page.work.jobs import jobs_router
from mt_core.gateway.page.work.sessions import sessions_router
from mt_core.gateway.services import GatewayServices


def page_of(services: GatewayServices) -> Page:
    """Return the page of a gateway that serves one."""
    return Page(services, services.page_base or PREFIX)


def page_routers(page: Page) -> Iterator[APIRouter]:
    """Return the routers of all endpoints below `PREFIX`."""
    yield static_router(page.static, page.router(public=True))
    yield sign_in_router(page)
    yield tables_router(page)
    curves = Curves(page)
    yield curves_router(curves)
    yield table_router(page, curves)
    yield run_router(page)
    yield graph_router(page)
    yield jobs_router(page)
    yield sessions_router(page)
    yield gateway_router(page)
    yield actions_router(page)
    yield sql_router(page)
    yield _others(page)


def root_router(page: Page) -> APIRouter:
    """Return the endpoints at the root of the gateway that lead to the page."""
    return icon_router(page.static, APIRouter(), page.base)


def _others(page: Page) -> APIRouter:
    router = page.router()

    @router.get("/{path:path}")
    def get_other(request: Request, path: str) -> Response:
        raise HTTPException(404)

    return router
