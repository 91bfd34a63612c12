"""What people do in the scheduler, and what a scheduler does too late:
taken over, repaired, shown at once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from mt_core.errors import WorkflowError
from mt_core.model.freshness import Freshness
from mt_core.model.table import RefreshStatus
from mt_core.tables.intents import LONGEST_CALL
from mt_core.tables.registry import in_transaction
from mt_core.tables.upkeep.reconcile import reconcile
from mt_core.workflow.definitions import WorkflowDefinition
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import CreatePeriodicRefreshWorkflow, ModifyRefreshWorkflow
from mt_core.workflow.scheduler import WorkflowDescription, WorkflowState
from tests.support.fake_scheduler import FakeScheduler
from tests.support.manager_world import DAILY, START, WHOLE_TABLE, ManagerWorld

SUSPEND = "ALTER MATERIALIZED TABLE daily SUSPEND"
RESUME = "ALTER MATERIALIZED TABLE daily RESUME"


class NamingScheduler(FakeScheduler):
    """Says who paused or resumed a workflow, and lets a test answer late."""

    def __init__(self) -> None:
        super().__init__()
        self.by: dict[str, str] = {}
        self.tells_schedules = True
        self.answer = threading.Event()
        self.answer.set()
        self.answered = threading.Event()

    def describe_refresh_workflows(
        self, handlers: Iterable[RefreshHandler]
    ) -> Mapping[str, WorkflowDescription]:
        self.answer.wait()
        found = super().describe_refresh_workflows(handlers)
        self.answered.set()
        if not self.tells_schedules:
            found = {table_id: replace(seen, schedule=None) for table_id, seen in found.items()}
        return {
            table_id: replace(seen, changed_by=self.by.get(table_id), changed_at=START + timedelta(minutes=5))
            if table_id in self.by
            else seen
            for table_id, seen in found.items()
        }


@pytest.fixture
def scheduler() -> NamingScheduler:
    return NamingScheduler()


@pytest.fixture
def world(scheduler: NamingScheduler) -> ManagerWorld:
    made = ManagerWorld()
    made.scheduler = scheduler
    made.restart()
    made.sql(DAILY)
    made.work()
    made.clock.advance(timedelta(minutes=10))
    return made


class AnswerLost(FakeScheduler):
    """Does what it is asked to change, once without an answer."""

    def modify_refresh_workflow(self, workflow: ModifyRefreshWorkflow) -> None:
        super().modify_refresh_workflow(workflow)
        if not self.lost:
            self.lost = True
            raise WorkflowError("no answer within 30 s")

    lost = False


def freshness_of_workflow(world: ManagerWorld) -> Freshness:
    workflow: CreatePeriodicRefreshWorkflow = world.scheduler.workflows[world.table().table_id]
    return workflow.schedule.freshness


def tick_on(world: ManagerWorld, freshness: Freshness) -> None:
    workflow = world.scheduler.workflows[world.table().table_id]
    schedule = replace(workflow.schedule, freshness=freshness)
    world.scheduler.workflows[workflow.workflow_id] = replace(workflow, schedule=schedule)


def set_paused(world: ManagerWorld, *, paused: bool, by: str | None = None) -> None:
    table_id = world.table().table_id
    world.scheduler.workflows[table_id] = replace(world.scheduler.workflows[table_id], paused=paused)
    if by is not None:
        assert isinstance(world.scheduler, NamingScheduler)
        world.scheduler.by[table_id] = by


def workflow_state(world: ManagerWorld) -> WorkflowState:
    paused = world.scheduler.workflows[world.table().table_id].paused
    return WorkflowState.PAUSED if paused else WorkflowState.ACTIVE


def shown(world: ManagerWorld) -> dict[object, object]:
    return {row["name"]: row["type"] for row in world.show("DESCRIBE EXTENDED daily")}


def publish(world: ManagerWorld) -> WorkflowDefinition:
    workflow = world.scheduler.workflows[world.table().table_id]
    definition = WorkflowDefinition(
        workflow_id=workflow.workflow_id,
        identifier=workflow.identifier,
        description=workflow.description,
        schedule=workflow.schedule,
        name="mt__daily",
    )
    world.registry.definitions.put(definition)
    return definition


# ---------------------------------------------------------------------------------------------------- at once


def test_describe_shows_a_pause_at_once_with_who_and_when(world: ManagerWorld) -> None:
    set_paused(world, paused=True, by="anna")

    facts = shown(world)

    assert facts["status"] == "SUSPENDED, by anna at 2026-03-01 12:05:00"
    assert facts["workflow"] == "PAUSED in fake"
    assert (world.table().status, world.table().status_by) == (RefreshStatus.SUSPENDED, "anna")


def test_show_tables_shows_a_pause_at_once_with_who_and_when(world: ManagerWorld) -> None:
    world.sql(WHOLE_TABLE)
    set_paused(world, paused=True, by="anna")

    daily, totals = world.show("SHOW MATERIALIZED TABLES EXTENDED")

    assert (daily["status"], daily["status by"], daily["status at"]) == (
        "SUSPENDED",
        "anna",
        "2026-03-01 12:05:00",
    )
    assert (totals["status"], totals["status by"], totals["as of"]) == ("ACTIVATED", "CREATE", None)


def test_a_scheduler_that_does_not_answer_in_time_is_shown_as_it_was_seen_last(
    world: ManagerWorld, scheduler: NamingScheduler
) -> None:
    world.observe_wait_s = 0.0
    world.restart()
    reconcile(world.services)
    world.clock.advance(timedelta(minutes=1))
    set_paused(world, paused=True)
    scheduler.answer.clear()

    facts, [row] = shown(world), world.show("SHOW MATERIALIZED TABLES EXTENDED")
    scheduler.answer.set()

    assert (
        facts["workflow"] == "ACTIVE in fake as of 2026-03-01 12:10:00 (the scheduler has not answered yet)"
    )
    assert (row["status"], row["as of"]) == ("ACTIVATED", "2026-03-01 12:10:00")


def test_a_scheduler_that_is_away_is_shown_as_it_was_seen_last_with_the_reason(world: ManagerWorld) -> None:
    reconcile(world.services)
    world.clock.advance(timedelta(minutes=1))
    world.scheduler.failing["describe"] = ValueError("connection refused")

    facts = shown(world)

    assert facts["workflow"] == (
        "ACTIVE in fake as of 2026-03-01 12:10:00 (The scheduler failed to describe: connection refused)"
    )


def test_a_scheduler_that_was_never_heard_of_is_unknown(world: ManagerWorld) -> None:
    world.scheduler.failing["describe"] = ValueError("connection refused")

    assert shown(world)["workflow"] == "unknown: The scheduler failed to describe: connection refused"


# ------------------------------------------------------------------------------------------------- taken over


@pytest.mark.parametrize("paused", [True, False])
def test_the_definition_follows_so_that_a_dag_made_again_begins_as_it_was_left(
    world: ManagerWorld, paused: bool
) -> None:
    if not paused:
        world.sql(SUSPEND)
    definition = replace(publish(world), paused=not paused)
    world.registry.definitions.put(definition)
    set_paused(world, paused=paused)

    reconcile(world.services)

    assert world.registry.definitions.all() == [replace(definition, paused=paused)]


def test_a_table_that_somebody_paused_can_be_resumed_by_statement(world: ManagerWorld) -> None:
    set_paused(world, paused=True, by="anna")
    reconcile(world.services)

    world.sql(RESUME)

    assert world.table().status is RefreshStatus.ACTIVATED
    assert workflow_state(world) is WorkflowState.ACTIVE


# --------------------------------------------------------------------------------------------------- repaired


@pytest.mark.parametrize("minutes", [0, 2, 10])
def test_a_late_effect_of_a_command_that_lost_its_process_is_repaired_until_a_whole_pass_has_begun_after_it(
    world: ManagerWorld, minutes: int
) -> None:
    world.services.intents.take(world.table().identifier, "RESUME", check=lambda _table: None)
    world.restart()
    settled = reconcile(world.services)
    world.clock.advance(timedelta(minutes=minutes))
    set_paused(world, paused=True)

    done = reconcile(world.services)

    assert settled == ["settled RESUME of lake.default.daily"]
    assert done == ["the workflow of lake.default.daily is ACTIVE again"]
    assert world.table().status is RefreshStatus.ACTIVATED
    assert workflow_state(world) is WorkflowState.ACTIVE
    assert world.table().intent is None


def test_after_that_pass_a_pause_is_taken_over_again(world: ManagerWorld) -> None:
    world.services.intents.take(world.table().identifier, "RESUME", check=lambda _table: None)
    world.restart()
    reconcile(world.services)
    world.clock.advance(LONGEST_CALL)
    reconcile(world.services)
    set_paused(world, paused=True)

    reconcile(world.services)

    assert world.table().repair_until is None
    assert world.table().status is RefreshStatus.SUSPENDED


def test_a_suspend_that_got_no_answer_and_comes_through_late_is_set_back(world: ManagerWorld) -> None:
    world.scheduler.failing["modify"] = ValueError("timed out")
    world.refused(lambda: world.sql(SUSPEND), WorkflowError)
    set_paused(world, paused=True)

    done = reconcile(world.services)

    assert done == ["the workflow of lake.default.daily is ACTIVE again"]
    assert world.table().status is RefreshStatus.ACTIVATED


FRESHNESS_COMMANDS = [
    "ALTER MATERIALIZED TABLE daily SET FRESHNESS = INTERVAL '2' DAY",
    DAILY.replace("CREATE", "CREATE OR ALTER").replace("INTERVAL '1' DAY", "INTERVAL '2' DAY"),
]


@pytest.mark.parametrize("statement", FRESHNESS_COMMANDS)
def test_a_freshness_whose_answer_of_the_scheduler_was_lost_is_set_back_to_that_of_the_registry(
    world: ManagerWorld, statement: str
) -> None:
    scheduler = AnswerLost()
    scheduler.workflows = world.scheduler.workflows
    world.scheduler = scheduler
    world.restart()

    world.refused(lambda: world.sql(statement), WorkflowError)
    between = freshness_of_workflow(world)
    done = reconcile(world.services)

    assert str(between) == "INTERVAL '2' DAY"
    assert done == ["the workflow of lake.default.daily ticks every 1 day again"]
    assert freshness_of_workflow(world) == world.table().definition.freshness
    assert str(world.table().definition.freshness) == "INTERVAL '1' DAY"
    assert world.table().intent is None


def test_a_freshness_that_comes_through_late_is_set_back(world: ManagerWorld) -> None:
    world.scheduler.failing["modify"] = ValueError("timed out")
    world.refused(lambda: world.sql(FRESHNESS_COMMANDS[0]), WorkflowError)
    tick_on(world, Freshness(2, "DAY"))
    world.clock.advance(LONGEST_CALL * 2)

    done = reconcile(world.services)

    assert done == ["the workflow of lake.default.daily ticks every 1 day again"]
    assert freshness_of_workflow(world) == Freshness(1, "DAY")
    assert world.table().repair_until is None


def test_a_scheduler_that_cannot_tell_its_schedules_is_given_them_again_while_a_late_call_may_land(
    world: ManagerWorld, scheduler: NamingScheduler
) -> None:
    scheduler.tells_schedules = False
    world.scheduler.failing["modify"] = ValueError("timed out")
    world.refused(lambda: world.sql(FRESHNESS_COMMANDS[0]), WorkflowError)
    tick_on(world, Freshness(2, "DAY"))

    done = reconcile(world.services)

    assert done == []
    assert freshness_of_workflow(world) == Freshness(1, "DAY")


def test_a_statement_that_shows_tables_does_not_take_over_what_must_be_repaired(world: ManagerWorld) -> None:
    world.scheduler.failing["modify"] = ValueError("timed out")
    world.refused(lambda: world.sql(SUSPEND), WorkflowError)
    set_paused(world, paused=True)

    facts = shown(world)

    assert str(facts["status"]).startswith("ACTIVATED")
    assert facts["workflow"] == "PAUSED in fake"


def test_a_workflow_made_again_has_its_new_handler_in_the_registry(world: ManagerWorld) -> None:
    world.scheduler.workflows.clear()
    before = replace(
        world.table(),
        handler=RefreshHandler(scheduler="memory", workflow_id=world.table().table_id).serialize(),
    )
    in_transaction(world.registry, lambda tx: tx.tables.replace(before))

    reconcile(world.services)

    handler = RefreshHandler.deserialize(world.table().handler or "")
    assert (handler.scheduler, world.table().scheduler, world.table().intent) == ("fake", "fake", None)


def test_a_workflow_that_cannot_be_made_again_keeps_none_of_the_others_from_it(world: ManagerWorld) -> None:
    world.sql(WHOLE_TABLE)
    world.scheduler.workflows.clear()
    world.scheduler.failing["create"] = ValueError("away")

    first = reconcile(world.services)
    second = reconcile(world.services)

    assert first == ["recreated the workflow of lake.default.daily"] or first == [
        "recreated the workflow of lake.default.totals"
    ]
    assert len(second) == 1
    assert len(world.scheduler.workflows) == 2


def test_a_scheduler_that_fails_all_the_time_is_left_alone_until_the_next_pass(world: ManagerWorld) -> None:
    for number in range(6):
        world.sql(WHOLE_TABLE.replace("totals", f"totals_{number}"))
    world.scheduler.workflows.clear()
    asked: list[str] = []

    def refuse(workflow: object) -> RefreshHandler:
        asked.append("create")
        raise WorkflowError("away")

    world.scheduler.create_refresh_workflow = refuse  # type: ignore[assignment]

    assert reconcile(world.services) == []
    assert len(asked) == 3


# ------------------------------------------------------------------------------------------------------- drop


def test_a_drop_while_the_scheduler_is_away_removes_the_storage_and_is_finished_later(
    world: ManagerWorld,
) -> None:
    identifier, table_id = world.table().identifier, world.table().table_id
    world.scheduler.failing["delete"] = ValueError("away")

    outcome = world.sql("DROP MATERIALIZED TABLE daily")
    left = identifier in world.engine.storages
    again = reconcile(world.services)

    assert "lake.default.daily is dropped" in outcome.warnings[0]
    assert not left
    assert again == ["removed what was left of lake.default.daily"]
    assert table_id not in world.scheduler.workflows


def test_a_definition_whose_table_was_dropped_while_its_workflow_was_made_again_is_removed(
    world: ManagerWorld,
) -> None:
    definition = publish(world)
    workflow = world.scheduler.workflows[world.table().table_id]
    world.sql("DROP MATERIALIZED TABLE daily")
    world.scheduler.workflows[workflow.workflow_id] = workflow
    world.registry.definitions.put(definition)

    done = reconcile(world.services)

    assert done == ["removed the workflow of lake.default.daily, which was dropped"]
    assert world.registry.definitions.all() == []
    assert world.scheduler.workflows == {}


def test_a_definition_of_a_table_that_is_there_stays(world: ManagerWorld) -> None:
    definition = publish(world)

    assert reconcile(world.services) == []
    assert world.registry.definitions.all() == [definition]


def test_removing_what_a_dropped_table_left_waits_for_a_create_of_its_name(world: ManagerWorld) -> None:
    identifier = world.table().identifier
    world.scheduler.failing["delete"] = ValueError("away")
    world.sql("DROP MATERIALIZED TABLE daily")
    with world.services.names.lock(identifier):
        sweeping = threading.Thread(target=reconcile, args=[world.services])
        sweeping.start()
        sweeping.join(0.05)
        swept = not sweeping.is_alive()
    sweeping.join(60)

    assert not swept
    assert in_transaction(world.registry, lambda tx: list(tx.tombstones.all())) == []


def test_a_repair_whose_answer_was_lost_is_itself_repaired_until_its_late_effect_is_past(
    world: ManagerWorld,
) -> None:
    tick_on(world, Freshness(2, "DAY"))
    world.scheduler.failing["modify"] = ValueError("timed out")

    done = reconcile(world.services)

    assert done == []
    assert world.table().intent is None
    assert world.table().repair_until == world.clock.now() + LONGEST_CALL


def test_a_command_in_which_a_plug_in_raises_anything_leaves_the_table_free_for_the_next_and_to_be_repaired(
    world: ManagerWorld, scheduler: NamingScheduler
) -> None:
    class Broken(NamingScheduler):
        def modify_refresh_workflow(self, workflow: ModifyRefreshWorkflow) -> None:
            raise KeyError("dag_id")

    broken = Broken()
    broken.workflows = scheduler.workflows
    world.scheduler = broken
    world.restart()

    world.refused(lambda: world.sql(SUSPEND), KeyError)

    assert world.table().status is RefreshStatus.ACTIVATED
    assert world.table().intent is None
    assert world.table().repair_until == world.clock.now() + LONGEST_CALL
