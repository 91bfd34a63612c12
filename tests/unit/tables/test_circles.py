"""Materialized tables that would read themselves."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mt_core.errors import DefinitionInvalid
from mt_core.model.run import RefreshRun, RunStatus
from tests.support.manager_world import WHOLE_TABLE, ManagerWorld

SHOWN = "lake.default.shown"
ROWS = [{"ds": "2026-03-01", "amount": 1}]


@pytest.fixture
def world() -> ManagerWorld:
    world = ManagerWorld()
    world.sql(WHOLE_TABLE)
    world.work()
    return world


def test_tables_that_would_read_each_other_in_a_circle_are_refused_naming_it(world: ManagerWorld) -> None:
    world.engine.create_source("lake.default.totals", [{"ds": "2026-03-01", "amount": 1}])
    world.sql(WHOLE_TABLE.replace("totals", "above").replace("FROM orders", "FROM totals"))
    world.engine.create_source("lake.default.above", [{"ds": "2026-03-01", "amount": 1}])

    itself = world.refused(
        lambda: world.sql("ALTER MATERIALIZED TABLE totals AS SELECT * FROM totals"), DefinitionInvalid
    )
    circle = world.refused(
        lambda: world.sql("ALTER MATERIALIZED TABLE totals AS SELECT * FROM above"), DefinitionInvalid
    )

    assert "lake.default.totals reads lake.default.totals;" in itself
    assert "lake.default.totals reads lake.default.above reads lake.default.totals;" in circle


@pytest.fixture
def layers() -> ManagerWorld:
    """The table `totals` reads the view `shown` of `orders`, and the table `above` reads `totals`."""
    world = ManagerWorld()
    world.engine.views[SHOWN] = "SELECT * FROM orders"
    world.sql(WHOLE_TABLE.replace("FROM orders", "FROM shown"))
    world.engine.create_source("lake.default.totals", ROWS)
    world.sql(WHOLE_TABLE.replace("totals", "above").replace("FROM orders", "FROM totals"))
    world.engine.create_source("lake.default.above", ROWS)
    world.work()
    return world


def tick(world: ManagerWorld, *names: str) -> list[RefreshRun]:
    """Carry out the next scheduled refreshes, one after the other."""
    world.clock.advance(timedelta(hours=1))
    ended: list[RefreshRun] = []
    for name in names:
        run = world.tick(world.latest_point(name), name)
        world.work()
        ended.append(world.run(run.run_id))
    return ended


def test_a_circle_through_a_view_is_refused_by_alter_naming_the_view(layers: ManagerWorld) -> None:
    layers.engine.views[SHOWN] = "SELECT * FROM above"
    layers.engine.views["lake.default.outer"] = "SELECT * FROM shown"
    before = layers.state()

    circle = layers.refused(
        lambda: layers.sql("ALTER MATERIALIZED TABLE totals AS SELECT * FROM outer"), DefinitionInvalid
    )

    assert (
        "lake.default.totals reads lake.default.outer reads lake.default.shown reads lake.default.above "
        "reads lake.default.totals;"
    ) in circle
    assert layers.state() == before


def test_a_table_created_where_one_of_its_sources_reads_its_name_is_refused(layers: ManagerWorld) -> None:
    layers.sql("DROP MATERIALIZED TABLE totals")
    del layers.engine.sources["lake.default.totals"]

    circle = layers.refused(
        lambda: layers.sql(WHOLE_TABLE.replace("FROM orders", "FROM above")), DefinitionInvalid
    )

    assert "lake.default.totals reads lake.default.above reads lake.default.totals;" in circle


def test_a_refresh_fails_naming_the_circle_that_a_replaced_view_has_closed(layers: ManagerWorld) -> None:
    before, due = layers.rows("totals"), layers.table("totals").covered_until
    layers.engine.views[SHOWN] = "SELECT * FROM above"

    failed, above = tick(layers, "totals", "above")

    assert (failed.status, failed.broken, layers.rows("totals")) == (RunStatus.FAILED, True, before)
    assert (
        "lake.default.totals would read itself: lake.default.totals reads lake.default.shown reads "
        "lake.default.above reads lake.default.totals;"
    ) in (failed.error or "")
    assert (above.status, above.reason) == (RunStatus.SKIPPED, "sources unchanged")
    assert layers.table("totals").covered_until == due
    assert "would read itself" in layers.refused(
        lambda: layers.sql("EXPLAIN REFRESH totals"), DefinitionInvalid
    )


def test_a_table_is_refreshed_again_once_its_view_is_out_of_the_circle(layers: ManagerWorld) -> None:
    layers.engine.views[SHOWN] = "SELECT * FROM above"
    tick(layers, "totals")
    layers.engine.views[SHOWN] = "SELECT * FROM orders"
    layers.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 7}])

    (run,) = tick(layers, "totals")

    assert run.status is RunStatus.SUCCEEDED
    assert layers.rows("totals") == [{"ds": "2026-03-01", "amount": 7}]


def test_a_table_that_reads_a_circle_of_others_is_refreshed(layers: ManagerWorld) -> None:
    layers.engine.views[SHOWN] = "SELECT * FROM above"

    layers.sql(WHOLE_TABLE.replace("totals", "apart").replace("FROM orders", "FROM shown"))
    layers.work()

    assert [run.status for run in layers.runs("apart")] == [RunStatus.SUCCEEDED]
