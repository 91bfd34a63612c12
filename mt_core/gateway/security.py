"""Who is let in: holders of a bearer token, and no web page of another site."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from fastapi import HTTPException, Request

from mt_core.gateway.errors import CODE_HEADER

MESSAGE = (
    "Unauthorized: this gateway asks for a token. Send the header `Authorization: Bearer <token>` with one of "
    "sql-gateway.security.tokens."
)


FOREIGN = (
    "Forbidden: this request comes from a web page of another site ({origin}), which could run SQL here without its user "
    "knowing. Call the gateway from a program, or from a page that the gateway serves."
)


async def origin_check(request: Request) -> None:
    """Answer 403 to a browser's request on behalf of another site: a gateway on loopback is open to every page otherwise."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise HTTPException(403, FOREIGN.format(origin=origin), {CODE_HEADER: "FORBIDDEN"})


def bearer_check(tokens: tuple[str, ...]) -> Callable[[Request], Awaitable[None]]:
    """Return a dependency that answers 401 without one of *tokens*; with no tokens everybody is let in."""
    allowed = [token.encode() for token in tokens]

    async def check(request: Request) -> None:
        if allowed and not _matches(request.headers.get("authorization", ""), allowed):
            raise HTTPException(401, MESSAGE, {"WWW-Authenticate": "Bearer", CODE_HEADER: "UNAUTHORIZED"})

    return check


def _matches(header: str, allowed: list[bytes]) -> bool:
    scheme, _, given = header.partition(" ")
    sent = given.strip().encode()
    # Every token is compared, so that the time taken does not tell which one was nearly right.
    return sum(hmac.compare_digest(sent, token) for token in allowed) > 0 and scheme.lower() == "bearer"
