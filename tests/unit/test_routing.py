from __future__ import annotations

from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Match, Route
from starlette.types import Scope

from mt_core.gateway.http.routing import VersionRoutes


def _route(path: str, name: str, method: str = "GET") -> Route:
    async def endpoint(request: Request) -> PlainTextResponse:
        return PlainTextResponse(name)

    return Route(path, endpoint, methods=[method], name=name)


def _scope(path: str, method: str = "GET") -> dict[str, Any]:
    return {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}


ROUTES = VersionRoutes(
    {
        "/v1": [
            _route("/info", "info of v1"),
            _route("/s/{one}", "shown"),
            _route("/s/{one}", "closed", "DELETE"),
        ],
        "/v3": [_route("/s/{name:path}/refresh", "refreshed"), _route("/s/{one}/refresh/{two}", "fetched")],
        "/own/v1": [_route("/tables", "tables"), _route("/tables/{one}", "table")],
        "": [_route("/info", "info of the default"), _route("/v1x/info", "no version")],
    },
    guard=lambda _scope: None,
)


def _found(path: str, method: str = "GET") -> tuple[Match, str | None, dict[str, Any], Scope]:
    match, child = ROUTES.matches(_scope(path, method))
    route = child.get("freshtable.route")
    return match, route and route.name, child.get("path_params", {}), child


@pytest.mark.parametrize(
    ("path", "name", "parameters"),
    [
        ("/v1/info", "info of v1", {}),
        ("/info", "info of the default", {}),
        ("/v1x/info", "no version", {}),
        ("/v1/s/7", "shown", {"one": "7"}),
        ("/v1/s/7/", "shown", {"one": "7"}),
        ("/v1/info//", "info of v1", {}),
        ("/own/v1/tables", "tables", {}),
        ("/own/v1/tables/own/", "table", {"one": "own"}),
        ("/info/", "info of the default", {}),
        ("/v3/s/with/a/slash/refresh/", "refreshed", {"name": "with/a/slash"}),
        ("/v3/s/lake.default.t/refresh", "refreshed", {"name": "lake.default.t"}),
        ("/v3/s/with/a/slash/refresh", "refreshed", {"name": "with/a/slash"}),
        ("/v3/s/7/refresh/0", "fetched", {"one": "7", "two": "0"}),
    ],
)
def test_a_path_leads_to_the_endpoint_of_its_version(
    path: str, name: str, parameters: dict[str, str]
) -> None:
    match, found, given, _ = _found(path)

    assert (match, found, given) == (Match.FULL, name, parameters)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//",
        "/v1",
        "/v1/",
        "/v1/infos/",
        "/v1/s/",
        "/v1/s/7/8",
        "/v3/info",
        "/v4/info",
        "/s/7",
        "/v1/v1/info",
        "/own",
        "/own/v1",
        "/own/info",
        "/own/v2/tables",
        "/own/v10/tables",
        "/tables",
    ],
)
def test_any_other_path_leads_nowhere(path: str) -> None:
    assert _found(path)[:2] == (Match.NONE, None)


def test_endpoints_of_one_path_are_told_apart_by_their_method() -> None:
    assert [_found("/v1/s/7", method)[:2] for method in ("GET", "DELETE", "PUT")] == [
        (Match.FULL, "shown"),
        (Match.FULL, "closed"),
        (Match.PARTIAL, "shown"),
    ]


def test_the_base_of_urls_is_that_of_the_whole_application() -> None:
    scope = _scope("/v1/info") | {"scheme": "http", "server": ("host", 80), "query_string": b""}
    scope.update(_found("/v1/info")[3])

    assert str(Request(scope).base_url) == "http://host/"
    assert Request(scope).url.path == "/v1/info"
