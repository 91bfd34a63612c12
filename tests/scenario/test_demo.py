"""The demo and a gateway: its board, and what it asks about its tables."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from mt_core.base.rowset import Column, RowSet
from mt_core.demo.board import Board
from mt_core.demo.facts import read_decision
from mt_core.sessions.ports import StatementResult
from tests.support.gateway.whole import WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway

ROUTES = "lake.demo.routes"
CREATE = f"""CREATE MATERIALIZED TABLE {ROUTES} FRESHNESS = INTERVAL '10' SECOND REFRESH_MODE = FULL
AS SELECT * FROM lake.default.orders"""


def test_the_board_shows_the_tables_of_a_gateway(whole: WholeGateway) -> None:
    whole.sql(CREATE)
    whole.wait_quiet()
    whole.pass_time(seconds=15)
    whole.statements.answers[f"SELECT count(*) AS n FROM {ROUTES}"] = StatementResult(
        is_query=True, rows=RowSet(columns=[Column(name="n")], rows=[[2]])
    )
    console = Console(file=StringIO(), width=200, record=True)

    console.print(Board(whole.client, caption="flights arrive").draw())

    [line] = [line for line in console.export_text().splitlines() if "routes" in line]
    shown = [cell.strip() for cell in line.strip("│").split("│")]
    assert shown == [
        *("routes", "FULL", "10 seconds", "2026-03-01 07:00:10", "0 s", "2"),
        *("skipped whole table", "sources unchanged"),
    ]


def test_the_decision_of_a_refresh_is_read_from_its_explanation(whole: WholeGateway) -> None:
    whole.sql(CREATE)
    whole.wait_quiet()
    settled = read_decision(whole.client, ROUTES)

    whole.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 7}])

    assert (settled, read_decision(whole.client, ROUTES)) == ("skip", "refresh")
