"""What is known of a table's workflow without a request to its scheduler."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mt_core.errors import WorkflowError
from mt_core.tables.keeper import KeeperState
from mt_core.tables.upkeep.reconcile import reconcile
from mt_core.tables.workflows.workflow_facts import WorkflowFacts, workflow_facts
from mt_core.workflow.handlers import RefreshHandler
from tests.support.fake_scheduler import FakeScheduler
from tests.support.manager_world import DAILY, START, WHOLE_TABLE, ManagerWorld


class WebScheduler(FakeScheduler):
    """A scheduler with a web interface, which has no URLs while `closed`."""

    closed = False

    def page_url(self, handler: RefreshHandler) -> str | None:
        if self.closed:
            raise WorkflowError("The scheduler is not open.")
        return f"https://scheduler.example.com/{handler.workflow_id}"


@pytest.fixture
def web() -> ManagerWorld:
    """A world whose scheduler has a web interface, with one table."""
    world = ManagerWorld()
    world.scheduler = WebScheduler()
    world.restart()
    world.sql(DAILY)
    return world


def facts(world: ManagerWorld) -> WorkflowFacts:
    return workflow_facts(world.services, world.table())


def test_before_the_first_report_only_the_url_is_known(web: ManagerWorld) -> None:
    url = f"https://scheduler.example.com/{web.table().table_id}"

    assert facts(web) == WorkflowFacts(report=None, reported_at=None, page_url=url)


def test_the_last_report_is_shown_with_its_time_while_the_scheduler_does_not_answer(
    web: ManagerWorld,
) -> None:
    reconcile(web.services)
    web.clock.advance(timedelta(minutes=5))
    web.scheduler.down = True

    known = facts(web)

    assert known.report is not None
    assert (known.report.state, known.reported_at) == (KeeperState.ACTIVE, START)
    assert known.page_url is not None


def test_a_workflow_that_the_scheduler_has_lost_has_no_url(web: ManagerWorld) -> None:
    web.scheduler.workflows.clear()
    web.show("DESCRIBE EXTENDED daily")

    known = facts(web)

    assert known.report is not None
    assert (known.report.state, known.page_url) == (KeeperState.MISSING, None)


def test_while_the_scheduler_is_not_open_the_report_is_known_without_the_url(web: ManagerWorld) -> None:
    reconcile(web.services)
    web.scheduler.closed = True

    known = facts(web)

    assert known.report is not None
    assert known.page_url is None


def test_a_scheduler_without_a_web_interface_has_no_urls() -> None:
    world = ManagerWorld()
    world.sql(DAILY)

    assert facts(world).page_url is None


def test_a_continuous_table_has_no_workflow_with_a_url(web: ManagerWorld) -> None:
    web.sql(WHOLE_TABLE.replace("REFRESH_MODE = FULL", "REFRESH_MODE = CONTINUOUS"))

    assert workflow_facts(web.services, web.table("totals")).page_url is None
