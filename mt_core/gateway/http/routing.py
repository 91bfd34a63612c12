"""Routing: the endpoint of a path is found by two lookups, however many versions and endpoints exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

from mt_core.gateway.http.bodies import BUFFERED
from mt_core.gateway.http.security import Guard

_FOUND = "freshtable.route"
UNKNOWN = "(unknown)"
"""The route of requests for which there is no endpoint."""


class VersionRoutes(BaseRoute):
    """The routes of every API version, by prefix. Prefix "" serves paths that start with no other prefix.

    The first parts of the prefixes, which may have several, differ.

    *guard* checks every request before its endpoint runs, and raises HTTPException to reject it. The routes
    with a prefix in *own_checks* check their requests themselves.
    """

    def __init__(
        self,
        versions: Mapping[str, Sequence[BaseRoute]],
        guard: Guard,
        own_checks: frozenset[str] = frozenset(),
    ) -> None:
        self._guard, self._own_checks = guard, own_checks
        self._versions = {prefix: _by_length(routes) for prefix, routes in versions.items()}
        self._prefixes = {prefix[1:].partition("/")[0]: prefix for prefix in versions if prefix}

    def endpoints(self) -> set[tuple[str, str]]:
        """Return the method and path of every endpoint that the guard checks, without version prefixes."""
        checked = [lengths for prefix, lengths in self._versions.items() if prefix not in self._own_checks]
        routes = (route for lengths in checked for each in lengths.values() for route in each)
        return {
            (method, route.path)
            for route in routes
            if isinstance(route, Route)
            for method in route.methods or ()
        }

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Find the endpoint. The match is PARTIAL if the path has endpoints, but not for this method.

        A trailing slash is ignored, as in Flink, because FLIP-91 writes one.
        """
        path: str = scope["path"].rstrip("/")
        prefix = self._prefixes.get(path[1:].partition("/")[0], "")
        if path != prefix and not path.startswith(f"{prefix}/"):
            prefix = ""
        if path == prefix:
            # The route of the prefix itself.
            path = f"{prefix}/"
        candidates = self._versions[prefix].get(path.count("/", len(prefix)), self._versions[prefix][_ANY])
        child_scope = {**scope, "path": path, "root_path": prefix}
        partial: tuple[Match, Scope] = (Match.NONE, {})
        for route in candidates:
            match, child = route.matches(child_scope)
            if match is not Match.NONE:
                # As with mounts in Starlette, the base of URLs is that of the whole application.
                child = {
                    **child,
                    "root_path": prefix,
                    "app_root_path": scope.get("root_path", ""),
                    _FOUND: route,
                }
            if match is Match.FULL:
                # The URI of the next result page is derived from this path.
                return match, {**child, "path": path}
            if match is Match.PARTIAL and partial[0] is Match.NONE:
                partial = match, child
        return partial

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the endpoint that `matches` found, then release the body. Raises HTTPException."""
        route: BaseRoute = scope[_FOUND]
        if isinstance(route, Route) and route.methods and scope["method"] not in route.methods:
            raise HTTPException(404)
        if scope["root_path"] not in self._own_checks:
            self._guard(scope, getattr(route, "path", ""))
        try:
            await route.handle(scope, receive, send)
        finally:
            if BUFFERED in scope:
                scope[BUFFERED].release()


def route_of(scope: Scope) -> str:
    """Return the path of the endpoint that answered a request, with its prefix and names of parameters."""
    route = scope.get(_FOUND)
    if not isinstance(route, Route) or scope["method"] not in (route.methods or ()):
        return UNKNOWN
    return f"{scope['root_path']}{route.path}"


_ANY = -1


def _by_length(routes: Sequence[BaseRoute]) -> dict[int, list[BaseRoute]]:
    """Return the routes by their number of path segments, in order.

    `_ANY` holds the routes that match any number of segments.
    """
    paths = [getattr(route, "path", "{:path}") for route in routes]
    lengths = [_ANY if ":path}" in path else path.count("/") for path in paths]
    return {
        length: [route for route, own in zip(routes, lengths, strict=True) if own in (length, _ANY)]
        for length in {*lengths, _ANY}
    }
