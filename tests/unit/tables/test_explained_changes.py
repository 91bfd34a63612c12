"""What EXPLAIN says of changes of sources: those since the last refresh, and those that may come."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from mt_core.errors import DefinitionInvalid, QueryFailed, RequestInvalid, TableExists
from mt_core.incremental.shape import Occurrence, Reach
from mt_core.model.table import Column
from tests.support.fake_tables import shape_of_columns
from tests.support.manager_world import COMPUTED_TABLE, ManagerWorld

ORDERS = "lake.default.orders"
ONE, TWO = {"ds": "2026-03-01", "amount": 1}, {"ds": "2026-03-02", "amount": 2}
CREATE = (
    "CREATE MATERIALIZED TABLE totals WITH ('refresh.strategy' = 'auto') FRESHNESS = INTERVAL '1' DAY "
    "AS SELECT * FROM orders"
)
GROUPED = replace(
    shape_of_columns((Column(name="ds", type="string"), Column(name="amount", type="int"))),
    occurrences={0: Occurrence(reach=Reach.GROUPED, reason="an aggregate is above it")},
)


def lines_of(world: ManagerWorld, statement: str) -> list[str]:
    ((text,),) = (tuple(row.values()) for row in world.show(statement))
    return [line.strip() for line in str(text).splitlines()]


def about_orders(world: ManagerWorld, statement: str = "EXPLAIN REFRESH totals") -> list[str]:
    lines = lines_of(world, statement)
    return lines[lines.index(next(line for line in lines if line.startswith("source:"))) + 1 :]


# --------------------------------------------------------------------------------------------- EXPLAIN CREATE


def test_explain_create_says_what_the_table_would_be_and_how_changes_would_be_applied() -> None:
    world = ManagerWorld()
    version = world.engine.sources[ORDERS].current
    before = world.state()

    told = lines_of(world, f"EXPLAIN {CREATE}")

    assert told == [
        "Creation of lake.default.totals",
        "columns:  ds STRING, amount INT",
        "mode:     FULL (derived: FRESHNESS = INTERVAL '1' DAY is at least "
        "materialized-table.refresh-mode.freshness-threshold, 1800 s)",
        "schedule: every 1 day in UTC, first at 2026-03-02 00:00:00",
        "strategy: auto: applies what changed where that is exact and costs less than to compute all rows",
        f"source:   lake.default.orders (table, version {version})",
        "appended rows: append: only rows are added",
        "changed rows:  stages: rows are added and deleted",
    ]
    assert world.state() == before


def test_explain_create_names_partitions_and_a_declared_mode() -> None:
    world = ManagerWorld()

    told = lines_of(
        world,
        "EXPLAIN CREATE MATERIALIZED TABLE daily PARTITIONED BY (ds, bucket(4, amount)) "
        "FRESHNESS = INTERVAL '1' HOUR REFRESH_MODE = FULL AS SELECT * FROM orders",
    )

    assert told[2:6] == [
        "parts:    ds",
        "layout:   bucket(4, amount)",
        "mode:     FULL (declared)",
        "schedule: every 1 hour in UTC, first at 2026-03-01 13:00:00",
    ]
    assert (
        told[6]
        == "strategy: auto: applies what changed where that is exact and costs less than to compute all rows"
    )


def test_explain_create_of_a_continuous_table_says_when_a_change_is_seen() -> None:
    world = ManagerWorld()

    told = lines_of(
        world,
        "EXPLAIN CREATE MATERIALIZED TABLE live FRESHNESS = INTERVAL '5' SECOND AS SELECT * FROM orders",
    )

    assert told[2:5] == [
        "mode:     CONTINUOUS (derived: FRESHNESS = INTERVAL '5' SECOND is under "
        "materialized-table.refresh-mode.freshness-threshold, 1800 s)",
        "schedule: within 5 seconds of a change",
        "strategy: auto: applies what changed where that is exact and costs less than to compute all rows",
    ]


def test_a_table_that_computes_all_rows_is_told_what_auto_would_do() -> None:
    world = ManagerWorld()

    assert about_orders(world, f"EXPLAIN {COMPUTED_TABLE}") == [
        "appended rows: recompute ('auto' has append: only rows are added)",
        "changed rows:  recompute ('auto' has stages: rows are added and deleted)",
    ]


def test_a_query_without_a_shape_is_told_why_any_change_computes_all_rows() -> None:
    world = ManagerWorld()
    world.engine.shape = "a collation makes different strings equal"

    assert about_orders(world, f"EXPLAIN {CREATE}") == [
        "any change:    recompute: a collation makes different strings equal"
    ]


def test_explain_create_refuses_what_create_would_refuse() -> None:
    world = ManagerWorld()
    world.engine.shape = "a collation makes different strings equal"
    incremental = CREATE.replace("auto", "incremental")
    refused: list[tuple[str, type[Exception]]] = [
        (incremental, DefinitionInvalid),
        (CREATE.replace("refresh.strategy", "refresh.strateg"), RequestInvalid),
        (CREATE.replace("totals", "orders"), TableExists),
        (CREATE.replace("TABLE totals", "TABLE totals PARTITIONED BY (nothing)"), DefinitionInvalid),
    ]

    for statement, error in refused:
        explained = world.refused(partial(world.sql, f"EXPLAIN {statement}"), error)
        created = world.refused(lambda statement=statement: world.sql(statement), error)  # type: ignore[misc]
        assert explained.split(";")[0] == created.split(";")[0]


def test_explain_create_of_a_table_that_exists_is_refused_and_or_alter_explains_the_change() -> None:
    world = ManagerWorld()
    world.sql(CREATE)

    message = world.refused(lambda: world.sql(f"EXPLAIN {CREATE}"), TableExists)
    told = lines_of(world, f"EXPLAIN {CREATE.replace('CREATE', 'CREATE OR ALTER')}")

    assert message.startswith("lake.default.totals exists already")
    assert told[0] == "Change of lake.default.totals"


def test_an_error_of_the_query_has_its_position_in_the_whole_statement() -> None:
    world = ManagerWorld()
    text = "EXPLAIN CREATE MATERIALIZED TABLE t FRESHNESS = INTERVAL '1' DAY AS\n  SELECT * FROM nowhere"

    with pytest.raises(QueryFailed) as caught:
        world.sql(text)

    assert (caught.value.line, caught.value.position) == (2, 17)


# -------------------------------------------------------------------------------------------- EXPLAIN REFRESH


@pytest.fixture
def refreshed() -> ManagerWorld:
    """A world with a table that was refreshed once."""
    world = ManagerWorld()
    world.sql(CREATE)
    world.work()
    world.clock.advance(timedelta(days=1))
    return world


def test_explain_refresh_says_what_changed_and_how_much_of_it_a_refresh_reads(
    refreshed: ManagerWorld,
) -> None:
    refreshed.engine.commit(ORDERS, [ONE, *[ONE] * 9])
    refreshed.tick(refreshed.latest_point("totals"), "totals")
    refreshed.work()
    refreshed.engine.commit(ORDERS, [ONE, *[ONE] * 9, TWO])

    told = lines_of(refreshed, "EXPLAIN REFRESH totals")

    assert told[3] == "strategy: append: only rows are added; reads 1 of 11 bytes"
    assert about_orders(refreshed) == [
        "since then:    1 row appended, 1 byte",
        "appended rows: append: only rows are added",
        "changed rows:  stages: rows are added and deleted",
    ]


def test_explain_refresh_names_the_reason_for_which_all_rows_are_computed(refreshed: ManagerWorld) -> None:
    refreshed.engine.commit(ORDERS, [ONE, TWO, TWO, TWO])

    told = lines_of(refreshed, "EXPLAIN REFRESH totals")

    assert told[3] == "strategy: recompute: 75% of the sources changed; reads all 4 bytes"
    assert about_orders(refreshed)[0] == "since then:    3 rows appended, 3 bytes"


def test_explain_refresh_of_a_table_whose_sources_are_unchanged_writes_nothing(
    refreshed: ManagerWorld,
) -> None:
    told = lines_of(refreshed, "EXPLAIN REFRESH totals")

    assert told[2:4] == ["decision: skip: sources unchanged", "writes:   nothing"]
    assert about_orders(refreshed)[0] == "since then:    nothing changed"


def test_explain_refresh_of_a_table_that_was_never_refreshed_knows_of_no_change() -> None:
    world = ManagerWorld()
    world.sql(CREATE)

    assert [line.partition(":")[0] for line in about_orders(world)] == ["appended rows", "changed rows"]


def test_explain_refresh_agrees_with_the_strategy_of_the_next_refresh(refreshed: ManagerWorld) -> None:
    refreshed.engine.shape = GROUPED
    refreshed.engine.commit(ORDERS, [ONE, TWO])
    told = lines_of(refreshed, "EXPLAIN REFRESH totals")

    run = refreshed.tick(refreshed.latest_point("totals"), "totals")
    refreshed.work()

    assert told[3].startswith(f"strategy: {refreshed.run(run.run_id).strategy}")
