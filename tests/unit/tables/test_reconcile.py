"""The reconciler makes registry, scheduler and storage agree, and takes over what people
did in the scheduler.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mt_core.errors import TableBusy
from mt_core.model.freshness import Freshness
from mt_core.model.run import RunStatus
from mt_core.model.table import RefreshStatus
from mt_core.tables.upkeep.reconcile import reconcile
from tests.support.manager_world import DAILY, WHOLE_TABLE, ManagerWorld

SUSPEND = "ALTER MATERIALIZED TABLE daily SUSPEND"


@pytest.fixture
def world() -> ManagerWorld:
    made = ManagerWorld()
    made.sql(DAILY)
    made.work()
    return made


def set_paused(world: ManagerWorld, *, paused: bool) -> None:
    workflow = world.scheduler.workflows[world.table().table_id]
    world.scheduler.workflows[workflow.workflow_id] = replace(workflow, paused=paused)


def test_where_everything_agrees_nothing_is_done(world: ManagerWorld) -> None:
    world.sql(WHOLE_TABLE)
    world.sql(SUSPEND)
    before = world.state()

    assert reconcile(world.services) == []
    assert world.state() == before


def test_a_workflow_paused_in_the_scheduler_suspends_the_table(world: ManagerWorld) -> None:
    set_paused(world, paused=True)

    done = reconcile(world.services)

    assert done == ["lake.default.daily is PAUSED in the scheduler"]
    assert (world.table().status, world.table().status_by) == (RefreshStatus.SUSPENDED, "scheduler")
    assert reconcile(world.services) == []


def test_a_workflow_resumed_in_the_scheduler_activates_the_table(world: ManagerWorld) -> None:
    world.sql(SUSPEND)
    set_paused(world, paused=False)

    done = reconcile(world.services)

    assert done == ["lake.default.daily is ACTIVE in the scheduler"]
    assert world.table().status is RefreshStatus.ACTIVATED


@pytest.mark.parametrize("suspended", [False, True])
def test_a_workflow_that_vanished_is_made_again_as_the_registry_has_it(
    world: ManagerWorld, suspended: bool
) -> None:
    if suspended:
        world.sql(SUSPEND)
    status = world.table().status
    world.scheduler.workflows.clear()

    done = reconcile(world.services)

    assert done == ["recreated the workflow of lake.default.daily"]
    assert world.table().status is status
    assert world.scheduler.workflows[world.table().table_id].paused is suspended


def test_a_pause_is_not_taken_over_while_a_command_is_under_way(world: ManagerWorld) -> None:
    set_paused(world, paused=True)
    world.services.intents.take(world.table().identifier, "ALTER", check=lambda _table: None)

    assert reconcile(world.services) == []
    assert world.table().status is RefreshStatus.ACTIVATED


def test_a_pause_that_a_command_overtook_is_not_taken_over(world: ManagerWorld) -> None:
    describe = world.scheduler.describe_refresh_workflows

    def suspended_and_resumed_meanwhile(handlers):
        world.scheduler.describe_refresh_workflows = describe
        set_paused(world, paused=True)
        seen = describe(handlers)
        world.sql("ALTER MATERIALIZED TABLE daily RESUME")
        return seen

    world.scheduler.describe_refresh_workflows = suspended_and_resumed_meanwhile

    reconcile(world.services)

    assert world.table().status is RefreshStatus.ACTIVATED
    assert not world.scheduler.workflows[world.table().table_id].paused


def test_a_command_of_a_living_process_is_left_alone_until_its_lease_is_over(world: ManagerWorld) -> None:
    world.services.intents.take(world.table().identifier, "SUSPEND", check=lambda _table: None)
    world.clock.advance(timedelta(minutes=4))
    early = reconcile(world.services)
    world.refused(lambda: world.sql(SUSPEND), TableBusy)
    world.clock.advance(timedelta(minutes=2))

    late = reconcile(world.services)

    assert early == []
    assert late == ["settled SUSPEND of lake.default.daily"]
    assert world.table().status is RefreshStatus.SUSPENDED


@pytest.mark.parametrize(
    ("statement", "operation"),
    [
        (WHOLE_TABLE, "create_storage"),
        ("ALTER MATERIALIZED TABLE daily AS SELECT * FROM wider", "add_columns"),
    ],
)
def test_a_command_longer_than_its_lease_is_not_settled_while_it_is_at_work(
    world: ManagerWorld, statement: str, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.engine.create_source("lake.default.wider", [{"ds": "2026-03-01", "amount": 1, "note": "x"}])
    others = world.services
    world.restart()
    ours, work, done = world.services, getattr(world.engine, operation), list[str]()

    def slowly(*arguments: object) -> object:
        for _ in range(3):
            world.clock.advance(timedelta(minutes=4))
            ours.intents.renew()
            done.extend(reconcile(others))
        # It does not depend on the lease in its own process.
        world.clock.advance(timedelta(minutes=6))
        done.extend(reconcile(ours))
        return work(*arguments)

    monkeypatch.setattr(world.engine, operation, slowly)

    world.sql(statement)

    name = "totals" if operation == "create_storage" else "daily"
    assert (done, world.table(name).status, world.table(name).intent) == ([], RefreshStatus.ACTIVATED, None)


def test_the_lease_of_a_command_ends_with_it(world: ManagerWorld) -> None:
    table = world.services.intents.take(world.table().identifier, "SUSPEND", check=lambda _table: None)
    with world.services.intents.at_work(table):
        pass
    world.clock.advance(timedelta(minutes=6))

    world.services.intents.renew()

    assert reconcile(world.services) == ["settled SUSPEND of lake.default.daily"]


def test_a_command_that_was_settled_by_somebody_else_can_do_no_more(world: ManagerWorld) -> None:
    table = world.services.intents.take(
        world.table().identifier, "SET FRESHNESS", check=lambda _table: None, detail={"reschedules": True}
    )
    world.clock.advance(timedelta(minutes=6))
    reconcile(world.services)

    refusal = world.refused(lambda: world.services.intents.clear(table), TableBusy)

    assert "Another command took over materialized table lake.default.daily" in refusal
    assert world.table().intent is None


def test_a_freshness_that_could_not_be_undone_is_tried_again(world: ManagerWorld) -> None:
    workflow = world.scheduler.workflows[world.table().table_id]
    world.services.intents.take(
        world.table().identifier, "SET FRESHNESS", check=lambda _table: None, detail={"reschedules": True}
    )
    schedule = replace(workflow.schedule, freshness=Freshness(2, "DAY"))
    world.scheduler.workflows[workflow.workflow_id] = replace(workflow, schedule=schedule)
    world.restart()
    world.scheduler.failing["modify"] = ValueError("away")
    first = reconcile(world.services)
    world.clock.advance(timedelta(seconds=1))

    second = reconcile(world.services)

    assert first == []
    assert second == ["settled SET FRESHNESS of lake.default.daily"]
    assert world.scheduler.workflows[workflow.workflow_id].schedule == workflow.schedule
    assert world.table().intent is None


def test_one_table_that_cannot_be_settled_does_not_keep_the_others_from_it(world: ManagerWorld) -> None:
    world.sql(WHOLE_TABLE)
    for name in ("daily", "totals"):
        world.services.intents.take(world.table(name).identifier, "SUSPEND", check=lambda _table: None)
    world.restart()
    world.scheduler.failing["modify"] = ValueError("away")

    done = reconcile(world.services)

    assert done == ["settled SUSPEND of lake.default.totals"]
    assert world.table("totals").status is RefreshStatus.SUSPENDED
    assert world.table("daily").status is RefreshStatus.ACTIVATED


def test_ticks_after_a_pause_in_the_scheduler_make_up_for_it(world: ManagerWorld) -> None:
    set_paused(world, paused=True)
    reconcile(world.services)
    world.pass_days(3)
    world.engine.commit(
        "lake.default.orders", [{"ds": f"2026-03-0{day}", "amount": day} for day in (1, 2, 3)]
    )
    set_paused(world, paused=False)
    reconcile(world.services)

    run = world.tick(world.latest_point())
    world.work()

    assert world.run(run.run_id).status is RunStatus.SUCCEEDED
    assert [row["amount"] for row in world.rows()] == [1, 2, 3]


def test_a_key_error_of_a_plug_in_keeps_the_pass_from_no_other_step(
    world: ManagerWorld, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def describe(_handlers: object) -> object:
        raise KeyError("dag_id")

    set_paused(world, paused=True)
    with monkeypatch.context() as broken:
        broken.setattr(world.scheduler, "describe_refresh_workflows", describe)

        first = reconcile(world.services)

    assert (first, reconcile(world.services)) == ([], ["lake.default.daily is PAUSED in the scheduler"])
    # Not the text: once PySpark has been used in this process, its formatter writes what is logged.
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["'dag_id'"]
