from __future__ import annotations

import logging
import threading
from datetime import timedelta

import pytest

from mt_core.errors import WorkflowError
from mt_core.testing.fake_clock import FakeClock
from mt_core.testing.fake_gateway import GatewayAnswer
from mt_core.testing.scheduler_workbench import MINUTE, OTHER, TABLE, SchedulerWorkbench, every
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import DeleteRefreshWorkflow, ResumeRefreshWorkflow, SuspendRefreshWorkflow
from mt_core.workflow.scheduler import WorkflowScheduler
from scheduler_plugins.memory.delivery import THREADS, retry_delay_s
from scheduler_plugins.memory.scheduler import MemoryScheduler

HANDLER = RefreshHandler(scheduler="memory", workflow_id=TABLE)
BUSY = GatewayAnswer(status=503)
FIRST_RETRY = timedelta(seconds=2)


class DeliveryWorkbench(SchedulerWorkbench):
    @pytest.fixture
    def scheduler_class(self) -> type[WorkflowScheduler]:
        return MemoryScheduler

    def settle(self) -> None:
        assert isinstance(self.clock, FakeClock)
        assert isinstance(self.scheduler, MemoryScheduler)
        assert self.clock.settle(threads=THREADS)
        assert self.scheduler.wait_idle(5.0)

    def pass_by(self, delta: timedelta) -> list[tuple[str, int]]:
        """Let *delta* pass and return all answered ticks as (minute and second, status)."""
        self.move_clock(delta)
        self.settle()
        return [(tick.schedule_time[-5:], tick.status) for tick in self.gateway.ticks]


class TestAnswers(DeliveryWorkbench):
    @pytest.mark.parametrize("status", [500, 502, 503])
    def test_a_tick_the_gateway_cannot_take_now_is_sent_again_with_the_same_key(self, status: int) -> None:
        self.create()
        self.gateway.answer(GatewayAnswer(status=status))

        first = self.pass_by(MINUTE)
        second = self.pass_by(FIRST_RETRY)
        third = self.pass_by(timedelta(seconds=20))

        assert first == [("01:00", status)]
        assert second == third == [("01:00", status), ("01:00", 200)]
        keys = {tick.headers["idempotency-key"] for tick in self.gateway.ticks}
        assert keys == {f"{TABLE}/2024-01-03T10:01:00+00:00"}
        assert [tick.headers["freshtable-attempt"] for tick in self.gateway.ticks] == ["1", "2"]

    def test_a_gateway_that_is_not_up_gets_the_tick_when_it_is(self) -> None:
        self.create()
        self.gateway.stop()
        down = self.pass_by(MINUTE)

        self.gateway.start()
        up = self.pass_by(FIRST_RETRY)

        assert down == []
        assert up == [("01:00", 200)]

    def test_a_retry_gives_way_to_the_next_point(self) -> None:
        self.create()
        self.gateway.answer(BUSY)
        self.pass_by(MINUTE)

        ticks = self.pass_by(MINUTE)

        assert ticks == [("01:00", 503), ("02:00", 200)]
        assert self.pass_by(timedelta(seconds=20)) == ticks

    def test_the_pause_the_gateway_asks_for_is_kept(self) -> None:
        self.create()
        self.gateway.answer(GatewayAnswer(status=503, headers={"Retry-After": "10"}))
        self.pass_by(timedelta(seconds=30))

        early = self.pass_by(timedelta(seconds=9))
        late = self.pass_by(timedelta(seconds=1))

        assert early == [("01:00", 503)]
        assert late == [("01:00", 503), ("01:00", 200)]

    def test_a_tick_for_a_table_that_is_gone_is_forgotten(self) -> None:
        self.create()
        self.gateway.answer(GatewayAnswer(status=410))
        self.pass_by(timedelta(seconds=30))

        ticks = self.pass_by(timedelta(seconds=59))

        assert ticks == [("01:00", 410)]

    @pytest.mark.parametrize("status", [400, 401, 404, 409])
    def test_a_refused_tick_is_logged_as_an_error_and_not_sent_again(
        self, status: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.create()
        self.gateway.answer(GatewayAnswer(status=status))
        self.pass_by(timedelta(seconds=30))

        ticks = self.pass_by(timedelta(seconds=59))

        assert ticks == [("01:00", status)]
        errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
        assert errors == [f'tick refused: {status} {{"errors": ["answered {status}"]}}']

    @pytest.mark.parametrize("operation", ["suspend", "delete"])
    def test_a_retry_is_not_sent_for_a_workflow_that_was_stopped_meanwhile(self, operation: str) -> None:
        self.create()
        self.gateway.answer(BUSY)
        self.pass_by(MINUTE)

        if operation == "suspend":
            self.scheduler.modify_refresh_workflow(SuspendRefreshWorkflow(handler=HANDLER, token=1))
        else:
            self.scheduler.delete_refresh_workflow(DeleteRefreshWorkflow(handler=HANDLER))

        assert self.pass_by(timedelta(seconds=20)) == [("01:00", 503)]

    def test_a_retry_carries_the_options_of_a_resume_in_between(self) -> None:
        self.create(dynamic_options={"format": "orc"})
        self.gateway.answer(BUSY)
        self.pass_by(MINUTE)

        self.scheduler.modify_refresh_workflow(
            ResumeRefreshWorkflow(handler=HANDLER, dynamic_options={"format": "avro"}, token=1)
        )
        self.pass_by(FIRST_RETRY)

        assert [tick.body["dynamicOptions"] for tick in self.gateway.ticks] == [
            {"format": "orc"},
            {"format": "avro"},
        ]

    def test_an_identifier_is_encoded_as_one_part_of_the_path(self) -> None:
        self.create(identifier="lake.`a/b c`.`ü%2F?`")

        self.pass_by(MINUTE)

        assert [tick.identifier for tick in self.gateway.ticks] == ["lake.`a/b c`.`ü%2F?`"]


class TestSessions(DeliveryWorkbench):
    def test_workflows_with_equal_properties_share_a_session(self) -> None:
        self.create(workflow_id="first", init_config={"a": "1", "b": "2"})
        self.create(workflow_id="second", init_config={"b": "2", "a": "1"})
        self.create(workflow_id="third", init_config={"a": "2"})

        self.pass_by(MINUTE)
        self.pass_by(MINUTE)

        sessions = {tick.table_id: tick.session for tick in self.gateway.ticks}
        assert len(self.gateway.ticks) == 6
        assert self.gateway.opened_sessions == 2
        assert sessions["first"] == sessions["second"] != sessions["third"]

    def test_a_session_the_gateway_has_forgotten_is_opened_again_at_once(self) -> None:
        self.create(init_config={"a": "1"})
        self.pass_by(MINUTE)
        self.gateway.forget_sessions()

        ticks = self.pass_by(MINUTE)

        assert ticks == [("01:00", 200), ("02:00", 200)]
        assert self.gateway.opened_sessions == 2
        assert [tick.properties for tick in self.gateway.ticks] == [{"a": "1"}, {"a": "1"}]

    def test_a_gateway_that_loses_every_session_gets_the_tick_later(self) -> None:
        self.create()
        lost = GatewayAnswer(status=500, headers={"Freshtable-Error": "SESSION_NOT_FOUND"})
        self.gateway.answer(lost, lost)

        first = self.pass_by(MINUTE)
        second = self.pass_by(FIRST_RETRY)

        assert first == [("01:00", 500), ("01:00", 500)]
        assert second == [*first, ("01:00", 200)]


class TestSlowGateway(DeliveryWorkbench):
    @pytest.fixture
    def options(self) -> dict[str, str]:
        return {"max-in-flight": "2"}

    def test_a_table_that_is_slow_to_answer_does_not_delay_the_others(self) -> None:
        self.create()
        self.create(workflow_id=OTHER)
        self.gateway.hold(TABLE)

        for count in range(1, 4):
            self.move_clock(MINUTE)
            self.gateway.wait_for_ticks(count)
        meanwhile = [(tick.table_id, tick.schedule_time[-5:]) for tick in self.gateway.ticks]
        self.gateway.release()
        self.gateway.wait_for_ticks(5)
        self.settle()

        assert meanwhile == [(OTHER, "01:00"), (OTHER, "02:00"), (OTHER, "03:00")]
        assert [tick.schedule_time[-5:] for tick in self.ticks_of(TABLE)] == ["01:00", "03:00"]

    def test_close_does_not_wait_for_a_gateway_that_does_not_answer(self) -> None:
        self.create()
        self.gateway.hold(TABLE)
        self.move_clock(MINUTE)
        self.gateway.wait_for_requests(1)

        closing = threading.Thread(target=self.scheduler.close)
        closing.start()
        closing.join(60)

        assert not closing.is_alive()
        with pytest.raises(WorkflowError, match="not open"):
            self.create()

    def test_hundreds_due_at_once_are_all_delivered(self) -> None:
        for number in range(500):
            self.create(workflow_id=f"table-{number}", schedule=every(1, "MINUTE"))

        ticks = self.pass_by(MINUTE)

        assert ticks == [("01:00", 200)] * 500
        assert len({tick.table_id for tick in self.gateway.ticks}) == 500
        assert self.gateway.opened_sessions == 1


@pytest.mark.parametrize(
    ("attempt", "shortest", "longest"),
    [(1, 1, 2), (2, 2, 4), (3, 4, 8), (4, 8, 16), (5, 15, 30), (1000, 15, 30)],
)
def test_the_pause_between_attempts_doubles_up_to_half_a_minute(
    attempt: int, shortest: int, longest: int
) -> None:
    delays = [retry_delay_s(attempt) for _ in range(200)]

    assert shortest <= min(delays) < max(delays) <= longest


def test_a_pause_that_is_asked_for_counts_up_to_the_longest() -> None:
    assert retry_delay_s(1, 12.0) == 12.0
    assert retry_delay_s(1, 3600.0) == 30.0


class TestClocks(DeliveryWorkbench):
    def test_a_clock_put_back_by_an_hour_ticks_on_from_there(self) -> None:
        self.create()
        self.pass_by(timedelta(hours=2))
        self.move_clock(-timedelta(hours=1))
        self.create(workflow_id=OTHER)
        self.settle()
        before = len(self.gateway.ticks)

        self.pass_by(MINUTE)

        (tick,) = [tick for tick in self.gateway.ticks[before:] if tick.table_id == TABLE]
        assert tick.schedule_time[-8:] == "11:01:00"
        assert tick.headers["idempotency-key"] == f"{TABLE}/2024-01-03T11:01:00+00:00/1"

    def test_a_workflow_that_was_created_while_the_clock_was_ahead_ticks_once_that_is_set_right(self) -> None:
        self.move_clock(timedelta(days=3))
        self.create()
        self.settle()
        self.move_clock(-timedelta(days=3))
        self.create(workflow_id=OTHER)
        self.settle()

        self.pass_by(2 * MINUTE)

        assert [tick.schedule_time[:10] for tick in self.gateway.ticks if tick.table_id == TABLE]
        assert {tick.schedule_time[:10] for tick in self.gateway.ticks if tick.table_id == TABLE} == {
            "2024-01-03"
        }

    def test_a_clock_that_jumped_years_ahead_and_was_put_back_ticks_at_the_next_point(self) -> None:
        self.create()
        self.pass_by(timedelta(days=2000))
        self.move_clock(-timedelta(days=2000))
        self.create(workflow_id=OTHER)
        self.settle()
        before = len(self.gateway.ticks)

        self.pass_by(MINUTE)

        assert [tick.schedule_time for tick in self.gateway.ticks[before:] if tick.table_id == TABLE]
