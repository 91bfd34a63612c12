"""Tests that every workflow scheduler must pass. The scheduler's author subclasses `SchedulerContract`.

    class TestMyScheduler(SchedulerContract):
        @pytest.fixture
        def scheduler_class(self) -> type[WorkflowScheduler]:
            return MyScheduler

A scheduler guarantees three things. An active workflow ticks once for each point of its grid, with the point
as its schedule time and never before it. A paused workflow does not tick. Creating or deleting a workflow
twice is harmless, because the gateway repeats operations after a crash. A scheduler need not tick for every
missed point, because the gateway itself catches up. After a pause, a clock jump or a restart, one tick for
the latest point is enough.

To show that a tick does not arrive, a test waits for the later tick of another workflow. Services differ in
what they support, such as moving their clock; override those methods of the workbench. New required tests are
added only in minor versions.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from mt_core.errors import WorkflowError
from mt_core.model.freshness import grid_of
from mt_core.testing.scheduler_workbench import ABSENT, OTHER, TABLE, SchedulerWorkbench
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import (
    DeleteRefreshWorkflow,
    ModifyRefreshWorkflowSchedule,
    ResumeRefreshWorkflow,
    SuspendRefreshWorkflow,
)
from mt_core.workflow.scheduler import SchedulerHealth, WorkflowScheduler, WorkflowState


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRefreshWorkflow:
    """An operation that no scheduler supports."""

    handler: RefreshHandler
    token: int = 0


class SchedulerContract(SchedulerWorkbench):
    """The tests of a workflow scheduler."""

    def test_a_workflow_ticks_on_its_schedule_with_the_grid_point_not_the_time_of_day(self) -> None:
        self.create()

        self.move_clock(0.7 * self.length)
        first = self.wait_for_ticks(1)
        self.move_clock(self.length)
        both = self.wait_for_ticks(2)

        assert [tick.schedule_time for tick in first] == [self.point(1)]
        assert [tick.schedule_time for tick in both] == [self.point(1), self.point(2)]

    def test_a_workflow_does_not_tick_before_its_first_point(self) -> None:
        self.create()
        self.create(workflow_id=OTHER, schedule=self.every(self.often))

        self.move_clock(0.48 * self.length)
        ticks = self.wait_for_ticks(1)
        # A real clock may have passed the point while the tick was being sent.
        is_early = self.clock.now() < grid_of(self.period, "UTC").after(self.start)

        assert {tick.table_id for tick in ticks} == {OTHER} or not is_early

    def test_a_tick_says_all_that_the_gateway_needs(self) -> None:
        self.create(
            schedule=self.every(self.period, "Asia/Tokyo"),
            init_config={"table.local-time-zone": "Asia/Tokyo"},
            execution_config={"spark.sql.shuffle.partitions": "4"},
            dynamic_options={"format": "orc"},
        )

        self.move_clock(self.length)
        (tick,) = self.wait_for_ticks(1)

        assert tick.identifier == "lake.sales.daily"
        assert tick.properties == {"table.local-time-zone": "Asia/Tokyo"}
        assert {key: value for key, value in tick.body.items() if value != {}} == {
            "isPeriodic": True,
            "scheduleTime": self.point(1, zone="Asia/Tokyo"),
            "dynamicOptions": {"format": "orc"},
            "executionConfig": {"spark.sql.shuffle.partitions": "4"},
        }
        assert tick.table_id == TABLE
        assert tick.headers["idempotency-key"].startswith(f"{TABLE}/")
        assert tick.headers["authorization"] == f"Bearer {self.token}"

    def test_a_clock_that_jumps_over_many_points_gives_one_tick_of_the_latest(self) -> None:
        self.need_jumps()
        self.create()

        self.move_clock(180 * self.length)
        ticks = self.wait_for_ticks(1)

        assert [tick.schedule_time for tick in ticks] == [self.point(180)]

    def test_the_same_id_gives_the_same_handler_and_one_workflow(self) -> None:
        first = self.create()
        second = self.create()

        self.move_clock(self.length)
        ticks = self.wait_for_ticks(1)

        assert first == second
        assert first.workflow_id == TABLE
        assert first.scheduler == type(self.scheduler).identifier
        assert [tick.schedule_time for tick in ticks] == [self.point(1)]

    def test_a_handler_survives_serialization_and_keeps_working(self) -> None:
        handler = RefreshHandler.deserialize(self.create().serialize())

        self.scheduler.modify_refresh_workflow(SuspendRefreshWorkflow(handler=handler, token=1))

        assert self.describe(handler).state is WorkflowState.PAUSED

    def test_a_workflow_created_paused_does_not_tick(self) -> None:
        handler = self.create(paused=True)

        self.pass_a_period_with_a_witness()

        assert self.ticks_of(TABLE) == []
        assert self.describe(handler).state is WorkflowState.PAUSED

    def test_two_tables_are_created_and_tick_from_two_threads(self) -> None:
        threads = [
            threading.Thread(target=self.create, kwargs={"workflow_id": name}) for name in (TABLE, OTHER)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        self.move_clock(self.length)
        ticks = self.wait_for_ticks(2)

        assert {(tick.table_id, tick.schedule_time) for tick in ticks} == {
            (TABLE, self.point(1)),
            (OTHER, self.point(1)),
        }
        assert len(ticks) == 2

    def test_suspend_stops(self) -> None:
        handler = self.create()

        self.scheduler.modify_refresh_workflow(SuspendRefreshWorkflow(handler=handler, token=1))
        self.pass_a_period_with_a_witness()

        assert self.ticks_of(TABLE) == []
        assert self.describe(handler) == replace(
            self.describe(handler), state=WorkflowState.PAUSED, next_run=None
        )

    def test_resume_makes_up_at_most_the_latest_missed_tick(self) -> None:
        handler = self.create()
        self.scheduler.modify_refresh_workflow(SuspendRefreshWorkflow(handler=handler, token=1))
        # A service that was slow to create the workflow may have passed the first point before this.
        earlier = len(self.ticks_of(TABLE))
        # Soon after the second point: a service takes a while to resume, and would make up the third one.
        self.move_clock(1.6 * self.length)

        self.scheduler.modify_refresh_workflow(ResumeRefreshWorkflow(handler=handler, token=2))
        made_up = self.wait_for_ticks(earlier + 1)[earlier:]
        self.move_clock(self.length)
        ticks = self.wait_for_ticks(earlier + 2)[earlier:]

        assert [tick.schedule_time for tick in made_up] == [self.point(2)]
        assert [tick.schedule_time for tick in ticks] == [self.point(2), self.point(3)]

    def test_resume_makes_nothing_up_when_no_point_was_missed(self) -> None:
        handler = self.create()
        self.scheduler.modify_refresh_workflow(SuspendRefreshWorkflow(handler=handler, token=1))

        self.scheduler.modify_refresh_workflow(ResumeRefreshWorkflow(handler=handler, token=2))
        self.move_clock(self.length)
        ticks = self.wait_for_ticks(1)

        assert [tick.schedule_time for tick in ticks] == [self.point(1)]

    def test_resume_carries_new_options_and_without_any_keeps_those_of_before(self) -> None:
        handler = self.create(dynamic_options={"format": "orc"})
        self.scheduler.modify_refresh_workflow(SuspendRefreshWorkflow(handler=handler, token=1))

        self.scheduler.modify_refresh_workflow(ResumeRefreshWorkflow(handler=handler, token=2))
        self.move_clock(self.length)
        self.wait_for_ticks(1)
        changed = ResumeRefreshWorkflow(handler=handler, dynamic_options={"format": "avro"}, token=3)
        self.definitions.schedule_times[TABLE] = self.start + self.length / 2
        self.scheduler.modify_refresh_workflow(changed)
        self.move_clock(self.length)
        ticks = self.wait_for_ticks(2)

        assert [tick.body["dynamicOptions"] for tick in ticks] == [{"format": "orc"}, {"format": "avro"}]

    def test_a_new_schedule_takes_effect_at_the_next_point_of_its_grid(self) -> None:
        handler = self.create()

        self.scheduler.modify_refresh_workflow(
            ModifyRefreshWorkflowSchedule(handler=handler, schedule=self.every(self.often), token=1)
        )
        self.move_clock(timedelta(seconds=self.often.seconds))
        first = self.wait_for_ticks(1)
        self.move_clock(timedelta(seconds=self.often.seconds))
        both = self.wait_for_ticks(2)

        points = [self.point(number, self.often) for number in range(1, 20)]
        times = [tick.schedule_time for tick in both]
        assert times[: len(first)] == [tick.schedule_time for tick in first]
        assert times == [point for point in points if point in times]
        # With a real clock, a late scheduler makes up only the latest point.
        assert not self.jumps or (len(first), times) == (1, points[:2])

    def test_a_new_schedule_leaves_a_suspended_workflow_suspended(self) -> None:
        handler = self.create()
        self.scheduler.modify_refresh_workflow(SuspendRefreshWorkflow(handler=handler, token=1))

        self.scheduler.modify_refresh_workflow(
            ModifyRefreshWorkflowSchedule(handler=handler, schedule=self.every(self.often), token=2)
        )
        self.pass_a_period_with_a_witness()

        assert self.ticks_of(TABLE) == []
        assert self.describe(handler).state is WorkflowState.PAUSED

    def test_delete_forgets_and_twice_is_harmless(self) -> None:
        handler = self.create()

        self.scheduler.delete_refresh_workflow(DeleteRefreshWorkflow(handler=handler))
        self.scheduler.delete_refresh_workflow(DeleteRefreshWorkflow(handler=handler))
        self.pass_a_period_with_a_witness()

        assert self.ticks_of(TABLE) == []
        assert self.describe(handler).state is WorkflowState.MISSING

    def test_describe_tells_active_paused_and_missing_workflows_in_one_go(self) -> None:
        grid, before = grid_of(self.period, "UTC"), self.clock.now()
        active, paused = self.create(), self.create(workflow_id=OTHER, paused=True)
        missing = replace(active, workflow_id=ABSENT)

        described = self.scheduler.describe_refresh_workflows([active, paused, missing])

        assert {name: description.state for name, description in described.items()} == {
            TABLE: WorkflowState.ACTIVE,
            OTHER: WorkflowState.PAUSED,
            ABSENT: WorkflowState.MISSING,
        }
        next_run = described[TABLE].next_run
        assert next_run is not None
        assert before < next_run == grid.at_or_before(next_run) <= grid.after(self.clock.now())
        assert (described[OTHER].next_run, described[ABSENT].next_run) == (None, None)

    def test_an_unknown_operation_is_refused_and_changes_nothing(self) -> None:
        handler = self.create()
        before = self.describe(handler)
        unknown: Any = ArchiveRefreshWorkflow(handler=handler, token=1)

        with pytest.raises(WorkflowError, match="ArchiveRefreshWorkflow"):
            self.scheduler.modify_refresh_workflow(unknown)
        self.move_clock(self.length)
        ticks = self.wait_for_ticks(1)

        assert before.state is WorkflowState.ACTIVE
        assert [tick.schedule_time for tick in ticks] == [self.point(1)]

    @pytest.mark.parametrize("operation", [SuspendRefreshWorkflow, ResumeRefreshWorkflow])
    def test_an_operation_on_a_workflow_that_is_not_there_names_it(self, operation: Any) -> None:
        missing = replace(self.create(), workflow_id=ABSENT)

        with pytest.raises(WorkflowError, match=ABSENT):
            self.scheduler.modify_refresh_workflow(operation(handler=missing, token=1))

        assert self.describe(missing).state is WorkflowState.MISSING

    def test_every_failure_is_a_workflow_error_that_says_why(self) -> None:
        handler = self.create()
        modifications = [
            SuspendRefreshWorkflow(handler=handler, token=1),
            ResumeRefreshWorkflow(handler=handler, token=1),
            ModifyRefreshWorkflowSchedule(handler=handler, schedule=self.every(self.often), token=1),
        ]
        self.break_service()

        failures = [
            _failure(self.scheduler.modify_refresh_workflow, operation) for operation in modifications
        ]
        failures.append(
            _failure(self.scheduler.delete_refresh_workflow, DeleteRefreshWorkflow(handler=handler))
        )
        failures.append(_failure(self.scheduler.create_refresh_workflow, self.workflow(workflow_id=OTHER)))

        assert all(failure.message for failure in failures), failures

    def test_a_page_url_is_a_web_address_that_is_known_without_a_request(self) -> None:
        handler = self.create()

        url = self.scheduler.page_url(handler)
        self.break_service()
        same = self.scheduler.page_url(handler)

        # A scheduler need not have a web interface.
        assert url is None or (urlsplit(url).scheme in ("http", "https") and urlsplit(url).hostname)
        assert same == url

    def test_a_workflow_of_another_scheduler_has_no_page_url(self) -> None:
        handler = replace(self.create(), scheduler="another")

        assert self.scheduler.page_url(handler) is None

    def test_open_and_close_twice_are_harmless(self) -> None:
        self.create()

        self.scheduler.open(self.context)
        self.move_clock(self.length)
        ticks = self.wait_for_ticks(1)
        self.scheduler.close()
        self.scheduler.close()

        assert [tick.schedule_time for tick in ticks] == [self.point(1)]

    def test_a_scheduler_that_is_open_is_healthy_and_a_closed_one_is_not(self) -> None:
        # A scheduler may report its health as unknown.
        assert _health_in_time(self.scheduler) in (SchedulerHealth(), None)

        self.scheduler.close()

        with suppress(WorkflowError):
            health = self.scheduler.health()
            assert health is None or health.trouble
        self.scheduler.open(self.context)

    def test_a_scheduler_that_was_closed_goes_on_where_the_ledger_ends(self) -> None:
        self.need_jumps()
        handler = self.create()
        self.move_clock(self.length)
        self.wait_for_ticks(1)
        self.definitions.schedule_times[TABLE] = self.start + self.length / 2

        self.scheduler.close()
        self.move_clock(10 * self.length)
        self.scheduler.open(self.context)
        made_up = self.wait_for_ticks(2)
        self.move_clock(self.length)
        ticks = self.wait_for_ticks(3)

        assert self.describe(handler).state is WorkflowState.ACTIVE
        assert [tick.schedule_time for tick in made_up] == [self.point(1), self.point(11)]
        assert [tick.schedule_time for tick in ticks][2:] == [self.point(12)]


def _health_in_time(scheduler: WorkflowScheduler, timeout_s: float = 60.0) -> SchedulerHealth | None:
    """Return the health when it has no trouble, or after *timeout_s*.

    A busy service may take time to report that it is running.
    """
    deadline = time.monotonic() + timeout_s
    while (health := scheduler.health()) not in (SchedulerHealth(), None) and time.monotonic() < deadline:
        time.sleep(0.1)
    return health


def _failure(method: Any, operation: Any) -> WorkflowError:
    with pytest.raises(WorkflowError) as caught:
        method(operation)
    return caught.value
