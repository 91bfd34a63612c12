"""Create, suspend, resume, re-schedule: what Airflow shows afterwards, and what is left when it fails."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mt_core.errors import WorkflowError
from mt_core.workflow.definitions import shard_of
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import SuspendRefreshWorkflow
from mt_core.workflow.scheduler import WorkflowState
from tests.unit.airflow.airflow_world import DAG, TABLE, AirflowWorld

OTHER = "0aa5c1a4-7a3b-4c50-9d0e-6f1f3c1f0002"


# ----------------------------------------------------------------------------------------------------- create


def test_a_table_is_a_dag_with_its_name_and_schedule_when_create_ends(opened: AirflowWorld) -> None:
    handler = opened.create(dynamic_options={"format": "orc"})

    assert handler == RefreshHandler(
        scheduler="airflow", workflow_id=TABLE, location={"dag_id": DAG, "endpoint": opened.server.url}
    )
    assert list(opened.airflow.dags) == [DAG]
    assert (opened.dag.is_paused, opened.dag.summary) == (
        False,
        "0 0 * * * (Europe/Berlin) since 2026-03-01T12:00:30+00:00",
    )
    [stored] = opened.definitions.all()
    assert (stored.name, stored.paused, stored.dynamic_options) == (DAG, False, {"format": "orc"})


def test_create_waits_until_airflow_has_parsed_the_file(opened: AirflowWorld) -> None:
    opened.airflow.parse_after = timedelta(seconds=20)

    opened.create()

    assert DAG in opened.airflow.dags
    assert opened.airflow.asked("PUT /api/v2/parseDagFile") > 1


def test_a_dag_that_was_left_stale_and_paused_is_taken_up_again(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.airflow.pause_by_hand(DAG, paused=True)
    opened.definitions.delete(TABLE)
    opened.airflow.parse_all()
    stale = opened.dag.is_stale

    opened.create(workflow_id=OTHER)

    assert stale
    assert (opened.dag.is_stale, opened.dag.is_paused, opened.dag.definition.workflow_id) == (
        False,
        False,
        OTHER,
    )
    assert handler.location["dag_id"] == DAG


@pytest.mark.parametrize("paused", [True, False])
def test_a_workflow_made_again_is_paused_as_it_is_wanted(opened: AirflowWorld, paused: bool) -> None:
    opened.create(paused=not paused)
    del opened.airflow.dags[DAG]

    opened.create(paused=paused)

    assert opened.dag.is_paused is paused


def test_an_airflow_that_is_away_at_create_leaves_nothing_and_needs_no_undoing(opened: AirflowWorld) -> None:
    opened.server.stop()

    error = opened.refused(opened.create)
    opened.delete(RefreshHandler(scheduler="airflow", workflow_id=TABLE))

    assert "cannot be reached" in str(error)
    assert opened.server.url in str(error)
    assert opened.definitions.writes == 1
    assert opened.definitions.all() == []


def test_a_dag_that_does_not_appear_in_time_is_taken_back(opened: AirflowWorld) -> None:
    opened.airflow.parse_after = None

    error = opened.refused(opened.create)

    assert "DAG mt__lake.sales.daily (lake.sales.daily) has not appeared within 60 s" in str(error)
    assert "workflow-scheduler.airflow.publish-timeout" in str(error)


def test_a_definition_that_airflow_cannot_read_is_refused_with_what_the_anchor_says(
    opened: AirflowWorld,
) -> None:
    opened.airflow.broken.add(DAG)

    error = opened.refused(opened.create)

    assert f"mt__shard_{shard_of(TABLE):02d} says: {DAG}: cannot be read" in str(error)
    assert opened.definitions.all() == []
    assert opened.airflow.dags == {}


def test_a_bundle_that_is_not_there_is_named_at_create(opened: AirflowWorld) -> None:
    opened.airflow.definitions = None

    error = opened.refused(opened.create)

    assert "dag_bundle_config_list" in str(error)
    assert opened.definitions.all() == []


@pytest.mark.parametrize(("amount", "unit"), [(1, "SECOND"), (59, "SECOND")])
def test_a_freshness_below_a_minute_is_refused_with_the_way_out(
    opened: AirflowWorld, amount: int, unit: str
) -> None:
    handler = opened.create()

    with pytest.raises(
        WorkflowError, match=r"INTERVAL '1' MINUTE or more, or set workflow-scheduler\.type to memory"
    ):
        opened.create(workflow_id=OTHER, identifier="lake.sales.other", schedule=opened.every(amount, unit))
    with pytest.raises(WorkflowError, match="is too frequent for Airflow"):
        opened.reschedule(handler, opened.every(amount, unit))

    assert [definition.workflow_id for definition in opened.definitions.all()] == [TABLE]


def test_a_dag_id_that_another_table_has_is_refused(opened: AirflowWorld) -> None:
    opened.create()

    with pytest.raises(WorkflowError, match="belongs to another workflow"):
        opened.create(workflow_id=OTHER)


# ----------------------------------------------------------------------------------------- suspend and resume


def test_suspend_and_resume_pause_the_dag_and_say_so_in_the_definition(opened: AirflowWorld) -> None:
    handler = opened.create()

    opened.suspend(handler)
    suspended = (opened.dag.is_paused, opened.definitions.all()[0].paused)
    opened.resume(handler)

    assert suspended == (True, True)
    assert (opened.dag.is_paused, opened.definitions.all()[0].paused) == (False, False)


def test_new_options_are_read_by_airflow_before_the_dag_is_resumed(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.suspend(handler)
    opened.airflow.requests.clear()

    opened.resume(handler, {"format": "avro"})

    asked = [request.split()[0] for request in opened.airflow.requests if not request.startswith("GET")]
    assert asked == ["PUT", "PATCH"]
    assert opened.dag.definition.dynamic_options == {"format": "avro"}
    assert not opened.dag.is_paused


def test_a_run_that_was_planned_before_the_pause_is_forgotten_at_resume(opened: AirflowWorld) -> None:
    handler = opened.create()
    planned = opened.dag.next_run(opened.clock.now())
    opened.suspend(handler)
    opened.clock.advance(timedelta(days=5))

    opened.resume(handler)

    assert opened.dag.next_run(opened.clock.now()) == planned + timedelta(days=4)


def test_a_dag_processor_that_is_away_does_not_keep_a_table_suspended(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.suspend(handler)
    opened.airflow.parse_after = None
    before = opened.clock.now()

    opened.resume(handler)

    assert not opened.dag.is_paused
    assert opened.clock.now() - before < timedelta(seconds=12)


def test_an_airflow_that_is_away_at_suspend_changes_nothing(opened: AirflowWorld) -> None:
    handler = opened.create()
    before = opened.definitions.all()
    opened.server.stop()

    error = opened.refused(opened.suspend, handler)

    assert "cannot be reached" in str(error)
    assert opened.definitions.all() == before
    assert not opened.dag.is_paused


def test_a_dag_that_was_deleted_by_hand_cannot_be_suspended_and_the_error_names_the_way_out(
    opened: AirflowWorld,
) -> None:
    handler = opened.create()
    del opened.airflow.dags[DAG]

    error = opened.refused(opened.suspend, handler)

    assert "has no DAG mt__lake.sales.daily (lake.sales.daily); RESUME the table" in str(error)


def test_an_outdated_operation_is_refused(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.resume(handler)

    with pytest.raises(WorkflowError, match="outdated operation"):
        opened.scheduler.modify_refresh_workflow(SuspendRefreshWorkflow(handler=handler, token=0))

    assert not opened.dag.is_paused


# ---------------------------------------------------------------------------------------------- re-scheduling


def test_another_schedule_is_shown_by_airflow_when_the_statement_ends(opened: AirflowWorld) -> None:
    handler = opened.create()
    schedule = opened.every(90, "MINUTE")

    opened.reschedule(handler, schedule)

    assert opened.dag.summary.startswith("every 90 MINUTE (Europe/Berlin)")
    assert (
        opened.definitions.all()[0].description
        == "Refresh materialized table lake.sales.daily every 90 minutes"
    )


def test_a_changed_dag_is_read_once_more_after_half_a_minute(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.reschedule(handler, opened.every(90, "MINUTE"))
    opened.airflow.requests.clear()
    opened.describe(handler)
    early = opened.airflow.asked("PUT")
    opened.clock.advance(timedelta(seconds=36))

    opened.describe(handler)
    opened.describe(handler)

    assert (early, opened.airflow.asked("PUT")) == (0, 1)


def test_what_was_changed_just_before_a_restart_is_read_once_more_too(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.scheduler.close()
    opened.open()
    opened.airflow.requests.clear()
    opened.clock.advance(timedelta(seconds=36))

    opened.describe(handler)

    assert opened.airflow.asked("PUT") == 1


def test_a_schedule_that_airflow_does_not_take_up_in_time_is_taken_back(opened: AirflowWorld) -> None:
    handler = opened.create()
    before = opened.definitions.all()
    opened.airflow.parse_after = None

    error = opened.refused(opened.reschedule, handler, opened.every(2, "DAY"))

    assert "is still on the schedule '0 0 * * * (Europe/Berlin) since" in str(error)
    assert opened.definitions.all() == before


# ----------------------------------------------------------------------------------------------------- delete


def test_a_drop_pauses_takes_back_waits_and_only_then_deletes(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.airflow.requests.clear()

    opened.delete(handler)

    asked = [request.split()[0] for request in opened.airflow.requests if not request.startswith("GET")]
    assert asked == ["PATCH", "PUT", "DELETE"]
    assert (opened.airflow.dags, opened.definitions.all()) == ({}, [])


def test_a_drop_that_meets_a_parse_from_before_it_waits_for_another(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.airflow.requests.clear()
    opened.airflow.begin_parse(TABLE)

    opened.delete(handler)

    asked = [request.split()[0] for request in opened.airflow.requests if not request.startswith("GET")]
    assert asked == ["PATCH", "PUT", "PUT", "DELETE"]
    assert (opened.airflow.dags, opened.definitions.all()) == ({}, [])


def test_a_create_and_a_new_schedule_that_meet_a_parse_from_before_them_wait_for_another(
    opened: AirflowWorld,
) -> None:
    opened.airflow.begin_parse(TABLE)
    handler = opened.create()
    opened.airflow.begin_parse(TABLE)

    opened.reschedule(handler, opened.every(5, "HOUR"))

    assert opened.airflow.asked("PUT") == 4
    assert opened.dag.summary.startswith("every 5 HOUR")


def test_a_drop_fails_the_runs_that_have_not_ended_and_tries_again_while_tasks_run(
    opened: AirflowWorld,
) -> None:
    handler = opened.create()
    dag = opened.dag
    dag.runs |= {"scheduled__1": "running", "manual__2+00:00": "queued", "scheduled__0": "success"}
    dag.busy = 2
    opened.airflow.fail("DELETE", 500, {"detail": "Internal Server Error"})

    opened.delete(handler)

    assert dag.runs == {"scheduled__1": "failed", "manual__2+00:00": "failed", "scheduled__0": "success"}
    assert opened.airflow.asked("DELETE") == 4
    assert opened.airflow.dags == {}


def test_a_dag_whose_tasks_never_end_is_left_with_an_error_that_says_so(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.dag.busy = 10_000

    error = opened.refused(opened.delete, handler)

    assert "does not delete DAG mt__lake.sales.daily: its tasks are still running" in str(error)


def test_a_dag_that_is_gone_is_dropped_and_its_definition_with_it(opened: AirflowWorld) -> None:
    handler = opened.create()
    del opened.airflow.dags[DAG]

    opened.delete(handler)
    opened.delete(handler)

    assert (opened.airflow.dags, opened.definitions.all()) == ({}, [])


def test_a_drop_while_airflow_is_away_is_an_error_until_it_is_back(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.definitions.delete(TABLE)
    opened.server.stop()
    error = opened.refused(opened.delete, handler)
    opened.server.start()

    opened.delete(handler)

    assert "cannot be reached" in str(error)
    assert opened.airflow.dags == {}


def test_a_table_that_was_never_activated_is_found_by_its_name(opened: AirflowWorld) -> None:
    opened.create()
    opened.definitions.delete(TABLE)

    opened.delete(
        RefreshHandler(scheduler="airflow", workflow_id=TABLE, location={"identifier": "lake.sales.daily"})
    )

    assert opened.airflow.dags == {}


def test_a_dag_that_belongs_to_a_newer_table_of_the_same_name_stays(opened: AirflowWorld) -> None:
    handler = opened.create()
    old = opened.definitions.get(TABLE)
    assert old is not None
    opened.definitions.delete(TABLE)
    opened.create(workflow_id=OTHER)
    opened.definitions.put(old)

    opened.delete(handler)

    assert opened.dag.definition.workflow_id == OTHER
    assert [definition.workflow_id for definition in opened.definitions.all()] == [OTHER]


def test_a_dag_is_dropped_also_when_our_bundle_is_gone(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.airflow.definitions = None

    opened.delete(handler)

    assert opened.airflow.dags == {}


def test_a_workflow_of_another_scheduler_is_refused_and_missing(opened: AirflowWorld) -> None:
    handler = replace(opened.create(), scheduler="memory")

    with pytest.raises(WorkflowError, match="belongs to the scheduler 'memory'"):
        opened.delete(handler)

    [description] = opened.describe(handler)
    assert description.state is WorkflowState.MISSING
