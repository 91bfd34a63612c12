"""Materialized tables whose workflows are DAGs: statements of users, and changes in Airflow's UI."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from mt_core.errors import TableNotCreated, WorkflowError
from mt_core.model.table import RefreshStatus
from mt_core.tables.intents import LONGEST_CALL
from mt_core.tables.upkeep.reconcile import reconcile
from tests.scenario.airflow_story import AirflowStory
from tests.support.manager_world import DAILY

DAG = "mt__lake.default.daily"
SUSPEND = "ALTER MATERIALIZED TABLE daily SUSPEND"
RESUME = "ALTER MATERIALIZED TABLE daily RESUME"
DROP = "DROP MATERIALIZED TABLE daily"


@pytest.fixture
def story() -> Iterator[AirflowStory]:
    story = AirflowStory()
    yield story
    story.close()


@pytest.fixture
def daily(story: AirflowStory) -> AirflowStory:
    story.sql(DAILY)
    story.work()
    story.clock.advance(timedelta(minutes=10))
    return story


def test_a_created_table_is_a_dag_and_its_next_run_is_shown(daily: AirflowStory) -> None:
    assert daily.airflow.dags[DAG].definition.workflow_id == daily.table().table_id
    assert daily.facts()["workflow"] == "ACTIVE in airflow"
    assert daily.facts()["next run"] == "2026-03-02 00:00:00"
    assert reconcile(daily.services) == []


def test_who_pauses_the_dag_suspends_the_table_and_resume_wins_over_it(daily: AirflowStory) -> None:
    daily.airflow.pause_by_hand(DAG, paused=True, user="anna")
    facts = daily.facts()

    daily.sql(RESUME)

    assert facts["status"] == "SUSPENDED, by anna at 2026-03-01 12:10:00"
    assert not daily.airflow.dags[DAG].is_paused
    assert reconcile(daily.services) == []
    assert daily.table().status is RefreshStatus.ACTIVATED


def test_who_resumes_the_dag_resumes_the_table_within_a_pass(daily: AirflowStory) -> None:
    daily.sql(SUSPEND)
    daily.airflow.pause_by_hand(DAG, paused=False, user="anna")

    done = reconcile(daily.services)

    assert done == ["lake.default.daily is ACTIVE in the scheduler"]
    assert (daily.table().status, daily.table().status_by) == (RefreshStatus.ACTIVATED, "anna")


@pytest.mark.parametrize("paused", [False, True])
def test_a_dag_that_was_paused_in_the_ui_and_deleted_by_hand_comes_back_as_it_was(
    daily: AirflowStory, paused: bool
) -> None:
    daily.airflow.pause_by_hand(DAG, paused=paused)
    reconcile(daily.services)
    del daily.airflow.dags[DAG]
    daily.airflow.parse_all()
    came_back = daily.airflow.dags[DAG].is_paused
    del daily.airflow.dags[DAG]

    done = reconcile(daily.services)

    assert came_back is paused
    assert done == ["recreated the workflow of lake.default.daily"]
    assert daily.airflow.dags[DAG].is_paused is paused
    assert daily.table().status is (RefreshStatus.SUSPENDED if paused else RefreshStatus.ACTIVATED)


def test_airflow_away_at_create_keeps_nothing(story: AirflowStory) -> None:
    story.server.stop()

    refusal = story.refused(lambda: story.sql(DAILY), TableNotCreated)

    assert "nothing was left behind" in refusal
    assert "cannot be reached" in refusal
    assert story.show("SHOW MATERIALIZED TABLES") == []
    assert (story.registry.definitions.all(), story.engine.storages) == ([], {})


def test_a_dag_that_does_not_appear_keeps_nothing_and_the_table_can_be_created_later(
    story: AirflowStory,
) -> None:
    story.airflow.parse_after = None
    refusal = story.refused(lambda: story.sql(DAILY), TableNotCreated)
    left = story.show("SHOW MATERIALIZED TABLES")
    story.airflow.parse_after = timedelta(0)

    story.sql(DAILY)

    assert "has not appeared within 60 s" in refusal
    assert left == []
    assert story.table().status is RefreshStatus.ACTIVATED
    assert list(story.airflow.dags) == [DAG]


def test_airflow_away_at_suspend_leaves_the_table_active_and_a_late_effect_is_put_right(
    daily: AirflowStory,
) -> None:
    daily.server.stop()
    refusal = daily.refused(lambda: daily.sql(SUSPEND), WorkflowError)
    daily.server.start()
    daily.airflow.pause_by_hand(DAG, paused=True, user="svc")

    done = reconcile(daily.services)
    daily.clock.advance(LONGEST_CALL)
    settled = reconcile(daily.services)

    assert daily.server.url in refusal
    assert done == ["the workflow of lake.default.daily is ACTIVE again"]
    assert settled == []
    assert (daily.table().status, daily.table().repair_until) == (RefreshStatus.ACTIVATED, None)


def test_airflow_away_at_drop_is_a_warning_and_the_reconciler_finishes_it(daily: AirflowStory) -> None:
    daily.server.stop()
    outcome = daily.sql(DROP)
    daily.server.start()
    published = daily.registry.definitions.all()

    done = reconcile(daily.services)

    assert (
        "lake.default.daily is dropped; its leftovers are removed as soon as possible" in outcome.warnings[0]
    )
    assert (published, daily.engine.storages) == ([], {})
    assert done == ["removed what was left of lake.default.daily"]
    assert daily.airflow.dags == {}


def test_a_name_can_be_used_again_at_once_and_the_new_table_has_the_dag(daily: AirflowStory) -> None:
    old = daily.table().table_id
    daily.sql(DROP)
    daily.sql(DAILY)
    reconcile(daily.services)

    assert daily.airflow.dags[DAG].definition.workflow_id == daily.table().table_id != old


def test_a_workflow_that_was_made_while_its_table_was_dropped_does_not_keep_the_name(
    daily: AirflowStory,
) -> None:
    made_meanwhile = daily.registry.definitions.get(daily.table().table_id)
    assert made_meanwhile is not None
    daily.sql(DROP)
    daily.registry.definitions.put(made_meanwhile)
    daily.airflow.parse_all()
    refusal = daily.refused(lambda: daily.sql(DAILY), TableNotCreated)

    done = reconcile(daily.services)
    daily.sql(DAILY)

    assert "belongs to another workflow" in refusal
    assert done == ["removed the workflow of lake.default.daily, which was dropped"]
    assert daily.airflow.dags[DAG].definition.workflow_id == daily.table().table_id
    assert reconcile(daily.services) == []


def test_a_freshness_of_seconds_is_refused_and_nothing_is_kept(story: AirflowStory) -> None:
    refusal = story.refused(lambda: story.sql(DAILY.replace("'1' DAY", "'10' SECOND")), TableNotCreated)

    assert "use INTERVAL '1' MINUTE or more, or set workflow-scheduler.type to memory" in refusal
    assert story.engine.storages == {}
    assert story.airflow.asked("PUT") == 0
