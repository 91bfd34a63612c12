"""The demo's board, over a gateway that gives prepared answers."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import httpx
from rich.console import Console

from mt_core.client.http import GatewayClient
from mt_core.demo.board import Board

Rows = list[dict[str, Any]]
DAILY = {"materialized table": "daily", "refresh mode": "FULL", "freshness": "INTERVAL '1' DAY"}
ROUTES = {"materialized table": "routes", "refresh mode": "FULL", "freshness": "INTERVAL '10' SECOND"}
RUN = {
    "materialized table": "lake.demo.routes",
    "status": "SUCCEEDED",
    "partitions": "whole table",
    "schedule time": "2026-11-22 02:38:30",
    "snapshot": "7",
    "error": None,
    "reason": "lake.demo.flights changed",
}


class Answers:
    """A gateway that answers statements from a dictionary, and counts how often it was asked for each."""

    def __init__(self, rows: dict[str, Rows]) -> None:
        self.rows, self.asked = rows, list[str]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=self._result(self.rows[self.asked[-1]]))
        if request.url.path.endswith("/statements"):
            self.asked.append(json.loads(request.content)["statement"])
        return httpx.Response(200, json={"sessionHandle": "s", "operationHandle": "o"})

    @staticmethod
    def _result(rows: Rows) -> dict[str, Any]:
        kind = {"type": "VARCHAR", "nullable": True, "length": 2147483647}
        columns = [{"name": name, "logicalType": kind, "comment": None} for name in rows[0]] if rows else []
        data = [{"kind": "INSERT", "fields": list(row.values())} for row in rows]
        return {
            "resultType": "EOS",
            "isQueryResult": True,
            "resultKind": "SUCCESS_WITH_CONTENT",
            "results": {"columns": columns, "rowFormat": "JSON", "data": data},
        }


def drawn(board: Board) -> list[list[str]]:
    """Return the cells of the board's rows."""
    console = Console(file=StringIO(), width=200, record=True)
    console.print(board.draw())
    lines = [line for line in console.export_text().splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def answers_for(state: dict[str, Any], stale_for: str | None, runs: Rows) -> Answers:
    name = state["materialized table"]
    return Answers(
        {
            "SHOW MATERIALIZED TABLES IN lake.demo EXTENDED": [{**state, "stale for": stale_for}],
            f"SHOW REFRESHES FOR lake.demo.{name} EXTENDED LIMIT 20": runs,
            f"SELECT count(*) AS n FROM lake.demo.{name}": [{"n": 45}],
        }
    )


def test_a_row_of_the_board_shows_the_last_refresh_that_ended_and_why_it_ran() -> None:
    runs = [{**RUN, "status": "RUNNING", "schedule time": None}, RUN]
    server = answers_for(ROUTES, "9 s (only ds=2013-01-15)", runs)

    with GatewayClient("http://gw", transport=httpx.MockTransport(server)) as client:
        rows = drawn(Board(client, caption="flights arrive"))

    shown = ["routes", "FULL", "10 seconds", "2026-11-22 02:38:30", "9 s", "45", "refreshed whole table"]
    assert rows == [[*shown, "lake.demo.flights changed"]]


def test_the_board_names_the_zone_of_its_schedule_times() -> None:
    server = answers_for(ROUTES, "9 s", [RUN])
    console = Console(file=StringIO(), width=200, record=True)

    with GatewayClient("http://gw", transport=httpx.MockTransport(server)) as client:
        console.print(Board(client, caption="flights arrive").draw())

    assert "America/New_York" in console.export_text()


def test_a_table_without_a_refresh_waits() -> None:
    server = answers_for(DAILY, None, [])

    with GatewayClient("http://gw", transport=httpx.MockTransport(server)) as client:
        rows = drawn(Board(client, caption="flights arrive"))

    assert rows == [["daily", "FULL", "1 day", "-", "-", "45", "waiting", ""]]


def test_rows_are_counted_again_only_after_a_refresh_has_published_some() -> None:
    server = answers_for(ROUTES, "3 min", [RUN])
    count = "SELECT count(*) AS n FROM lake.demo.routes"

    with GatewayClient("http://gw", transport=httpx.MockTransport(server)) as client:
        board = Board(client, caption="flights arrive")
        first, second = drawn(board), drawn(board)
        once = server.asked.count(count)
        server.rows["SHOW REFRESHES FOR lake.demo.routes EXTENDED LIMIT 20"] = [{**RUN, "snapshot": "8"}]
        board.draw()

    assert (first, first[0][4]) == (second, "3 min")
    assert (once, server.asked.count(count)) == (1, 2)
