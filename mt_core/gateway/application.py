"""The FastAPI application: which router exists in which API version."""

from __future__ import annotations

from fastapi import APIRouter, Depends, FastAPI

from mt_core.gateway import errors
from mt_core.gateway.info import info_router, versions_router
from mt_core.gateway.refresh import refresh_router
from mt_core.gateway.results import results_router
from mt_core.gateway.security import bearer_check, origin_check
from mt_core.gateway.services import GatewayServices
from mt_core.gateway.sessions import sessions_router
from mt_core.gateway.statements import statements_router


def build_app(services: GatewayServices) -> FastAPI:
    """Return the gateway's application. A version is a list of routers; the default version has no prefix as well."""
    app = FastAPI(
        openapi_url=None,
        redirect_slashes=False,
        dependencies=[Depends(origin_check), Depends(bearer_check(services.tokens))],
    )
    errors.install(app)
    v3 = _v3(services)
    by_prefix = {"/v1": [versions_router(services)], "/v3": v3, "": v3}
    for prefix, routers in by_prefix.items():
        for router in routers:
            app.include_router(router, prefix=prefix)
    return app


def _v3(services: GatewayServices) -> list[APIRouter]:
    return [
        versions_router(services),
        info_router(services),
        sessions_router(services),
        statements_router(services, with_progress=True),
        results_router(services, with_extras=True),
        refresh_router(services),
    ]
