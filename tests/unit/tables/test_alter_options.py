"""ALTER MATERIALIZED TABLE … SET (…) and RESET (…): options change, and the rows stay."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mt_core.errors import ConfigError, DefinitionInvalid, EngineError, RequestInvalid
from mt_core.incremental.shape import Occurrence, Reach
from mt_core.model.run import RunStatus
from mt_core.model.table import Column, TableIdentifier
from tests.support.fake_tables import shape_of_columns
from tests.support.manager_world import DAILY, WHOLE_TABLE, ManagerWorld
from tests.unit.tables.failing_registry import (
    Killed,
    clears_the_intent,
    failing_world,
    registry_of,
    takes_an_intent,
)

TOTALS = TableIdentifier("lake", ("default",), "totals")
SET = "ALTER MATERIALIZED TABLE totals SET ('refresh.strategy' = 'auto', 'write.format.default' = 'orc')"
CHANGED = {"refresh.strategy": "auto", "write.format.default": "orc"}


@pytest.fixture
def world() -> ManagerWorld:
    """A world with a table that was refreshed once, whose registry can fail."""
    world = failing_world()
    world.sql(WHOLE_TABLE)
    world.work()
    return world


def options_of(world: ManagerWorld) -> dict[str, str]:
    return dict(world.table("totals").definition.options)


def stored(world: ManagerWorld) -> dict[str, str]:
    return dict(world.engine.storages[TOTALS].spec.properties)


def test_set_changes_options_and_storage_and_makes_no_rebuild_due(world: ManagerWorld) -> None:
    outcome = world.sql(SET)

    assert (outcome.wait_for, outcome.warnings) == (None, ())
    assert (options_of(world), stored(world)) == (CHANGED, {"write.format.default": "orc"})
    assert world.table("totals").rebuild_due is None
    assert [run.status for run in world.runs("totals")] == [RunStatus.SUCCEEDED]
    assert "'refresh.strategy' = 'auto'" in str(world.show("SHOW CREATE MATERIALIZED TABLE totals"))


def test_the_next_refresh_follows_the_strategy_that_was_set(world: ManagerWorld) -> None:
    world.sql(SET)
    world.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 1}] * 2)
    world.clock.advance(timedelta(hours=1))
    run = world.tick(world.latest_point("totals"), "totals")

    world.work()

    assert world.run(run.run_id).strategy == "append"


def test_set_keeps_the_other_options_and_reset_removes_only_those_named(world: ManagerWorld) -> None:
    world.sql(SET)
    world.sql("ALTER MATERIALIZED TABLE totals SET ('refresh.strategy' = 'incremental')")
    assert options_of(world) == {**CHANGED, "refresh.strategy": "incremental"}

    world.sql("ALTER MATERIALIZED TABLE totals RESET ('write.format.default', 'write.data.path')")

    assert (options_of(world), stored(world)) == ({"refresh.strategy": "incremental"}, {})


def test_an_option_of_storage_is_not_needed_for_one_of_refreshes(world: ManagerWorld) -> None:
    world.engine.away = True

    world.sql("ALTER MATERIALIZED TABLE totals SET ('refresh.strategy' = 'auto')")

    assert options_of(world) == {"refresh.strategy": "auto"}


def test_an_option_without_effect_is_kept_with_a_warning(world: ManagerWorld) -> None:
    outcome = world.sql("ALTER MATERIALIZED TABLE totals SET ('sink.parallelism' = '4')")

    assert options_of(world) == {"sink.parallelism": "4"}
    assert outcome.warnings == ("lake.default.totals: sink.parallelism: accepted, but without effect here.",)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (
            "SET ('refresh.strateg' = 'auto')",
            RequestInvalid,
            "SET of lake.default.totals: unknown option refresh.strateg; did you mean refresh.strategy?",
        ),
        (
            "RESET ('write.format.defaul')",
            RequestInvalid,
            (
                "RESET of lake.default.totals: unknown option write.format.defaul; "
                "did you mean write.format.default?"
            ),
        ),
        (
            "SET ('refresh.strategy' = 'clever')",
            RequestInvalid,
            "'refresh.strategy' = 'clever' is none of 'auto'",
        ),
        (
            "SET ('materialized-table.refresh.timeout' = 'soon')",
            ConfigError,
            "materialized-table.refresh.timeout",
        ),
    ],
)
def test_what_cannot_be_an_option_is_refused_and_changes_nothing(
    world: ManagerWorld, change: str, error: type[Exception], text: str
) -> None:
    before = world.state()

    message = world.refused(lambda: world.sql(f"ALTER MATERIALIZED TABLE totals {change}"), error)

    assert text in message
    assert world.state() == before


@pytest.mark.parametrize(
    "change",
    ["SET ('partition.fields.ds.date-formatter' = 'yyyy')", "RESET ('partition.fields.ds.date-formatter')"],
)
def test_a_date_formatter_is_refused_with_the_statement_that_changes_it(change: str) -> None:
    world = ManagerWorld()
    world.sql(DAILY)
    before = world.state()

    message = world.refused(lambda: world.sql(f"ALTER MATERIALIZED TABLE daily {change}"), DefinitionInvalid)

    assert message == (
        f"{change.split()[0]} of lake.default.daily: "
        "partition.fields.ds.date-formatter decides which rows a schedule time refreshes; "
        "change it with CREATE OR ALTER MATERIALIZED TABLE, which refreshes the whole table again."
    )
    assert world.state() == before


def test_the_strategy_incremental_is_refused_where_no_change_could_be_applied(world: ManagerWorld) -> None:
    shape = shape_of_columns((Column(name="ds", type="string"), Column(name="amount", type="int")))
    undivided = Occurrence(reach=Reach.NONE, reason="a window function is above it")
    world.engine.shape = replace(
        shape, occurrences={0: undivided}, lineage=({}, {}), keys=(), rows="a window is in the query"
    )
    before = world.state()

    message = world.refused(
        lambda: world.sql("ALTER MATERIALIZED TABLE totals SET ('refresh.strategy' = 'incremental')"),
        DefinitionInvalid,
    )

    assert "a window function is above it" in message
    assert world.state() == before


def test_a_set_that_fails_changes_nothing(world: ManagerWorld) -> None:
    world.engine.failing["set_properties"] = EngineError("the catalog is away.")

    world.refused(lambda: world.sql(SET), EngineError)

    assert (options_of(world), stored(world), world.table("totals").intent) == ({}, {}, None)


@pytest.mark.parametrize("when", ["set_properties", "taken", "before the end", "after the end"])
def test_a_set_whose_process_died_is_finished_by_the_next_one(world: ManagerWorld, when: str) -> None:
    registry = registry_of(world)
    if when == "set_properties":
        world.engine.failing[when] = Killed()
    else:
        registry.error = Killed()
        registry.fail_when = takes_an_intent if when == "taken" else clears_the_intent
        registry.landed = when != "before the end"
    with pytest.raises(Killed):
        world.sql(SET)

    world.restart()
    world.recover()

    assert (options_of(world), stored(world)) == (CHANGED, {"write.format.default": "orc"})
    assert world.table("totals").intent is None
    assert world.table("totals").rebuild_due is None
