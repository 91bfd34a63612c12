"""A CREATE that fails leaves nothing behind, also when its process dies or its undo fails."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mt_core.errors import (
    DefinitionInvalid,
    EngineError,
    EngineUnavailable,
    MtError,
    QueryFailed,
    RegistryError,
    TableExists,
    TableNotCreated,
)
from mt_core.model.table import RefreshStatus
from mt_core.tables.upkeep.reconcile import reconcile
from tests.support.manager_world import DAILY, ManagerWorld
from tests.unit.tables.failing_registry import Killed, activates, failing_world, registry_of


@pytest.fixture
def world() -> ManagerWorld:
    return failing_world()


# ------------------------------------------------------------------------------------------ CREATE that fails


@pytest.mark.parametrize(
    "statement", [DAILY.replace("FROM orders", "FROM nowhere"), DAILY.replace("*", "oops")]
)
def test_create_with_a_query_that_cannot_be_read_changes_nothing(world: ManagerWorld, statement: str) -> None:
    before = world.state()

    world.refused(lambda: world.sql(statement), QueryFailed)

    assert world.state() == before


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (
            "check_catalog",
            DefinitionInvalid("Catalog lake cannot hold materialized tables; use another one."),
        ),
        (
            "check_columns",
            DefinitionInvalid("Column amount is an INTERVAL, which cannot be stored; CAST it."),
        ),
        ("analyse", EngineUnavailable("Spark is starting; try again.")),
    ],
)
def test_create_that_is_refused_before_its_first_effect_changes_nothing_and_says_why(
    world: ManagerWorld, operation: str, error: MtError
) -> None:
    before = world.state()
    world.engine.failing[operation] = error

    refusal = world.refused(lambda: world.sql(DAILY), type(error))

    assert refusal == str(error)
    assert world.state() == before


def fail_storage(world: ManagerWorld) -> None:
    world.engine.failing["create_storage"] = EngineError("the disk is full")


def fail_scheduler(world: ManagerWorld) -> None:
    world.scheduler.failing["create"] = ValueError("the disk is full")


def fail_last_transaction(world: ManagerWorld) -> None:
    registry_of(world).fail_when = activates
    registry_of(world).error = RegistryError("the disk is full")


@pytest.mark.parametrize("plan", [fail_storage, fail_scheduler, fail_last_transaction])
def test_create_that_fails_half_way_is_undone_and_the_error_says_what_failed_and_that_nothing_was_kept(
    world: ManagerWorld, plan
) -> None:
    before = world.state()
    plan(world)

    refusal = world.refused(lambda: world.sql(DAILY), TableNotCreated)

    assert "lake.default.daily was not created, and nothing was left behind" in refusal
    assert "the disk is full" in refusal
    assert world.state() == before


@pytest.mark.parametrize("plan", [fail_storage, fail_scheduler, fail_last_transaction])
def test_create_works_when_it_is_tried_again_after_a_failure(world: ManagerWorld, plan) -> None:
    plan(world)
    world.refused(lambda: world.sql(DAILY), TableNotCreated)

    world.sql(DAILY)
    world.work()

    assert world.table().status is RefreshStatus.ACTIVATED
    assert world.rows() == [{"ds": "2026-03-01", "amount": 1}]
    assert list(world.scheduler.workflows) == [world.table().table_id]


def test_a_create_of_which_only_the_last_answer_was_lost_has_succeeded(world: ManagerWorld) -> None:
    registry = registry_of(world)
    registry.fail_when, registry.landed = activates, True
    registry.error = RegistryError("the connection was lost")

    outcome = world.sql(DAILY)
    world.work()

    assert outcome.wait_for == world.runs()[0].run_id
    assert world.table().status is RefreshStatus.ACTIVATED
    assert world.rows() == [{"ds": "2026-03-01", "amount": 1}]
    assert list(world.scheduler.workflows) == [world.table().table_id]


def test_create_under_the_name_of_a_plain_table_is_refused_and_changes_nothing(world: ManagerWorld) -> None:
    world.engine.create_source("lake.default.daily", [{"ds": "a", "amount": 1}])
    before = world.state()

    refusal = world.refused(lambda: world.sql(DAILY), TableExists)

    assert "lake.default.daily exists already" in refusal
    assert world.state() == before


def test_create_that_loses_a_race_for_its_name_is_undone_and_spares_the_other_table(
    world: ManagerWorld,
) -> None:
    before = world.state()
    check = world.engine.relation_exists
    world.engine.relation_exists = lambda identifier: False
    world.engine.create_source("lake.default.daily", [{"ds": "a", "amount": 1}])

    refusal = world.refused(lambda: world.sql(DAILY), TableExists)

    world.engine.relation_exists = check
    assert "lake.default.daily exists already" in refusal
    assert world.state() == before
    assert "lake.default.daily" in world.engine.sources


def test_drop_in_the_middle_of_a_create_wins_and_nothing_is_left(world: ManagerWorld) -> None:
    before = world.state()
    create = world.scheduler.create_refresh_workflow

    def dropped_meanwhile(workflow):
        world.sql("DROP MATERIALIZED TABLE daily")
        return create(workflow)

    world.scheduler.create_refresh_workflow = dropped_meanwhile

    refusal = world.refused(lambda: world.sql(DAILY), TableNotCreated)

    assert "nothing was left behind" in refusal
    assert world.state() == before


# ------------------------------------------------------------------------------------- an undo that fails too


@pytest.mark.parametrize("step", ["delete", "drop_storage"])
def test_a_create_whose_undo_fails_says_so_and_is_removed_by_the_reconciler(
    world: ManagerWorld, step: str
) -> None:
    before = world.state()
    fail_scheduler(world)
    (world.scheduler if step == "delete" else world.engine).failing[step] = ValueError("away")

    refusal = world.refused(lambda: world.sql(DAILY), TableNotCreated)
    left = world.table()
    world.clock.advance(timedelta(minutes=6))
    world.recover()

    assert "the disk is full" in refusal
    assert "could not be removed yet" in refusal
    assert "DROP MATERIALIZED TABLE lake.default.daily removes them" in refusal
    assert left.status is RefreshStatus.INITIALIZING
    assert world.state() == before


def test_a_create_whose_undo_fails_can_be_dropped_at_once(world: ManagerWorld) -> None:
    before = world.state()
    fail_scheduler(world)
    world.engine.failing["drop_storage"] = ValueError("away")
    world.refused(lambda: world.sql(DAILY), TableNotCreated)

    world.sql("DROP MATERIALIZED TABLE daily")

    assert world.state() == before


# ------------------------------------------------------------------------------------------- CREATE that dies


def die_at_storage(world: ManagerWorld) -> None:
    world.engine.failing["create_storage"] = Killed()


def die_at_workflow(world: ManagerWorld) -> None:
    world.scheduler.failing["create"] = Killed()


def die_at_last_transaction(world: ManagerWorld) -> None:
    registry_of(world).fail_when = activates
    registry_of(world).error = Killed()


@pytest.mark.parametrize("die", [die_at_storage, die_at_workflow, die_at_last_transaction])
def test_a_create_whose_process_died_is_undone_by_the_next_one(world: ManagerWorld, die) -> None:
    before = world.state()
    die(world)
    with pytest.raises(Killed):
        world.sql(DAILY)

    world.restart()
    world.recover()

    assert world.state() == before


def test_a_create_whose_process_died_after_the_last_transaction_is_complete(world: ManagerWorld) -> None:
    registry = registry_of(world)
    registry.fail_when, registry.error, registry.landed = activates, Killed(), True
    with pytest.raises(Killed):
        world.sql(DAILY)

    world.restart()
    world.recover()
    world.work()

    assert world.table().status is RefreshStatus.ACTIVATED
    assert world.rows() == [{"ds": "2026-03-01", "amount": 1}]


def test_a_create_whose_process_stood_still_is_undone_as_a_whole_not_left_without_storage(
    world: ManagerWorld,
) -> None:
    others = world.services
    world.restart()
    before = world.state()
    create = world.scheduler.create_refresh_workflow

    def taking_ages(workflow):
        # Its lease is not renewed meanwhile.
        world.clock.advance(timedelta(minutes=6))
        world.engine.failing["drop_storage"] = ValueError("away")
        reconcile(others)
        return create(workflow)

    world.scheduler.create_refresh_workflow = taking_ages

    refusal = world.refused(lambda: world.sql(DAILY), TableNotCreated)

    assert "Another command took over" in refusal
    assert world.state() == before
