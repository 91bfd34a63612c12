"""SHOW LINEAGE: what materialized tables read, as a tree of rows."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mt_core.errors import MtError, NotMaterializedTable, TableNotFound
from mt_core.sql.statements import ShowLineage
from mt_core.tables.overview.facts import Read
from mt_core.tables.overview.lateness import Fault, State
from mt_core.tables.pages import UnreadableTable
from mt_core.tables.views.lineage_rows import lineage_rows
from tests.support.manager_world import DAILY, WHOLE_TABLE, ManagerWorld
from tests.support.registry_facts import HOUR, NOON
from tests.support.table_facts import table_facts, table_named

WEEKLY = WHOLE_TABLE.replace("totals", "weekly").replace("FROM orders", "FROM daily")


def shown(world: ManagerWorld, of: str = "") -> list[tuple[object, ...]]:
    """Return table, kind, reads and state of each row, the table indented by its depth."""
    rows = world.show(f"SHOW LINEAGE {of}")
    return [
        (f"{'  ' * int(str(row['depth']))}{row['table']}", row["kind"], row["reads"], row["state"])
        for row in rows
    ]


def test_lineage_of_a_table_leads_down_to_its_sources(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work()
    world.sql(WEEKLY)
    world.work()

    assert shown(world, "OF weekly") == [
        ("lake.default.weekly", "materialized table", "lake.default.daily", "OK"),
        ("  lake.default.daily", "materialized table", "lake.default.orders", "OK"),
        ("    lake.default.orders", "table", None, None),
    ]
    assert shown(world, "OF lake.default.daily") == [
        ("lake.default.daily", "materialized table", "lake.default.orders", "OK"),
        ("  lake.default.orders", "table", None, None),
    ]


def test_lineage_without_a_name_begins_with_the_tables_that_no_other_reads(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.sql(WEEKLY)
    world.sql(WHOLE_TABLE)
    world.work()

    assert [row[0] for row in shown(world)] == [
        "lake.default.totals",
        "  lake.default.orders",
        "lake.default.weekly",
        "  lake.default.daily",
        "    lake.default.orders",
    ]


def test_lineage_has_the_columns_of_the_page_and_extended_adds_when(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work()
    world.clock.advance(timedelta(minutes=3))

    (root, _), (extended, source) = world.show("SHOW LINEAGE"), world.show("SHOW LINEAGE OF daily EXTENDED")

    assert list(root) == ["table", "kind", "reads", "depth", "state"]
    times = {"freshness": "INTERVAL '1' DAY", "stale for": "3 min", "late by": None}
    assert extended == {**root, **times}
    assert source == {
        **dict.fromkeys(extended),
        "table": "lake.default.orders",
        "kind": "table",
        "depth": 1,
    }


def test_a_table_is_shown_as_soon_as_it_is_created_and_no_longer_once_it_is_dropped(
    world: ManagerWorld,
) -> None:
    world.sql(DAILY)

    created = shown(world, "OF daily")
    world.sql("DROP MATERIALIZED TABLE daily")

    assert created[0][0] == "lake.default.daily"
    assert shown(world) == []


def test_an_unknown_name_and_another_table_are_refused_as_by_show_create(world: ManagerWorld) -> None:
    for name, error in (("nope", TableNotFound), ("orders", NotMaterializedTable)):
        text = world.refused(lambda name=name: world.sql(f"SHOW LINEAGE OF {name}"), error)

        assert text == world.refused(
            lambda name=name: world.sql(f"SHOW CREATE MATERIALIZED TABLE {name}"), error
        )


def test_a_table_that_is_dropped_meanwhile_is_not_found() -> None:
    with pytest.raises(TableNotFound, match=r"lake\.shop\.gone was dropped"):
        lineage_rows([], NOON, ShowLineage(name=("gone",)), table_named("gone"))


def test_each_kind_of_source_is_named_and_a_late_table_says_its_cause() -> None:
    reads = tuple(
        Read(name=name, kind=kind)
        for name, kind in (
            ("lake.shop.paid", "view"),
            ("lake.shop.orders", "table"),
            ("net", "function"),
            ("lake.shop.clicks", "stream"),
        )
    )
    late = table_facts("daily", reads=reads, state=State.LATE, late_at=NOON - 3 * HOUR, fault=Fault.QUERY)
    silent = table_facts("hourly", "orders", silent_at=NOON - 2 * HOUR, fault=Fault.WRITER)
    broken = UnreadableTable(identifier=table_named("broken"), error=MtError("It has version 9."))

    rows = lineage_rows([broken, late, silent], NOON, ShowLineage(extended=True), None)

    assert [[row[0], row[1], row[4], row[7]] for row in rows.page(0, 9)] == [
        ["lake.shop.broken", "materialized table", "FAILING", None],
        ["lake.shop.daily", "materialized table", "LATE", "3 h (query)"],
        ["lake.shop.paid", "view", None, None],
        ["lake.shop.orders", "table", None, None],
        ["net", "function", None, None],
        ["lake.shop.clicks", "stream", None, None],
        ["lake.shop.hourly", "materialized table", "OK", "2 h (writer)"],
        ["lake.shop.orders", "table", None, None],
    ]
