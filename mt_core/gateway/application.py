"""The FastAPI application: the routers of each API version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute

from mt_core.gateway.draft.endpoints import draft_router
from mt_core.gateway.http import errors
from mt_core.gateway.http.bodies import BodyLimits
from mt_core.gateway.http.openapi import document, openapi_router
from mt_core.gateway.http.routing import VersionRoutes
from mt_core.gateway.http.security import guard
from mt_core.gateway.http.versions import DEFAULT, VERSIONS, ApiVersion
from mt_core.gateway.info import info_router
from mt_core.gateway.plans import plans_router
from mt_core.gateway.refresh import refresh_router
from mt_core.gateway.refusals import scripts_router, workflows_router
from mt_core.gateway.results import results_router
from mt_core.gateway.services import GatewayServices
from mt_core.gateway.sessions import sessions_router
from mt_core.gateway.shards import shards_router
from mt_core.gateway.statements import configuring_router, operations_router, statements_router


def build_app(services: GatewayServices, bodies: BodyLimits | None = None) -> FastAPI:
    """Return the gateway's application. Each API version has a path prefix, except the default version."""
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    app.state.bodies = bodies or BodyLimits()
    errors.install(app)
    versions = {version.prefix: _routes(services, version) for version in (*VERSIONS, DEFAULT)}
    check = guard(services.tokens, services.hosts, lambda handle: services.sessions.owner_of(handle))
    app.router.routes.append(VersionRoutes(versions, check))
    return app


def documents(services: GatewayServices) -> dict[str, dict[str, Any]]:
    """Return the OpenAPI document of each version, by prefix."""
    product_version = services.info.version
    return {
        version.prefix: document(
            _api(_routers(services, version), version).routes, version, product_version=product_version
        )
        for version in (*VERSIONS, DEFAULT)
    }


def _routes(services: GatewayServices, version: ApiVersion) -> list[BaseRoute]:
    """Return the routes of a version as a flat list, without its prefix."""
    routers = list(_routers(services, version))
    api = _api(routers, version)
    routers.append(openapi_router(api.routes, version, product_version=services.info.version))
    return [route for router in routers for route in router.routes]


def _api(routers: Iterable[APIRouter], version: ApiVersion) -> APIRouter:
    api = APIRouter(prefix=version.prefix)
    for router in routers:
        api.include_router(router)
    return api


def _routers(services: GatewayServices, version: ApiVersion) -> Iterator[APIRouter]:
    yield info_router(services, version)
    # The draft's endpoints for sessions and statements also return the released fields.
    yield draft_router(services) if version.draft else statements_router(services)
    yield sessions_router(services, version)
    yield operations_router(services, version)
    yield results_router(services, version)
    if version.extras:
        yield plans_router(services)
    if version.configures:
        yield configuring_router(services)
    if version.refreshes:
        yield refresh_router(services)
        yield workflows_router()
        yield shards_router(services)
    if version.scripts:
        yield scripts_router(services)
