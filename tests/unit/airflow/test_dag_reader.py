"""Reading back what people did in Airflow: in bulk, cheaply, and with who did it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.scheduler import WorkflowState
from tests.unit.airflow.airflow_world import DAG, AirflowWorld

MANY = 8


def several(world: AirflowWorld) -> list[RefreshHandler]:
    handlers = [
        world.create(workflow_id=f"table-{number}", identifier=f"lake.sales.t{number}")
        for number in range(MANY)
    ]
    world.describe(*handlers)
    world.airflow.requests.clear()
    return handlers


def states(world: AirflowWorld, handlers: list[RefreshHandler]) -> list[WorkflowState]:
    return [found.state for found in world.describe(*handlers)]


def test_a_pause_in_the_ui_is_told_with_who_and_when(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.clock.advance(timedelta(minutes=3))
    opened.airflow.pause_by_hand(DAG, paused=True, user="anna")

    [found] = opened.describe(handler)

    assert (found.state, found.next_run, found.changed_by) == (WorkflowState.PAUSED, None, "anna")
    assert found.changed_at == opened.clock.now()


def test_what_we_did_ourselves_is_nobodys_doing(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.airflow.pause_by_hand(DAG, paused=True, user="svc")

    [found] = opened.describe(handler)

    assert (found.state, found.changed_by, found.changed_at) == (WorkflowState.PAUSED, None, None)


def test_an_event_that_says_otherwise_is_not_the_one(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.airflow.pause_by_hand(DAG, paused=False, user="anna")
    opened.dag.is_paused = True

    [found] = opened.describe(handler)

    assert (found.state, found.changed_by) == (WorkflowState.PAUSED, None)


def test_without_the_right_to_read_the_event_log_nobody_is_named(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.airflow.reads_event_log = False
    opened.airflow.pause_by_hand(DAG, paused=True)

    [found] = opened.describe(handler)

    assert (found.state, found.changed_by) == (WorkflowState.PAUSED, None)


def test_the_event_log_is_asked_only_about_what_somebody_changed(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.suspend(handler)

    [found] = opened.describe(handler)

    assert found.state is WorkflowState.PAUSED
    assert opened.airflow.asked("eventLogs") == 0


def test_many_workflows_are_looked_up_in_two_calls(opened: AirflowWorld) -> None:
    handlers = several(opened)
    opened.airflow.pause_by_hand("mt__lake.sales.t3", paused=True)

    found = states(opened, handlers)

    assert [position for position, state in enumerate(found) if state is WorkflowState.PAUSED] == [3]
    assert opened.airflow.asked("GET /api/v2/dags") == 2


def test_a_resume_in_the_ui_is_seen_without_reading_everything(opened: AirflowWorld) -> None:
    handlers = several(opened)
    opened.airflow.pause_by_hand("mt__lake.sales.t3", paused=True)
    opened.clock.advance(timedelta(minutes=10))
    states(opened, handlers)
    opened.airflow.pause_by_hand("mt__lake.sales.t3", paused=False)
    opened.airflow.requests.clear()

    found = states(opened, handlers)

    assert set(found) == {WorkflowState.ACTIVE}
    assert opened.airflow.asked("GET /api/v2/dags") == 2


def test_a_dag_that_was_deleted_by_hand_is_missing_at_once(opened: AirflowWorld) -> None:
    handlers = several(opened)
    del opened.airflow.dags["mt__lake.sales.t3"]

    found = states(opened, handlers)

    assert [position for position, state in enumerate(found) if state is WorkflowState.MISSING] == [3]


def test_a_dag_that_went_stale_is_missing(opened: AirflowWorld) -> None:
    handlers = several(opened)
    opened.airflow.dags["mt__lake.sales.t3"].is_stale = True
    opened.airflow.pause_by_hand("mt__lake.sales.t3", paused=True)

    assert states(opened, handlers)[3] is WorkflowState.MISSING
    assert opened.describe(handlers[3])[0].state is WorkflowState.MISSING


def test_everything_is_read_again_after_a_while(opened: AirflowWorld) -> None:
    handlers = several(opened)
    opened.clock.advance(timedelta(days=1))

    found = opened.describe(*handlers)

    assert opened.airflow.asked("GET /api/v2/dags") == 3
    assert {description.next_run for description in found} == {
        opened.airflow.dags["mt__lake.sales.t0"].next_run(opened.clock.now())
    }


def test_more_dags_than_fit_a_page_are_all_found(opened: AirflowWorld) -> None:
    handlers = [
        opened.create(workflow_id=f"t{number}", identifier=f"lake.sales.t{number:03d}")
        for number in range(130)
    ]

    found = states(opened, handlers)

    assert found == [WorkflowState.ACTIVE] * 130


def test_a_workflow_whose_definition_is_gone_is_missing(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.definitions.delete(handler.workflow_id)

    assert opened.describe(handler)[0].state is WorkflowState.MISSING


def test_many_that_were_paused_at_once_are_named_from_one_look_into_the_log(opened: AirflowWorld) -> None:
    handlers = [
        opened.create(workflow_id=f"t{number}", identifier=f"lake.sales.t{number}") for number in range(12)
    ]
    for number in range(12):
        opened.airflow.pause_by_hand(f"mt__lake.sales.t{number}", paused=True, user="anna")

    found = opened.describe(*handlers)

    assert {description.changed_by for description in found} == {"anna"}
    assert opened.airflow.asked("eventLogs") == 1


@pytest.mark.parametrize("count", [1, MANY])
def test_an_airflow_that_is_away_cannot_be_read_back(opened: AirflowWorld, count: int) -> None:
    handlers = several(opened)[:count]
    opened.server.stop()

    error = opened.refused(opened.describe, *handlers)

    assert "cannot be reached" in str(error)
