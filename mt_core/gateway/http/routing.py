"""Routing: from a path to its endpoint in two look-ups, however many versions and endpoints there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

from mt_core.gateway.http.bodies import KEPT
from mt_core.gateway.http.security import Guard

_FOUND = "freshtable.route"


class VersionRoutes(BaseRoute):
    """The routes of every API version by its prefix; those of the prefix "" answer the paths
    that begin with no other.

    *guard* checks every request that an endpoint would answer, and raises HTTPException for one
    that it refuses.
    """

    def __init__(self, versions: Mapping[str, Sequence[BaseRoute]], guard: Guard) -> None:
        self._guard = guard
        self._versions = {prefix: _by_length(routes) for prefix, routes in versions.items()}

    def endpoints(self) -> set[tuple[str, str]]:
        """Return method and path, without the prefix of a version, of every endpoint."""
        routes = (route for lengths in self._versions.values() for each in lengths.values() for route in each)
        return {
            (method, route.path)
            for route in routes
            if isinstance(route, Route)
            for method in route.methods or ()
        }

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Find the endpoint; PARTIAL for a path that has endpoints, but none of this method.
        As in Flink, a last slash counts for nothing: FLIP-91 has one."""
        path: str = scope["path"].rstrip("/")
        prefix, slash, _ = path[1:].partition("/")
        prefix = f"/{prefix}" if slash and f"/{prefix}" in self._versions else ""
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
                # The next page of a result is named by the path of this one.
                return match, {**child, "path": path}
            if match is Match.PARTIAL and partial[0] is Match.NONE:
                partial = match, child
        return partial

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the endpoint of `matches`, and release the body; raises HTTPException."""
        route: BaseRoute = scope[_FOUND]
        if isinstance(route, Route) and route.methods and scope["method"] not in route.methods:
            raise HTTPException(404)
        self._guard(scope, getattr(route, "path", ""))
        try:
            await route.handle(scope, receive, send)
        finally:
            if KEPT in scope:
                scope[KEPT].release()


_ANY = -1


def _by_length(routes: Sequence[BaseRoute]) -> dict[int, list[BaseRoute]]:
    """Return the routes by the number of parts of their paths, in their order;
    under `_ANY` those of paths of any length.
    """
    paths = [getattr(route, "path", "{:path}") for route in routes]
    lengths = [_ANY if ":path}" in path else path.count("/") for path in paths]
    return {
        length: [route for route, own in zip(routes, lengths, strict=True) if own in (length, _ANY)]
        for length in {*lengths, _ANY}
    }
