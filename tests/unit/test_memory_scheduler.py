from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from mt_core.errors import DefinitionInvalid, RegistryError, WorkflowError
from mt_core.testing.fake_clock import FakeClock
from mt_core.testing.scheduler_workbench import (
    ABSENT,
    MINUTE,
    OTHER,
    START,
    TABLE,
    SchedulerWorkbench,
    every,
    workflow,
)
from mt_core.workflow.definitions import WorkflowDefinition
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import (
    DeleteRefreshWorkflow,
    ModifyRefreshWorkflow,
    ModifyRefreshWorkflowSchedule,
    ResumeRefreshWorkflow,
    Schedule,
    SuspendRefreshWorkflow,
)
from mt_core.workflow.scheduler import WorkflowScheduler, WorkflowState
from scheduler_plugins.memory.delivery import THREADS
from scheduler_plugins.memory.scheduler import MemoryScheduler


class StoppableClock(FakeClock):
    """Ends each thread that waits once `ends_waits` is set, as an error in it would."""

    ends_waits = False

    def wait_until(self, instant: datetime | None, event: threading.Event) -> bool:
        if self.ends_waits:
            raise SystemExit
        return super().wait_until(instant, event)


HANDLER = RefreshHandler(scheduler="memory", workflow_id=TABLE)
OPERATIONS: list[ModifyRefreshWorkflow] = [
    SuspendRefreshWorkflow(handler=HANDLER, token=4),
    ResumeRefreshWorkflow(handler=HANDLER, dynamic_options={"format": "avro"}, token=4),
    ModifyRefreshWorkflowSchedule(handler=HANDLER, schedule=every(10, "SECOND"), token=4),
]


def stored(**facts: object) -> WorkflowDefinition:
    created = workflow()
    definition = WorkflowDefinition(
        workflow_id=TABLE,
        identifier=created.identifier,
        description=created.description,
        schedule=created.schedule,
    )
    return replace(definition, **facts)  # type: ignore[arg-type]


class MemoryWorkbench(SchedulerWorkbench):
    @pytest.fixture
    def scheduler_class(self) -> type[WorkflowScheduler]:
        return MemoryScheduler

    @property
    def memory(self) -> MemoryScheduler:
        assert isinstance(self.scheduler, MemoryScheduler)
        return self.scheduler

    def settle(self) -> None:
        assert isinstance(self.clock, FakeClock)
        assert self.clock.settle(threads=THREADS)
        assert self.memory.wait_idle(5.0)

    def pass_by(self, delta: timedelta) -> list[str]:
        """Let *delta* pass and return what was ticked in all, as table and local time."""
        self.move_clock(delta)
        self.settle()
        return self.times()

    def times(self) -> list[str]:
        return [tick.schedule_time.removeprefix("2024-01-03 ") for tick in self.gateway.ticks]

    def restart(self, *, away: timedelta) -> None:
        self.scheduler.close()
        self.move_clock(away)
        self.scheduler.open(self.context)
        self.settle()


class TestOperations(MemoryWorkbench):
    def test_a_created_workflow_is_stored(self) -> None:
        handler = self.create(
            init_config={"a": "1"},
            execution_config={"b": "2"},
            dynamic_options={"c": "3"},
            paused=True,
            token=7,
        )

        assert handler == HANDLER
        assert self.definitions.all() == [
            stored(
                init_config={"a": "1"},
                execution_config={"b": "2"},
                dynamic_options={"c": "3"},
                paused=True,
                token=7,
            )
        ]

    def test_creating_again_writes_nothing(self) -> None:
        self.create()
        self.scheduler.modify_refresh_workflow(SuspendRefreshWorkflow(handler=HANDLER))

        self.create()

        assert self.definitions.all() == [stored(paused=True)]
        assert self.definitions.writes == 2
        assert self.describe(HANDLER).state is WorkflowState.PAUSED

    def test_creating_with_a_later_token_takes_the_place_of_the_older_workflow(self) -> None:
        self.create(paused=True, token=1)

        self.create(token=2, schedule=every(10, "SECOND"))

        assert self.definitions.all() == [stored(schedule=every(10, "SECOND"), token=2)]
        assert self.pass_by(timedelta(seconds=10)) == ["10:00:40"]

    def test_creating_what_is_stored_but_does_not_tick_makes_it_tick(self) -> None:
        self.definitions.put(stored())
        before = self.describe(HANDLER).state

        self.create()

        assert before is WorkflowState.MISSING
        assert self.describe(HANDLER).state is WorkflowState.ACTIVE

    def test_a_schedule_without_a_grid_is_refused_and_nothing_is_stored(self) -> None:
        with pytest.raises(WorkflowError, match="Mars/Olympus") as caught:
            self.create(schedule=replace(every(1, "MINUTE"), zone="Mars/Olympus"))

        assert isinstance(caught.value.__cause__, DefinitionInvalid)
        assert self.definitions.all() == []
        assert self.describe(HANDLER).state is WorkflowState.MISSING

    def test_each_operation_is_stored_with_its_token(self) -> None:
        self.create(dynamic_options={"format": "orc"})

        definitions = []
        for operation in OPERATIONS:
            self.scheduler.modify_refresh_workflow(operation)
            definitions += self.definitions.all()

        assert definitions == [
            stored(dynamic_options={"format": "orc"}, paused=True, token=4),
            stored(dynamic_options={"format": "avro"}, token=4),
            stored(dynamic_options={"format": "avro"}, schedule=every(10, "SECOND"), token=4),
        ]

    @pytest.mark.parametrize("operation", OPERATIONS)
    @pytest.mark.parametrize("paused", [True, False])
    def test_an_outdated_operation_is_refused_and_changes_nothing(
        self, operation: ModifyRefreshWorkflow, paused: bool
    ) -> None:
        self.create(paused=paused, token=5)
        before = self.describe(HANDLER)

        with pytest.raises(
            WorkflowError, match=r"lake\.sales\.daily.* outdated operation, its token 4 is older than 5"
        ):
            self.scheduler.modify_refresh_workflow(operation)

        assert self.definitions.all() == [stored(paused=paused, token=5)]
        assert self.describe(HANDLER) == before

    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_an_operation_that_cannot_be_stored_changes_nothing(
        self, operation: ModifyRefreshWorkflow
    ) -> None:
        self.create()
        before = self.describe(HANDLER)
        self.definitions.failure = RegistryError("The registry cannot be reached.")

        with pytest.raises(
            WorkflowError, match=f"{TABLE} cannot be .*: The registry cannot be reached"
        ) as caught:
            self.scheduler.modify_refresh_workflow(operation)

        self.definitions.failure = None
        assert isinstance(caught.value.__cause__, RegistryError)
        assert self.definitions.all() == [stored()]
        assert self.describe(HANDLER) == before

    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_a_workflow_that_is_missing_is_named(self, operation: ModifyRefreshWorkflow) -> None:
        with pytest.raises(WorkflowError, match=f"{TABLE} cannot be .* does not have it"):
            self.scheduler.modify_refresh_workflow(operation)

        assert self.definitions.all() == []

    def test_a_handler_of_another_scheduler_is_refused_and_described_as_missing(self) -> None:
        self.create()
        foreign = replace(HANDLER, scheduler="airflow")

        with pytest.raises(WorkflowError, match="belongs to the scheduler 'airflow'"):
            self.scheduler.modify_refresh_workflow(SuspendRefreshWorkflow(handler=foreign, token=1))
        with pytest.raises(WorkflowError, match="belongs to the scheduler 'airflow'"):
            self.scheduler.delete_refresh_workflow(DeleteRefreshWorkflow(handler=foreign))

        assert self.definitions.all() == [stored()]
        assert self.describe(foreign).state is WorkflowState.MISSING

    def test_resume_sends_nothing_when_the_ledger_has_the_latest_point(self) -> None:
        self.create()
        self.pass_by(MINUTE)
        self.definitions.schedule_times[TABLE] = START + timedelta(seconds=30)
        self.scheduler.modify_refresh_workflow(SuspendRefreshWorkflow(handler=HANDLER, token=1))

        self.scheduler.modify_refresh_workflow(ResumeRefreshWorkflow(handler=HANDLER, token=2))
        self.settle()

        assert self.times() == ["10:01:00"]

    def test_points_before_the_schedule_began_are_not_made_up(self) -> None:
        self.create(paused=True)
        self.move_clock(timedelta(minutes=5))
        began = replace(every(1, "MINUTE"), since=self.clock.now())
        self.scheduler.modify_refresh_workflow(
            ModifyRefreshWorkflowSchedule(handler=HANDLER, schedule=began, token=1)
        )

        self.scheduler.modify_refresh_workflow(ResumeRefreshWorkflow(handler=HANDLER, token=2))
        self.settle()

        assert self.times() == []
        assert self.describe(HANDLER).next_run == START + timedelta(minutes=5, seconds=30)

    def test_a_schedule_that_begins_later_ticks_from_then_on(self) -> None:
        handler = self.create(schedule=replace(every(1, "MINUTE"), since=START + timedelta(minutes=3)))

        assert self.describe(handler).next_run == START + timedelta(minutes=3, seconds=30)

    def test_a_day_is_a_local_midnight_also_when_the_clocks_change(self) -> None:
        since = datetime.fromisoformat("2024-01-03T10:00:30+00:00")
        self.create(schedule=Schedule(freshness=every(1, "DAY").freshness, zone="Europe/Berlin", since=since))

        self.move_clock(timedelta(days=89))
        self.settle()

        assert [tick.schedule_time for tick in self.gateway.ticks] == ["2024-04-01 00:00:00"]
        assert self.describe(HANDLER).next_run == datetime.fromisoformat("2024-04-01T22:00:00+00:00")


class TestRestart(MemoryWorkbench):
    @pytest.fixture
    def options(self) -> dict[str, str]:
        return {"catch-up-rate": "2"}

    def test_what_was_missed_is_one_tick_per_workflow_spread_under_the_rate(self) -> None:
        for number in range(5):
            self.create(workflow_id=f"table-{number}", schedule=every(1, "HOUR"))

        self.restart(away=timedelta(hours=5))
        counts = [len(self.pass_by(timedelta(seconds=0.5))) for _ in range(5)]

        assert counts == [2, 3, 4, 5, 5]
        assert set(self.times()) == {"15:00:00"}
        assert len({tick.table_id for tick in self.gateway.ticks}) == 5

    def test_a_point_that_is_in_the_ledger_is_not_made_up(self) -> None:
        self.create()
        self.definitions.schedule_times[TABLE] = START + timedelta(seconds=30)

        self.restart(away=MINUTE)

        assert self.times() == []

    def test_a_paused_workflow_makes_nothing_up_and_stays_paused(self) -> None:
        self.create(paused=True)

        self.restart(away=MINUTE)

        assert self.times() == []
        assert self.describe(HANDLER).state is WorkflowState.PAUSED

    def test_changes_survive_a_restart(self) -> None:
        self.create()
        self.create(workflow_id=OTHER)
        self.scheduler.modify_refresh_workflow(
            ModifyRefreshWorkflowSchedule(handler=HANDLER, schedule=every(10, "SECOND"), token=1)
        )
        self.scheduler.delete_refresh_workflow(
            DeleteRefreshWorkflow(handler=RefreshHandler(scheduler="memory", workflow_id=OTHER))
        )

        self.restart(away=timedelta(0))

        assert self.pass_by(timedelta(seconds=10)) == ["10:00:40"]
        assert self.definitions.all() == [stored(schedule=every(10, "SECOND"), token=1)]

    def test_a_definition_that_cannot_be_scheduled_does_not_stop_the_others(self) -> None:
        self.create()
        self.definitions.put(
            stored(workflow_id=ABSENT, schedule=replace(every(1, "MINUTE"), zone="Mars/Olympus"))
        )

        self.restart(away=timedelta(0))

        assert self.pass_by(MINUTE) == ["10:01:00"]
        assert self.describe(replace(HANDLER, workflow_id=ABSENT)).state is WorkflowState.MISSING


class TestOpening(MemoryWorkbench):
    def test_ticking_writes_no_definition(self) -> None:
        self.create()

        for _ in range(3):
            self.pass_by(MINUTE)

        assert self.times() == ["10:01:00", "10:02:00", "10:03:00"]
        assert self.definitions.writes == 1

    def test_opening_twice_makes_nothing_up_twice(self) -> None:
        self.create()
        self.restart(away=MINUTE)

        self.scheduler.open(self.context)
        self.settle()

        assert self.times() == ["10:01:00"]

    def test_a_closed_scheduler_refuses_work(self) -> None:
        self.scheduler.close()

        with pytest.raises(WorkflowError, match="The memory scheduler is not open"):
            self.create()
        with pytest.raises(WorkflowError, match="The memory scheduler is not open"):
            self.describe(HANDLER)

        assert self.definitions.all() == []

    @pytest.mark.parametrize("text", ["0", "-1", "many", "", "10001", "1.5"])
    @pytest.mark.parametrize("key", ["max-in-flight", "catch-up-rate"])
    def test_an_option_that_is_not_a_number_is_named(self, key: str, text: str) -> None:
        scheduler = MemoryScheduler()

        with pytest.raises(
            WorkflowError, match=rf"workflow-scheduler\.memory\.{key} is '{text}'; set a whole number"
        ):
            scheduler.open(replace(self.context, options={key: text}))

    def test_a_registry_that_cannot_be_read_is_the_cause(self) -> None:
        self.definitions.failure = RegistryError("The registry cannot be reached.")
        scheduler = MemoryScheduler()

        with pytest.raises(WorkflowError, match="cannot be opened: The registry cannot be reached") as caught:
            scheduler.open(self.context)

        assert isinstance(caught.value.__cause__, RegistryError)


class TestHealth(SchedulerWorkbench):
    @pytest.fixture
    def scheduler_class(self) -> type[WorkflowScheduler]:
        return MemoryScheduler

    @pytest.fixture
    def start_clock(self) -> FakeClock:
        return StoppableClock(START)

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_a_scheduler_whose_timer_has_ended_is_ill_since_its_last_pass(self) -> None:
        assert isinstance(self.clock, StoppableClock)
        self.create()
        self.settle()
        assert self.clock.settle(threads=THREADS)
        passed_at = self.clock.now()

        self.clock.ends_waits = True
        timer = next(thread for thread in threading.enumerate() if thread.name == f"{THREADS}-timer")
        self.clock.advance(timedelta(seconds=5))
        timer.join(5.0)
        self.clock.advance(timedelta(hours=1))
        health = self.scheduler.health()

        assert health is not None
        assert health.trouble.startswith(f"the thread {THREADS}-timer has exited; see the gateway log")
        assert health.since == passed_at + timedelta(seconds=5)
