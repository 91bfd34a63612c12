"""Measurement: reports each answered request, for metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mt_core.gateway.http.routing import UNKNOWN, route_of

OnRequest = Callable[[str, str, int, float], object]
"""Is called with the method, the route, the HTTP status and the duration in seconds."""

OTHER = "(other)"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Measurement:
    """Reports the requests of *app* to the function that *receiver* returns, if it returns one.

    Whatever clients send, there are few methods and routes: those of the endpoints, `UNKNOWN` and `OTHER`.
    """

    app: ASGIApp
    receiver: Callable[[], OnRequest | None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        report = self.receiver()
        if report is None or scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        await self.app(scope, receive, note_status)
        # There is no response if the client has gone.
        if status:
            route, method = route_of(scope), scope["method"]
            if route == UNKNOWN and method not in _METHODS:
                method = OTHER
            report(method, route, status, time.perf_counter() - began)
