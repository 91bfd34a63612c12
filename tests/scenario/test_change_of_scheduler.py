"""A home whose tables were created under another `workflow-scheduler.type`: they work at once, in both
directions.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mt_core.errors import WorkflowError
from mt_core.model.table import RefreshStatus
from mt_core.tables.registry import in_transaction
from mt_core.tables.upkeep.reconcile import reconcile
from mt_core.testing.fake_clock import FakeClock
from tests.scenario.airflow_story import AirflowStory
from tests.support.manager_world import DAILY, START

DAG = "mt__lake.default.daily"
OFTEN = DAILY.replace("'1' DAY", "'10' SECOND")
SUSPEND = "ALTER MATERIALIZED TABLE daily SUSPEND"
RESUME = "ALTER MATERIALIZED TABLE daily RESUME"
DROP = "DROP MATERIALIZED TABLE daily"
HOURLY = "ALTER MATERIALIZED TABLE daily SET FRESHNESS = INTERVAL '1' HOUR"


@pytest.fixture
def story() -> Iterator[AirflowStory]:
    story = AirflowStory(FakeClock(START))
    yield story
    story.close()


@pytest.fixture
def on_memory(story: AirflowStory) -> AirflowStory:
    story.to_memory()
    return story


def created(story: AirflowStory, text: str = DAILY) -> None:
    story.sql(text)
    story.work()


def leftovers(story: AirflowStory) -> tuple[object, object, object]:
    tombstones = in_transaction(story.registry, lambda tx: list(tx.tombstones.all()))
    return tombstones, story.registry.definitions.all(), dict(story.engine.storages)


def test_tables_of_the_memory_scheduler_become_dags(on_memory: AirflowStory) -> None:
    created(on_memory)

    told = on_memory.to_airflow()
    done = reconcile(on_memory.services)

    assert told == ["lake.default.daily now has its workflow in airflow instead of memory"]
    assert done == ["recreated the workflow of lake.default.daily"]
    assert on_memory.facts()["workflow"] == "ACTIVE in airflow"
    assert on_memory.airflow.dags[DAG].definition.workflow_id == on_memory.table().table_id


def test_tables_of_airflow_tick_in_the_memory_scheduler_at_once(story: AirflowStory) -> None:
    created(story)

    told = story.to_memory()

    assert told == ["lake.default.daily now has its workflow in memory instead of airflow"]
    assert story.facts()["workflow"] == "ACTIVE in memory"
    assert story.facts()["next run"] == "2026-03-02 00:00:00"
    assert reconcile(story.services) == []


@pytest.mark.parametrize("direction", ["to airflow", "to memory"])
def test_a_suspended_table_stays_suspended_and_can_be_resumed(story: AirflowStory, direction: str) -> None:
    if direction == "to airflow":
        story.to_memory()
    created(story)
    story.sql(SUSPEND)

    story.to_airflow() if direction == "to airflow" else story.to_memory()
    reconcile(story.services)
    workflow, status = story.facts()["workflow"], story.table().status
    story.sql(RESUME)

    assert workflow == f"PAUSED in {direction[3:]}"
    assert status is RefreshStatus.SUSPENDED
    assert story.facts()["workflow"] == f"ACTIVE in {direction[3:]}"


@pytest.mark.parametrize("statement", [DAILY, OFTEN])
def test_a_table_of_the_memory_scheduler_is_dropped_under_airflow_and_its_name_is_free_at_once(
    on_memory: AirflowStory, statement: str
) -> None:
    created(on_memory, statement)
    on_memory.to_airflow()

    outcome = on_memory.sql(DROP)
    left = leftovers(on_memory)
    created(on_memory)

    assert outcome.warnings == ()
    assert left == ([], [], {})
    assert on_memory.facts()["workflow"] == "ACTIVE in airflow"


def test_a_table_of_airflow_is_dropped_under_the_memory_scheduler_and_its_name_is_free_at_once(
    story: AirflowStory,
) -> None:
    created(story)
    story.to_memory()
    story.server.stop()

    outcome = story.sql(DROP)
    left = leftovers(story)
    created(story, OFTEN)

    assert outcome.warnings == ()
    assert left == ([], [], {})
    assert story.facts()["workflow"] == "ACTIVE in memory"


def test_what_an_older_start_left_of_a_dropped_table_does_not_keep_its_name(story: AirflowStory) -> None:
    created(story)
    story.airflow.fail("PATCH", 409, {"detail": "no"})
    warned = story.sql(DROP).warnings
    story.to_memory()

    created(story)

    assert "is dropped; its leftovers are removed" in warned[0]
    assert in_transaction(story.registry, lambda tx: list(tx.tombstones.all())) == []
    assert story.facts()["workflow"] == "ACTIVE in memory"


@pytest.mark.parametrize("statement", [DAILY, OFTEN])
def test_another_freshness_is_kept_to_at_once(on_memory: AirflowStory, statement: str) -> None:
    created(on_memory, statement)
    on_memory.to_airflow()

    on_memory.sql(HOURLY)

    assert on_memory.facts()["workflow"] == "ACTIVE in airflow"
    assert on_memory.facts()["next run"] == "2026-03-01 13:00:00"
    assert reconcile(on_memory.services) == []


def test_a_freshness_that_the_new_scheduler_cannot_keep_is_told_with_the_statement_that_mends_it(
    on_memory: AirflowStory, caplog: pytest.LogCaptureFixture
) -> None:
    created(on_memory, OFTEN)

    on_memory.to_airflow()
    done = reconcile(on_memory.services)
    told = on_memory.facts()["workflow"]
    revision = on_memory.table().revision
    reconcile(on_memory.services)

    mend = "ALTER MATERIALIZED TABLE lake.default.daily SET FRESHNESS = INTERVAL '1' MINUTE"
    assert done == []
    assert str(told).startswith(
        "MISSING in airflow: FRESHNESS = INTERVAL '10' SECOND is too frequent for Airflow"
    )
    assert mend in str(told)
    assert any(mend in line for line in caplog.messages)
    assert on_memory.table().revision == revision
    assert mend in on_memory.refused(lambda: on_memory.sql(RESUME), WorkflowError)


def test_tables_that_cannot_be_scheduled_do_not_keep_others_waiting(on_memory: AirflowStory) -> None:
    for number in range(4):
        created(on_memory, OFTEN.replace("daily", f"often{number}"))
    created(on_memory)
    on_memory.to_airflow()

    assert reconcile(on_memory.services) == ["recreated the workflow of lake.default.daily"]


def test_there_and_back_again_the_dag_is_the_one_it_was(story: AirflowStory) -> None:
    created(story)
    story.to_memory()
    story.sql(SUSPEND)
    story.to_airflow()

    reconcile(story.services)

    assert story.airflow.dags[DAG].is_paused
    assert story.table().status is RefreshStatus.SUSPENDED
    assert list(story.airflow.dags) == [DAG]
