"""A command whose process dies is finished or undone by the next one;
a command that fails changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mt_core.errors import ClusterLost, EngineError, EngineUnavailable, WorkflowError
from mt_core.model.freshness import Freshness
from mt_core.model.run import RunStatus
from mt_core.model.table import Column, RefreshStatus
from mt_core.tables.refresh.workers import Workers
from mt_core.tables.registry import in_transaction
from mt_core.tables.runs.ledger import ClaimedRun
from mt_core.tables.runs.losses import ALONE_AFTER, MAX_ATTEMPTS, MAX_LOSSES
from tests.support.manager_world import DAILY, ManagerWorld
from tests.support.registry_steps import begin_process
from tests.unit.tables.continuous_table import LiveTable
from tests.unit.tables.failing_registry import (
    Killed,
    buries,
    clears_the_intent,
    failing_world,
    registry_of,
    takes_an_intent,
)


@pytest.fixture
def world() -> ManagerWorld:
    return failing_world()


# ------------------------------------------------------------------------------- commands on a table that die

SUSPEND = "ALTER MATERIALIZED TABLE daily SUSPEND"
RESUME = "ALTER MATERIALIZED TABLE daily RESUME WITH ('sink.parallelism' = '4')"
FRESHNESS = "ALTER MATERIALIZED TABLE daily SET FRESHNESS = INTERVAL '2' DAY"
ALTER = "ALTER MATERIALIZED TABLE daily AS SELECT * FROM wider"
DROP = "DROP MATERIALIZED TABLE daily"


def die_before(operation: str):
    def plan(world: ManagerWorld) -> None:
        in_scheduler = operation in {"modify", "describe", "delete", "create"}
        (world.scheduler if in_scheduler else world.engine).failing[operation] = Killed()

    plan.__name__ = f"before_{operation}"
    return plan


def die_before_commit(when, *, landed: bool = False):
    def plan(world: ManagerWorld) -> None:
        registry = registry_of(world)
        registry.fail_when, registry.error, registry.landed = when, Killed(), landed

    plan.__name__ = f"{'after' if landed else 'before'}_{when.__name__}"
    return plan


def settled(world: ManagerWorld, statement: str, plan) -> None:
    world.engine.create_source(
        "lake.default.wider",
        [{"ds": "2026-03-01", "amount": 1, "note": "x"}],
        [
            Column(name="ds", type="string"),
            Column(name="amount", type="int"),
            Column(name="note", type="string"),
        ],
    )
    plan(world)
    with pytest.raises(Killed):
        world.sql(statement)
    world.restart()
    world.recover()


def assert_consistent(world: ManagerWorld, status: RefreshStatus) -> None:
    table = world.table()
    workflow = world.scheduler.workflows[table.table_id]
    assert table.status is status
    assert table.intent is None
    assert workflow.paused is (status is RefreshStatus.SUSPENDED)
    assert workflow.schedule.freshness == table.definition.freshness
    assert dict(workflow.dynamic_options) == dict(table.dynamic_options)


def assert_usable(world: ManagerWorld) -> None:
    if world.table().status is RefreshStatus.SUSPENDED:
        world.sql("ALTER MATERIALIZED TABLE daily RESUME")
    world.pass_days(2)
    world.tick(world.latest_point())
    world.work()
    assert world.runs()[-1].status in {RunStatus.SUCCEEDED, RunStatus.SKIPPED}
    world.sql("DROP MATERIALIZED TABLE daily")
    assert world.engine.storages == {}
    assert world.scheduler.workflows == {}


@pytest.mark.parametrize(
    "plan",
    [
        die_before("describe"),
        die_before("modify"),
        die_before_commit(takes_an_intent, landed=True),
        die_before_commit(clears_the_intent),
        die_before_commit(clears_the_intent, landed=True),
    ],
)
def test_a_suspend_whose_process_died_is_finished_by_the_next_one(world: ManagerWorld, plan) -> None:
    world.sql(DAILY)
    world.work()

    settled(world, SUSPEND, plan)

    assert_consistent(world, RefreshStatus.SUSPENDED)
    assert_usable(world)


@pytest.mark.parametrize(
    "plan",
    [
        die_before("describe"),
        die_before("modify"),
        die_before_commit(takes_an_intent, landed=True),
        die_before_commit(clears_the_intent),
        die_before_commit(clears_the_intent, landed=True),
    ],
)
@pytest.mark.parametrize("before", [[], [SUSPEND]])
def test_a_resume_with_options_whose_process_died_is_finished_with_them(
    world: ManagerWorld, plan, before
) -> None:
    world.sql(DAILY)
    world.work()
    for statement in before:
        world.sql(statement)

    settled(world, RESUME, plan)

    assert_consistent(world, RefreshStatus.ACTIVATED)
    assert dict(world.table().dynamic_options) == {"sink.parallelism": "4"}
    assert_usable(world)


def test_a_resume_that_forgets_still_forgets_after_its_process_died(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work()
    world.sql(SUSPEND)
    world.pass_days(3)

    settled(world, "ALTER MATERIALIZED TABLE daily RESUME WITH ('catch-up' = 'none')", die_before("modify"))

    assert_consistent(world, RefreshStatus.ACTIVATED)
    assert world.table().covered_until == world.latest_point()


@pytest.mark.parametrize("plan", [die_before("create_storage"), die_before("describe"), die_before("modify")])
def test_lost_storage_is_filled_again_though_the_resume_died(world: ManagerWorld, plan) -> None:
    world.sql(DAILY)
    world.work()
    world.sql(SUSPEND)
    rows = world.rows()
    world.engine.storages.clear()

    settled(world, "ALTER MATERIALIZED TABLE daily RESUME", plan)
    world.work()

    assert_consistent(world, RefreshStatus.ACTIVATED)
    assert world.rows() == rows
    assert_usable(world)


@pytest.mark.parametrize(
    ("plan", "freshness"),
    [
        (die_before("modify"), 1),
        (die_before_commit(takes_an_intent, landed=True), 1),
        (die_before_commit(clears_the_intent), 1),
        (die_before_commit(clears_the_intent, landed=True), 2),
    ],
)
@pytest.mark.parametrize(
    "statement", [FRESHNESS, DAILY.replace("CREATE", "CREATE OR ALTER").replace("'1' DAY", "'2' DAY")]
)
def test_a_new_freshness_whose_process_died_is_undone_or_complete(
    world: ManagerWorld, plan, freshness: int, statement: str
) -> None:
    world.sql(DAILY)
    world.work()

    settled(world, statement, plan)

    assert_consistent(world, RefreshStatus.ACTIVATED)
    assert world.table().definition.freshness == Freshness(freshness, "DAY")
    assert_usable(world)


@pytest.mark.parametrize(
    ("plan", "columns"),
    [
        (die_before("add_columns"), ("ds", "amount")),
        (die_before_commit(takes_an_intent, landed=True), ("ds", "amount")),
        (die_before_commit(clears_the_intent), ("ds", "amount")),
        (die_before_commit(clears_the_intent, landed=True), ("ds", "amount", "note")),
    ],
)
def test_an_alter_whose_process_died_is_undone_or_complete(world: ManagerWorld, plan, columns) -> None:
    world.sql(DAILY)
    world.work()

    settled(world, ALTER, plan)

    assert_consistent(world, RefreshStatus.ACTIVATED)
    assert tuple(column.name for column in world.table().definition.columns) == columns
    world.sql(ALTER)
    world.work()
    assert world.rows() == [{"ds": "2026-03-01", "amount": 1, "note": "x"}]
    assert_usable(world)


@pytest.mark.parametrize(
    "plan", [die_before("delete"), die_before("drop_storage"), die_before_commit(buries, landed=True)]
)
def test_a_drop_whose_process_died_is_finished_by_the_next_one(world: ManagerWorld, plan) -> None:
    before = {**world.state(), "runs": []}
    world.sql(DAILY)

    settled(world, DROP, plan)

    assert {**world.state(), "runs": []} == before
    world.sql(DAILY)
    world.work()
    assert_consistent(world, RefreshStatus.ACTIVATED)


@pytest.mark.parametrize("operation", ["delete", "drop_storage"])
def test_a_drop_that_cannot_remove_everything_succeeds_with_a_warning_and_the_rest_follows(
    world: ManagerWorld, operation: str
) -> None:
    before = {**world.state(), "runs": []}
    world.sql(DAILY)
    (world.scheduler if operation == "delete" else world.engine).failing[operation] = ValueError("away")

    outcome = world.sql(DROP)
    world.recover()

    assert len(outcome.warnings) == 1
    assert "are removed as soon as possible" in outcome.warnings[0]
    runs = in_transaction(world.registry, lambda tx: tx.runs.newest())
    assert [run.status for run in runs] == [RunStatus.CANCELED]
    assert {**world.state(), "runs": []} == before


# --------------------------------------------------------------------------- commands whose scheduler refuses


@pytest.mark.parametrize(
    ("before", "statement"),
    [
        ([], SUSPEND),
        ([SUSPEND], RESUME),
        ([], RESUME),
        ([], FRESHNESS),
        (
            [],
            DAILY.replace("CREATE", "CREATE OR ALTER")
            .replace("'1' DAY", "'2' DAY")
            .replace("orders", "wider"),
        ),
    ],
)
@pytest.mark.parametrize("operation", ["describe", "modify"])
def test_a_command_that_the_scheduler_fails_changes_nothing(
    world: ManagerWorld, before: list[str], statement: str, operation: str
) -> None:
    world.engine.create_source("lake.default.wider", [{"ds": "2026-03-01", "amount": 1}])
    world.sql(DAILY)
    world.work()
    for earlier in before:
        world.sql(earlier)
    state = world.state()
    world.scheduler.failing[operation] = ValueError("503")

    refusal = world.refused(lambda: world.sql(statement), WorkflowError)

    assert "503" in refusal
    assert world.state() == state
    world.sql(statement)


def test_an_alter_whose_columns_cannot_be_appended_keeps_definition_and_columns(world: ManagerWorld) -> None:
    world.engine.create_source("lake.default.wider", [{"ds": "2026-03-01", "amount": 1, "note": "x"}])
    world.sql(DAILY)
    world.work()
    definition, columns = world.table().definition, world.engine.storages[world.table().identifier].columns
    world.engine.failing["add_columns"] = ValueError("503")

    world.refused(lambda: world.sql(ALTER), EngineError)

    table = world.table()
    assert (table.definition, table.rebuild_due, table.intent) == (definition, None, None)
    assert world.engine.storages[table.identifier].columns == columns
    assert len(world.runs()) == 1


def test_a_refresh_that_loses_its_cluster_again_and_again_does_not_fail(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work()
    world.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 4}])
    run, lost = world.manager.requests.request_manual(world.table().identifier, {}, {}), MAX_ATTEMPTS + 2

    for _ in range(lost):
        world.engine.failing["write"] = ClusterLost("The cluster takes no work.")
        claimed = world.claim()
        assert claimed is not None
        list(world.attempt(claimed))
        assert world.run(run.run_id).status is RunStatus.QUEUED
    world.work()

    ended = world.run(run.run_id)
    assert (ended.status, ended.attempt, ended.excused) == (RunStatus.SUCCEEDED, lost + 1, lost)


def lose(world: ManagerWorld, run_id: str, lost: EngineUnavailable, times: int) -> None:
    """Let the run lose Spark so many times, one attempt after the other."""
    for _ in range(times):
        world.engine.failing["write"] = lost
        claimed = world.claim()
        assert claimed is not None
        list(world.attempt(claimed))
        assert world.run(run_id).status is RunStatus.QUEUED


ALONE, BESIDE = EngineUnavailable("Spark went away.", alone=True), EngineUnavailable("Spark went away.")


@pytest.fixture
def asked(world: ManagerWorld) -> str:
    """The id of a run that is due."""
    world.sql(DAILY)
    world.work()
    world.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 4}])
    return world.manager.requests.request_manual(world.table().identifier, {}, {}).run_id


def test_a_refresh_that_loses_a_spark_that_others_used_does_not_fail(world: ManagerWorld, asked: str) -> None:
    lost = MAX_ATTEMPTS + 2

    lose(world, asked, BESIDE, lost)
    lose(world, asked, ALONE, MAX_ATTEMPTS - 1)
    world.work()

    ended = world.run(asked)
    assert (ended.status, ended.attempt, ended.shared) == (RunStatus.SUCCEEDED, lost + MAX_ATTEMPTS, lost)


def test_a_refresh_that_loses_a_spark_of_its_own_again_and_again_fails(
    world: ManagerWorld, asked: str
) -> None:
    lose(world, asked, BESIDE, 1)

    lose(world, asked, ALONE, MAX_ATTEMPTS)
    world.work()

    ended = world.run(asked)
    assert (ended.status, ended.error) == (
        RunStatus.FAILED,
        "Refresh of lake.default.daily lost its process 3 times.",
    )


def test_a_refresh_fails_in_the_end_whatever_else_ran_where_it_loses_spark(
    world: ManagerWorld, asked: str
) -> None:
    lose(world, asked, ALONE, 1)

    lose(world, asked, BESIDE, MAX_LOSSES - 1)
    world.work()

    ended = world.run(asked)
    assert (ended.status, ended.error) == (
        RunStatus.FAILED,
        (
            "Refresh of lake.default.daily lost its process 10 times, 9 of them next to other work, "
            "any of which may be the cause."
        ),
    )


def test_a_refresh_that_lost_spark_beside_others_is_repeated_alone(world: ManagerWorld, asked: str) -> None:
    world.sql(DAILY.replace("daily", "other"))
    workers = Workers(world.services, count=2)
    world.services.at_work.begin("another run", alone=False, waits_as="", elapsed=timedelta(0))

    for _ in range(ALONE_AFTER):
        world.engine.failing["write"] = BESIDE
        assert workers.run_next()
    beside = workers.run_next()
    world.services.at_work.end("another run")
    alone = workers.run_next()

    assert (beside, alone) == (False, True)
    assert world.run(asked).status is RunStatus.SUCCEEDED


def test_a_cancelled_refresh_that_waited_to_be_alone_keeps_no_other_waiting(
    world: ManagerWorld, asked: str
) -> None:
    lose(world, asked, BESIDE, ALONE_AFTER)
    workers = Workers(world.services, count=2)
    world.services.at_work.begin("another run", alone=False, waits_as="", elapsed=timedelta(0))
    assert not workers.run_next()
    assert not world.services.at_work.begin("a batch", alone=False, waits_as="", elapsed=timedelta(0))

    world.sql("DROP MATERIALIZED TABLE daily")
    workers.run_next()

    assert world.services.at_work.begin("a batch", alone=False, waits_as="", elapsed=timedelta(0))


def test_a_cancelled_refresh_that_waited_to_be_alone_keeps_no_run_after_it_waiting(
    world: ManagerWorld, asked: str
) -> None:
    lose(world, asked, BESIDE, ALONE_AFTER)
    world.services.at_work.begin("another run", alone=False, waits_as="", elapsed=timedelta(0))
    workers = Workers(world.services, count=2)
    assert not workers.run_next()

    world.sql("DROP MATERIALIZED TABLE daily")
    world.sql(DAILY.replace("daily", "other"))

    assert workers.run_next()


def test_no_other_run_begins_while_one_is_repeated_alone(world: ManagerWorld, asked: str) -> None:
    world.sql(DAILY.replace("daily", "other"))
    lose(world, asked, BESIDE, ALONE_AFTER)
    meanwhile: list[bool] = []

    def watch(claimed: ClaimedRun, step: str) -> None:
        if (claimed.run.run_id, step) == (asked, "write"):
            meanwhile.append(workers.run_next())

    workers = Workers(world.services, count=2, watch=watch)
    began = [workers.run_next(), workers.run_next(), workers.run_next()]

    assert (meanwhile, began) == ([False], [True, True, False])
    assert world.run(asked).status is RunStatus.SUCCEEDED


# ------------------------------------------------------------------------------------ a process that was away


def test_a_process_that_could_not_renew_its_lease_takes_neither_runs_nor_commands_from_itself() -> None:
    world = ManagerWorld()
    world.sql(DAILY)
    claimed = world.claim()
    assert claimed is not None
    world.services.intents.take(world.table().identifier, "SUSPEND", check=lambda _table: None)
    in_transaction(
        world.registry, lambda tx: tx.gateways.put(replace(tx.gateways.all()[0], lease_until=tx.now()))
    )
    before = world.state()

    world.recover()

    assert world.ledger.held(claimed) is not None
    assert world.state() == before


def test_a_gateway_whose_registry_another_one_has_taken_claims_nothing_before_it_notices_that() -> None:
    world = LiveTable()
    world.sql(DAILY)
    world.append(10)
    before = [run.run_id for run in world.stretches()]
    begin_process(world.registry, "another gateway")

    claimed = world.claim()
    world.look(after=5)

    assert claimed is None
    assert [run.run_id for run in world.stretches()] == before
