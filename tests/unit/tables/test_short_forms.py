"""The short forms of SHOW MATERIALIZED TABLES and SHOW REFRESHES, as the client prints them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from mt_core.client.pages import ResultPage
from mt_core.registry.store import SqlRegistry
from mt_core.terminal.output.form import Form
from mt_core.terminal.output.result import print_result
from mt_core.terminal.script import has_long_form
from tests.support.manager_world import ManagerWorld

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
ORDERS = "lake.default.orders"
SCREEN = 120
TABLES = {
    "lake.shop.revenue": "FRESHNESS = INTERVAL '1' HOUR REFRESH_MODE = FULL",
    "lake.shop.board": "FRESHNESS = INTERVAL '10' SECOND REFRESH_MODE = CONTINUOUS",
    "lake.shop.daily_sales": "FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL",
    "lake.shop.live_refunds": "FRESHNESS = INTERVAL '15' MINUTE REFRESH_MODE = FULL",
    "lake.shop.segment_totals": "SCHEDULE CRON '0 6 * * MON-FRI' AT TIME ZONE 'Europe/Berlin'",
    "lake.shop.closed": "FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL",
}
LONG_ERROR = (
    "A column or function parameter with name `amount` cannot be resolved.\nDid you mean `total`? " * 5
)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def world() -> ManagerWorld:
    """Six tables: two of them refresh, one is kept at once, one fails, one has a cron, one is suspended."""
    world = ManagerWorld()
    for name, cadence in TABLES.items():
        world.sql(f"CREATE MATERIALIZED TABLE {name} {cadence} AS SELECT * FROM orders")
        world.work()
    world.sql("ALTER MATERIALIZED TABLE lake.shop.closed SUSPEND")
    world.clock.advance(timedelta(minutes=23))
    world.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 2}])
    world.engine.failing["write"] = RuntimeError(LONG_ERROR)
    world.sql("ALTER MATERIALIZED TABLE lake.shop.live_refunds REFRESH")
    world.work()
    return world


def screen(world: ManagerWorld, statement: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the lines of the rows that a terminal shows."""
    monkeypatch.setenv("COLUMNS", str(SCREEN))
    rows = world.sql(statement).rows
    assert rows is not None
    page = ResultPage(
        columns=tuple(rows.columns), rows=rows.page(0, 10_000), is_query=False, has_content=True
    )
    out = Terminal()
    print_result([page], Form.TABLE, out, cut=has_long_form(statement))
    lines = COLOURS.sub("", out.getvalue()).splitlines()
    assert max(map(len, lines)) <= SCREEN
    return [line for line in lines if line.startswith("│")]


def test_six_tables_are_six_lines_of_a_screen(world: ManagerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = screen(world, "SHOW MATERIALIZED TABLES", monkeypatch)

    assert [[cell.strip() for cell in line.strip("│").split("│")][:-1] for line in shown] == [
        ["board", "lake.shop", "CONTINUOUS", "10 seconds", "ACTIVATED", "LATE", "23 min", "<NULL>"],
        ["closed", "lake.shop", "FULL", "1 day", "SUSPENDED", "SUSPENDED", "23 min", "<NULL>"],
        ["daily_sales", "lake.shop", "FULL", "1 day", "ACTIVATED", "OK", "23 min", "03-02 00:00"],
        [
            "live_refunds",
            "lake.shop",
            "FULL",
            "15 minutes",
            "ACTIVATED",
            "FAILING",
            "23 min",
            "03-01 12:30",
        ],
        ["revenue", "lake.shop", "FULL", "1 hour", "ACTIVATED", "OK", "23 min", "03-01 13:00"],
        [
            "segment_totals",
            "lake.shop",
            "FULL",
            "0 6 * * MON-FRI",
            "ACTIVATED",
            "OK",
            "23 min",
            "03-02 06:00",
        ],
    ]
    assert shown[3].rstrip("│ ").endswith("…")


def test_the_namespace_that_a_statement_names_leaves_its_room_to_the_error(
    world: ManagerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = screen(world, "SHOW MATERIALIZED TABLES IN lake.shop", monkeypatch)

    failed = [cell.strip() for cell in shown[3].strip("│").split("│")]
    assert (len(shown), failed[0], failed[4], failed[-1]) == (
        6,
        "live_refunds",
        "FAILING",
        "write failed: A colu…",
    )


def test_the_ledger_is_a_line_a_refresh(world: ManagerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = screen(world, "SHOW REFRESHES LIMIT 3", monkeypatch)

    failed, closed, totals = [[cell.strip() for cell in line.strip("│").split("│")] for line in shown]
    name, when, status, scope, rows, strategy, _, reason = failed
    assert (name, when, status) == ("lake.shop.live_refunds", "2026-03-01 12:23:00", "FAILED")
    assert (scope, rows, strategy, reason[-1]) == ("whole table", "<NULL>", "<NULL>", "…")
    assert closed[:6] == [
        "lake.shop.closed",
        "2026-03-01 12:00:00",
        "SUCCEEDED",
        "whole table",
        "1",
        "recompute",
    ]
    assert totals[0] == "lake.shop.segment_totals"


def test_the_short_forms_have_the_error_in_one_line_and_extended_the_whole(world: ManagerWorld) -> None:
    short, extended = (
        world.show(f"SHOW MATERIALIZED TABLES LIKE 'live%' {form}")[0]["last error"]
        for form in ("", "EXTENDED")
    )
    reason = world.show("SHOW REFRESHES FOR lake.shop.live_refunds LIMIT 1")[0]["reason"]
    error = world.show("SHOW REFRESHES FOR lake.shop.live_refunds EXTENDED LIMIT 1")[0]["error"]

    assert short == reason == f"{' '.join(str(extended).split())[:99]}…"
    assert extended == error
    assert LONG_ERROR in str(extended)


def test_extended_has_every_column_of_the_short_form(world: ManagerWorld) -> None:
    for statement in ("SHOW MATERIALIZED TABLES", "SHOW REFRESHES"):
        short, extended = world.show(statement), world.show(f"{statement} EXTENDED")
        assert short[0].keys() <= extended[0].keys()
        assert len(short[0]) < len(extended[0])
        assert len(short) == len(extended)


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[ManagerWorld]:
    """A world on a registry of SQLite."""
    registry = SqlRegistry.open(f"sqlite:///{tmp_path}/registry.db")
    yield ManagerWorld(registry=registry)
    registry.close()


def asked(world: ManagerWorld, statement: str) -> int:
    """Return how many statements the registry executes for *statement*."""
    counted = list[str]()

    def count(_connection: object, _cursor: object, text: str, *_: object) -> None:
        counted.append(text)

    event.listen(Engine, "before_cursor_execute", count)
    world.sql(statement)
    event.remove(Engine, "before_cursor_execute", count)
    return len(counted)


def test_a_list_of_tables_asks_the_registry_as_often_however_many_tables_there_are(
    stored: ManagerWorld,
) -> None:
    numbers = []
    for first, last in ((0, 2), (2, 12)):
        for number in range(first, last):
            below = "orders" if number % 2 == 0 else f"lake.default.t{number - 1}"
            stored.sql(
                f"CREATE MATERIALIZED TABLE t{number} {TABLES['lake.shop.revenue']} AS SELECT * FROM {below}"
            )
            stored.work()
        stored.sql("SHOW MATERIALIZED TABLES")
        numbers.append(asked(stored, "SHOW MATERIALIZED TABLES"))

    assert numbers[0] == numbers[1]
