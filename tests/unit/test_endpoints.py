from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Annotated

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI, Header, Path, Query, Request
from fastapi.routing import APIRoute

from mt_core.errors import RequestInvalid
from mt_core.gateway.http import errors
from mt_core.gateway.http.answers import JsonAnswer
from mt_core.gateway.http.endpoints import DirectRoute
from mt_core.gateway.http.server import GatewayServer, listen


async def upper(name: Annotated[str, Path()]) -> str:
    if name == "refused":
        raise RequestInvalid("This name is refused.")
    return name.upper()


async def length(request: Request) -> int:
    return len(await request.body())


Upper, Length = Annotated[str, Depends(upper)], Annotated[int, Depends(length)]
Form, Size = Annotated[str, Query(alias="rowForm")], Annotated[int | None, Query(alias="pageSize", ge=1)]
Job = Annotated[str, Path(pattern="^[0-9]{2}$")]


def _router(route_class: type[APIRoute]) -> APIRouter:
    router = APIRouter(route_class=route_class)

    @router.post("/names/{name}/parts/{part}")
    async def coroutine(request: Request, name: Upper, sent: Length, part: str) -> JsonAnswer:
        return JsonAnswer([request.method, name, sent, part])

    @router.get("/pages/{token}")
    async def page(token: str, form: Form = "JSON", size: Size = None) -> JsonAnswer:
        return JsonAnswer([token, form, size])

    @router.get("/jobs/{job}")
    def job(job: Job) -> JsonAnswer:
        return JsonAnswer([job])

    @router.get("/tables/{table:path}/shown")
    async def shown(table: str, tag: Annotated[str | None, Header()] = None) -> JsonAnswer:
        return JsonAnswer([table, tag])

    @router.get("/asked")
    async def asked(form: Form) -> JsonAnswer:
        return JsonAnswer([form])

    @router.get("/threads")
    def thread() -> JsonAnswer:
        return JsonAnswer([threading.current_thread().name.startswith("gateway")])

    return router


@pytest.fixture(scope="module")
def clients() -> Iterator[list[httpx.Client]]:
    """Clients of two applications: endpoints that FastAPI calls, and the same endpoints called directly."""
    servers = []
    for route_class in (APIRoute, DirectRoute):
        app = FastAPI(openapi_url=None)
        errors.install(app)
        app.include_router(_router(route_class))
        servers.append(GatewayServer(app, listen("127.0.0.1", 0)))
        servers[-1].start()
    clients = [httpx.Client(base_url=server.url) for server in servers]
    yield clients
    for client, server in zip(clients, servers, strict=True):
        client.close()
        server.stop()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/names/lake/parts/0", 200),
        ("POST", "/names/l%C3%A4ke%20x/parts/%FF", 200),
        ("POST", "/names/refused/parts/0", 400),
        ("GET", "/names/lake/parts/0", 404),
        ("GET", "/pages/0", 200),
        ("GET", "/pages/0?rowForm=PLAIN&unknown=1", 200),
        ("GET", "/pages/0?rowForm=A&rowForm=B", 200),
        ("GET", "/pages/0?rowForm=", 200),
        ("GET", "/pages/0?rowForm=%FF", 200),
        ("GET", "/pages/0?pageSize=7&rowForm=A", 200),
        ("GET", "/pages/0?pageSize=0", 400),
        ("GET", "/pages/0?pageSize=x", 400),
        ("GET", "/jobs/07", 200),
        ("GET", "/jobs/7", 400),
        ("GET", "/tables/lake.a/b/shown", 200),
        ("GET", "/asked", 400),
        ("GET", "/asked?rowForm=A", 200),
        ("GET", "/threads", 200),
    ],
)
def test_an_endpoint_called_directly_answers_as_one_that_fastapi_calls(
    clients: list[httpx.Client], method: str, path: str, status: int
) -> None:
    body = b"12345" if method == "POST" else None

    through_fastapi, direct = (
        client.request(method, path, content=body, headers={"tag": "t"}) for client in clients
    )

    assert (direct.status_code, direct.content) == (status, through_fastapi.content)
    assert through_fastapi.status_code == status
