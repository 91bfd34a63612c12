"""Request ids: each request has one, which its response and all lines of the log about it contain."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mt_core.base.protocol import REQUEST_ID_HEADER
from mt_core.base.request_id import working_for

_HEADER = REQUEST_ID_HEADER.lower().encode()
_OWN = re.compile(rb"[A-Za-z0-9._-]{1,64}")
# https://www.w3.org/TR/trace-context/: version, trace id, parent id and flags. A later version may append
# fields.
_TRACE = re.compile(
    rb"(?!ff)(?!00-.{53})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)


@dataclass(frozen=True, slots=True)
class RequestIds:
    """Gives each request of *app* its id, and adds it to the response as a header."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        identity = id_of(scope["headers"])
        header = (REQUEST_ID_HEADER.encode(), identity.encode())

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), header]
            await send(message)

        with working_for(identity):
            await self.app(scope, receive, send_with_id)


def id_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the id of the request with these headers, whose names are in lower case.

    It is the client's own id, otherwise the id of the trace of which the request is a part, otherwise a new
    one.
    """
    trace = None
    for name, text in headers:
        if name == _HEADER and _OWN.fullmatch(text):
            return text.decode()
        if name == b"traceparent":
            trace = _TRACE.fullmatch(text)
    # Unlike a uuid, this takes no system call, and the id protects nothing.
    return f"{random.getrandbits(128):032x}" if trace is None else trace[1].decode()
