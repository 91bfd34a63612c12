"""The FastAPI application: the routers of each version of Flink's API, the API of facts, and the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute

from mt_core.gateway.draft.endpoints import draft_router
from mt_core.gateway.facts import api as facts
from mt_core.gateway.http import errors
from mt_core.gateway.http.bodies import BodyLimits
from mt_core.gateway.http.measurement import Measurement
from mt_core.gateway.http.openapi import About, document, openapi_router
from mt_core.gateway.http.request_ids import RequestIds
from mt_core.gateway.http.routing import VersionRoutes
from mt_core.gateway.http.security import guard
from mt_core.gateway.http.versions import DEFAULT, DESCRIPTION, TITLE, VERSIONS, ApiVersion
from mt_core.gateway.info import info_router
from mt_core.gateway.metrics import metrics_router
from mt_core.gateway.page.api import page_of, page_routers, root_router
from mt_core.gateway.page.page import PREFIX
from mt_core.gateway.page.static_files import PUBLIC
from mt_core.gateway.plans import plans_router
from mt_core.gateway.refresh import refresh_router
from mt_core.gateway.refusals import scripts_router, workflows_router
from mt_core.gateway.results import results_router
from mt_core.gateway.services import GatewayServices
from mt_core.gateway.sessions import sessions_router
from mt_core.gateway.shards import shards_router
from mt_core.gateway.statements import configuring_router, operations_router, statements_router


def build_app(services: GatewayServices, bodies: BodyLimits | None = None) -> FastAPI:
    """Return the gateway's application. Each API has a path prefix, except the default version."""
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    app.state.bodies = bodies or BodyLimits()
    errors.install(app)
    # Each is outside of those added before, so that it also sees the responses of errors.
    app.add_middleware(Measurement, receiver=lambda: services.on_request)
    app.add_middleware(RequestIds)
    routes = {api.prefix: _routes(api, services) for api in _apis(services)}
    public, own_checks = services.public, frozenset[str]()
    if services.page_base is not None:
        page = page_of(services)
        routes[PREFIX] = [route for router in page_routers(page) for route in router.routes]
        routes[""] += root_router(page).routes
        public, own_checks = public | PUBLIC, frozenset({PREFIX})
    check = guard(
        services.tokens, services.hosts, lambda handle: services.sessions.owner_of(handle), public=public
    )
    app.router.routes.append(VersionRoutes(routes, check, own_checks))
    return app


def documents(services: GatewayServices) -> dict[str, dict[str, Any]]:
    """Return the OpenAPI document of each API, by prefix."""
    return {api.prefix: document(api.described, _about(api, services)) for api in _apis(services)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """The endpoints below a prefix, with the title and description of their document."""

    prefix: str
    title: str
    description: str
    routers: Sequence[APIRouter]

    @property
    def described(self) -> Sequence[BaseRoute]:
        """The routes with their prefix, for the document."""
        api = APIRouter(prefix=self.prefix)
        for router in self.routers:
            api.include_router(router)
        return api.routes


def _apis(services: GatewayServices) -> Iterator[Api]:
    for version in (*VERSIONS, DEFAULT):
        yield Api(
            prefix=version.prefix,
            title=TITLE.format(number=version.number),
            description=DESCRIPTION.format(number=version.number),
            routers=list(_routers(services, version)),
        )
    yield Api(
        prefix=facts.PREFIX,
        title=facts.TITLE,
        description=facts.DESCRIPTION,
        routers=list(facts.facts_routers(services)),
    )


def _about(api: Api, services: GatewayServices) -> About:
    return About(title=api.title, description=api.description, product_version=services.info.version)


def _routes(api: Api, services: GatewayServices) -> list[BaseRoute]:
    """Return the routes of an API as a flat list, without its prefix."""
    own = openapi_router(api.described, _about(api, services))
    return [route for router in (*api.routers, own) for route in router.routes]


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
    if not version.prefix:
        yield metrics_router(services)
