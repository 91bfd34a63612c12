"""One application for many gateways, because building one takes longer than most tests: each request brings its services."""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from typing import Any, cast

from starlette.types import ASGIApp, Receive, Scope, Send

from mt_core.gateway.application import build_app
from mt_core.gateway.services import GatewayServices

_present: ContextVar[GatewayServices] = ContextVar("services")


class _Present:
    """The services of the gateway that the present request was sent to."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_present.get(), name)


def app_of(services: GatewayServices) -> ASGIApp:
    """Return the application of a gateway with *services*, which has no tokens."""
    assert services.tokens == (), "an application is built for its tokens: use build_app"

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        _present.set(services)
        await _built()(scope, receive, send)

    return app


@cache
def _built() -> ASGIApp:
    return build_app(cast("GatewayServices", _Present()))
