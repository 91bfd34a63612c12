"""Who is let in: holders of a bearer token, and no web page of another site."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Scope

from mt_core.gateway.errors import CODE_HEADER

MESSAGE = (
    "Unauthorized: this gateway asks for a token. Send the header `Authorization: Bearer <token>` with one of "
    "sql-gateway.security.tokens; `freshtable sql` takes it from --token or FRESHTABLE_TOKEN."
)


FOREIGN = (
    "Forbidden: this request comes from a web page of another site ({origin}), which could run SQL here without its user "
    "knowing. Call the gateway from a program, or from a page that the gateway serves."
)


def guard(tokens: tuple[str, ...]) -> Callable[[Scope], None]:
    """Return a check that raises HTTPException: 403 for a browser's request on behalf of another site, as a gateway on
    loopback is open to every page otherwise, and 401 for one without any of *tokens*; with no tokens everybody is let in."""
    allowed = [token.encode() for token in tokens]

    def check(scope: Scope) -> None:
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            raise HTTPException(403, FOREIGN.format(origin=origin), {CODE_HEADER: "FORBIDDEN"})
        if allowed and not _matches(headers.get("authorization", ""), allowed):
            raise HTTPException(401, MESSAGE, {"WWW-Authenticate": "Bearer", CODE_HEADER: "UNAUTHORIZED"})

    return check


def _matches(header: str, allowed: list[bytes]) -> bool:
    scheme, _, given = header.partition(" ")
    sent = given.strip().encode()
    # Every token is compared, so that the time taken does not tell which one was nearly right.
    return sum(hmac.compare_digest(sent, token) for token in allowed) > 0 and scheme.lower() == "bearer"
