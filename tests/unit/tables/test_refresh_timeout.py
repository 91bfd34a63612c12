"""A refresh that takes longer than it may is ended, so that it does not keep a worker for ever."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mt_core.errors import ConfigError
from mt_core.model.run import RunStatus
from mt_core.tables.refresh.workers import Workers
from tests.support.manager_world import WHOLE_TABLE, ManagerWorld

KEY = "materialized-table.refresh.timeout"
LIMITED = WHOLE_TABLE.replace("FRESHNESS", f"WITH ('{KEY}' = '2 h') FRESHNESS", 1)


def work_for(world: ManagerWorld, length: timedelta) -> RunStatus:
    """Let the first refresh stand before its write for so long, while leases are renewed."""
    claimed = world.claim()
    assert claimed is not None
    workers = Workers(world.services, count=0)
    steps = world.attempt(claimed)
    for step in steps:
        if step == "write":
            world.clock.advance(length)
            workers.renew_leases([claimed])
    return world.run(claimed.run.run_id).status


def test_a_refresh_longer_than_the_tables_timeout_fails_and_names_the_setting() -> None:
    world = ManagerWorld()
    world.sql(LIMITED)

    status = work_for(world, timedelta(hours=2))

    (run,) = world.runs("totals")
    assert status is RunStatus.FAILED
    assert (run.error or "").startswith(
        "Refresh of lake.default.totals took longer than 7200 s and was stopped; "
        f"make its query cheaper, or raise {KEY}, for this table with CREATE OR ALTER MATERIALIZED TABLE"
    )
    assert world.engine.load(world.table("totals").identifier).branches == {}


def test_a_refresh_shorter_than_its_timeout_succeeds() -> None:
    world = ManagerWorld()
    world.sql(LIMITED)

    assert work_for(world, timedelta(minutes=119)) is RunStatus.SUCCEEDED


def test_without_a_timeout_a_refresh_takes_as_long_as_it_likes() -> None:
    world = ManagerWorld()
    world.sql(WHOLE_TABLE)

    assert work_for(world, timedelta(days=2)) is RunStatus.SUCCEEDED


def test_a_timeout_that_is_no_duration_is_refused_at_create() -> None:
    world = ManagerWorld()

    text = world.refused(lambda: world.sql(LIMITED.replace("2 h", "soon")), ConfigError)

    assert KEY in text
    assert world.show("SHOW MATERIALIZED TABLES") == []


@pytest.mark.parametrize("value", ["0 s", "0"])
def test_a_table_can_have_no_timeout(value: str) -> None:
    world = ManagerWorld()
    world.sql(LIMITED.replace("2 h", value))

    assert work_for(world, timedelta(days=2)) is RunStatus.SUCCEEDED
