"""Links between a scheduler and the page: from a task to its refresh, and from a table to its workflow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mt_core.tables.upkeep.reconcile import reconcile
from mt_core.workflow.definitions import shard_of
from mt_core.workflow.handlers import RefreshHandler
from scheduler_plugins.memory.scheduler import MemoryScheduler
from tests.support.gateway.whole import EVERY_10_S, WholeGateway
from tests.support.html_document import Element, document_of


class WebScheduler(MemoryScheduler):
    """The memory scheduler as if it had a web interface."""

    def page_url(self, handler: RefreshHandler) -> str | None:
        return f"https://scheduler.example.com/dags/{handler.workflow_id}"


@pytest.fixture
def often(tmp_path: Path) -> Iterator[WholeGateway]:
    """A gateway whose scheduler has a web interface, with the table `often`, which was refreshed once."""
    gateway = WholeGateway(tmp_path, WebScheduler)
    gateway.sql(EVERY_10_S.format("often", "orders"))
    gateway.wait_quiet()
    yield gateway
    gateway.close()


def served(gateway: WholeGateway) -> dict[str, str]:
    """Return the workflow of `often` as an external scheduler reads it."""
    definitions = gateway.process.registry.definitions
    [stored] = definitions.all()
    definitions.put(replace(stored, name="mt__often"))
    path = f"/v3/workflows/memory/shards/{shard_of(stored.workflow_id)}"
    [workflow] = gateway.http.get(path).json()["workflows"]
    return dict(workflow)


def refreshed(gateway: WholeGateway) -> str:
    """Return the id of the only refresh, as a task knows it."""
    [table] = gateway.http.get("/freshtable/v1/tables").json()["tables"]
    return str(table["last"]["id"])


def opened(gateway: WholeGateway, url: str) -> Element:
    answer = gateway.http.get(url)
    assert answer.status_code == 200, answer.text
    return document_of(answer.text).one("main")


def test_the_link_of_a_task_opens_its_refresh_on_the_page_of_the_table(often: WholeGateway) -> None:
    url = served(often)["details_url"]
    run_id = refreshed(often)

    main = opened(often, f"{url}?run={run_id}")

    assert url.startswith(f"{often.process.server.url}/ui/tables/")
    assert "often" in main.one("h1").text
    assert run_id in main.one("section", id="refresh").text


def test_the_link_of_a_dag_opens_the_page_of_the_table(often: WholeGateway) -> None:
    main = opened(often, served(often)["details_url"])

    assert "often" in main.one("h1").text
    assert main.every("section", id="refresh") == []


def test_the_link_of_a_task_that_knows_no_page_of_its_table_opens_the_refresh(often: WholeGateway) -> None:
    run_id = refreshed(often)

    main = opened(often, f"/ui/runs/{run_id}")

    assert main.one("h1").text == "Refresh of lake.default.often"


def test_the_page_of_a_table_links_to_its_workflow_with_the_last_report(often: WholeGateway) -> None:
    reconcile(often.process.tables)
    workflow_id = served(often)["workflow_id"]

    main = opened(often, f"/ui/tables/{workflow_id}")

    [link] = [each for each in main.every("a") if each.text == "Open in memory"]
    assert link.attributes["href"] == f"https://scheduler.example.com/dags/{workflow_id}"
    assert main.facts()["Reported"].endswith("ago")


def test_a_scheduler_without_a_web_interface_is_named_without_a_link(tmp_path: Path) -> None:
    gateway = WholeGateway(tmp_path)
    gateway.sql(EVERY_10_S.format("often", "orders"))
    gateway.wait_quiet()
    reconcile(gateway.process.tables)

    main = opened(gateway, served(gateway)["details_url"])
    gateway.close()

    assert "Active in memory." in main.text
    assert [each for each in main.every("a") if each.text.startswith("Open in")] == []
