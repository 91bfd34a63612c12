"""One application for many gateways, because building one takes longer than most tests.

Each request selects the services of its gateway.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from typing import Any, cast

from starlette.types import ASGIApp, Receive, Scope, Send

from mt_core.base.access import Token
from mt_core.gateway.application import build_app
from mt_core.gateway.services import GatewayServices

_present: ContextVar[GatewayServices] = ContextVar("services")


class _Present:
    """The services of the gateway to which the current request was sent."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_present.get(), name)


def app_of(services: GatewayServices) -> ASGIApp:
    """Return the application of a gateway with *services*.

    Gateways with the same tokens, hosts and public paths share it.
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        _present.set(services)
        await _built(services.tokens, services.hosts, services.public)(scope, receive, send)

    return app


@cache
def _built(_tokens: tuple[Token, ...], _hosts: tuple[str, ...], _public: frozenset[str]) -> ASGIApp:
    """Build the application of the current gateway, whose arguments are read during the build."""
    return build_app(cast("GatewayServices", _Present()))
