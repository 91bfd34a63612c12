"""Access control: bearer tokens with roles, and rejection of requests from web pages of other sites."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Scope

from mt_core.base.access import ALL, READERS, REFRESH, SQL, WORKERS, Role, Token, find_token, is_loopback
from mt_core.base.protocol import ERROR_CODE_HEADER
from mt_core.errors import RequestInvalid
from mt_core.gateway.http.requests import uuid_of

MESSAGE = (
    "Unauthorized: this gateway asks for a token. Send the header `Authorization: Bearer <token>` with "
    "one of sql-gateway.security.tokens; `freshtable sql` takes it from --token or FRESHTABLE_TOKEN, "
    "or from the home folder of a gateway that generates it."
)
FOREIGN = (
    "Forbidden: this request comes from a web page of another site ({origin}), which could run SQL here "
    "without its user knowing. Call the gateway from a program, or from a page that the gateway serves."
)
STRANGE_HOST = (
    "Forbidden: this gateway does not require a token, so it only serves localhost and loopback addresses, "
    "not '{host}': a web page could have given its own name this address. Call http://127.0.0.1, "
    "add the name to sql-gateway.security.allowed-hosts, or set sql-gateway.security.tokens."
)
FOREIGN_SESSION = (
    "Forbidden: session {session} was opened with another token than '{name}'; "
    "open one with POST /sessions, or send a token with the role admin."
)
WRONG_ROLE = (
    "Forbidden: token '{name}' has the role {role}; this request needs a token with the role {needed}."
)

_SESSION = "/sessions/{session_handle}"
_OPERATION = f"{_SESSION}/operations/{{operation_handle}}"
# The endpoints that are not listed run statements or help to write them.
_MAY: Mapping[tuple[str, str], frozenset[Role]] = {
    ("GET", "/info"): ALL,
    ("GET", "/api_versions"): ALL,
    ("GET", "/openapi.json"): ALL,
    ("GET", f"{_OPERATION}/status"): ALL,
    ("GET", f"{_SESSION}/jobs/{{job_id}}/status"): ALL,
    ("POST", "/sessions"): WORKERS,
    ("GET", _SESSION): WORKERS,
    ("DELETE", _SESSION): WORKERS,
    ("POST", f"{_SESSION}/heartbeat"): WORKERS,
    ("GET", f"{_OPERATION}/result/{{token}}"): WORKERS,
    ("POST", f"{_OPERATION}/cancel"): WORKERS,
    ("DELETE", f"{_OPERATION}/close"): WORKERS,
    ("POST", f"{_SESSION}/materialized-tables/{{identifier:path}}/refresh"): REFRESH,
    ("GET", "/workflows/{scheduler}/shards/{number}"): REFRESH,
    ("GET", "/workflows/{scheduler}/{workflow_id}"): REFRESH,
    ("GET", "/tables"): READERS,
    ("GET", "/tables/{table_id}"): READERS,
    ("GET", "/tables/{table_id}/refreshes"): READERS,
    ("GET", "/tables/{table_id}/staleness"): READERS,
    ("GET", "/runs/{run_id}"): READERS,
    ("GET", "/graph"): READERS,
    ("GET", "/jobs"): READERS,
    ("GET", "/sessions"): READERS,
    ("GET", "/gateway"): READERS,
    ("GET", "/metrics"): READERS,
    ("GET", "/"): ALL,
    ("GET", "/favicon.ico"): ALL,
}
# The roles that may use sessions of other tokens. With `read`, a token may only get the status of an
# operation.
_OF_ANY_SESSION = frozenset({Role.ADMIN, Role.READ})
# The key of the token's name in the scope of a request.
_CALLER = "freshtable.caller"

Guard = Callable[[Scope, str], None]
OwnerOf = Callable[[str], str | None]


def guard(
    tokens: tuple[Token, ...],
    hosts: tuple[str, ...] = (),
    owner_of: OwnerOf = lambda _session: None,
    public: frozenset[str] = frozenset(),
) -> Guard:
    """Return a check of requests by route path, which also records the name of the request's token.

    The check raises HTTPException 401 for a request without one of *tokens*. It raises 403 for a browser's
    request on behalf of another site, for a role that is not allowed, and for a session that another token
    opened, according to *owner_of*. Without *tokens*, it accepts all requests to a loopback address or one of
    *hosts*. Requests for *public* paths need no token.
    """

    def check(scope: Scope, path: str) -> None:
        check_site(scope, tokens, hosts)
        if not tokens or path in public:
            return
        token = _token_of(Headers(scope=scope), tokens)
        _check_role(token, roles_of(scope["method"], path))
        if "session_handle" in scope["path_params"] and token.role not in _OF_ANY_SESSION:
            # Use the canonical form, because the endpoint looks the session up by it.
            handle = uuid_of("session_handle", scope["path_params"]["session_handle"])
            if owner_of(handle) not in (None, token.name):
                raise _forbidden(FOREIGN_SESSION.format(session=handle, name=token.name))
        scope[_CALLER] = token.name

    return check


def check_site(scope: Scope, tokens: tuple[Token, ...], hosts: tuple[str, ...], own_origin: str = "") -> None:
    """Raise HTTPException 403 for a browser's request on behalf of another site.

    *own_origin* is the origin of the gateway's page if a proxy serves it.
    Without *tokens*, also raise it for a request to an address that is neither a loopback address nor one of
    *hosts*.
    """
    headers = Headers(scope=scope)
    host, origin = _host_of(headers), headers.get("origin")
    if not tokens and not _is_ours(host, hosts):
        raise _forbidden(STRANGE_HOST.format(host=host[:100]))
    if origin is not None and origin not in (f"{scope['scheme']}://{host}", own_origin):
        raise _forbidden(FOREIGN.format(origin=origin))


def _host_of(headers: Headers) -> str:
    """Return the Host header of a request, or "".

    Raises RequestInvalid for several Host headers, because a proxy may use another one of them.
    """
    hosts = headers.getlist("host")
    if len(hosts) > 1:
        raise RequestInvalid(f"The request has {len(hosts)} Host headers; send one.")
    return hosts[0] if hosts else ""


def _token_of(headers: Headers, tokens: tuple[Token, ...]) -> Token:
    """Return the token in a request. Raises HTTPException 401 if it is not one of *tokens*."""
    scheme, _, sent = headers.get("authorization", "").partition(" ")
    token = find_token(tokens, sent.strip())
    if token is None or scheme.lower() != "bearer":
        raise HTTPException(401, MESSAGE, {"WWW-Authenticate": "Bearer", ERROR_CODE_HEADER: "UNAUTHORIZED"})
    return token


def _check_role(token: Token, roles: frozenset[Role]) -> None:
    """Raise HTTPException 403 unless *token* has one of *roles*."""
    if token.role not in roles:
        needed = " or ".join(role for role in Role if role in roles and role is not Role.ADMIN)
        raise _forbidden(WRONG_ROLE.format(name=token.name, role=token.role, needed=f"{needed} or admin"))


def roles_of(method: str, path: str) -> frozenset[Role]:
    """Return the roles that may call an endpoint, given by its method and route path."""
    return _MAY.get((method, path), SQL)


async def caller_of(request: Request) -> str:
    """Return the name of the request's token, or "" on a gateway without tokens."""
    name: str = request.scope.get(_CALLER, "")
    return name


Caller = Annotated[str, Depends(caller_of)]


def _is_ours(host: str, hosts: tuple[str, ...]) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return is_loopback(name) or name in hosts


def _forbidden(text: str) -> HTTPException:
    return HTTPException(403, text, {ERROR_CODE_HEADER: "FORBIDDEN"})
