"""Workflow definitions as the Airflow plug-in reads them from the gateway: shard by shard, with an ETag."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from mt_core.base.access import parse_tokens
from mt_core.model.freshness import Freshness
from mt_core.sql.parser import parse
from mt_core.tables.workflows.served import ServedWorkflows
from mt_core.workflow.definitions import WorkflowDefinition, shard_of
from mt_core.workflow.operations import Schedule
from tests.support.gateway.shared_app import app_of
from tests.support.gateway.statements import Gateway, root_cause
from tests.support.manager_world import ManagerWorld

CREATE = """CREATE MATERIALIZED TABLE daily COMMENT 'from jdbc:x://u:hunter2@h' WITH ('write.data.path' = 's3://u:p4ss@h/x')
FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS SELECT * FROM orders"""


@pytest.fixture
def world() -> ManagerWorld:
    world = ManagerWorld()
    world.sql(CREATE)
    return world


@pytest.fixture
def airflow(gateway: Gateway, world: ManagerWorld, switch: Any) -> Iterator[httpx.Client]:
    """The gateway's HTTP client; the gateway serves the workflow definitions of *world* to Airflow."""
    published = ServedWorkflows(world.registry, "airflow")
    switch.app = app_of(replace(gateway.services, published=published))
    return gateway.http


def definition(world: ManagerWorld, **facts: Any) -> WorkflowDefinition:
    usual = WorkflowDefinition(
        workflow_id=world.table().table_id,
        identifier="lake.default.daily",
        description="Refresh materialized table lake.default.daily every 1 day",
        schedule=Schedule(
            freshness=Freshness(1, "DAY"), zone="Europe/Berlin", since=datetime(2026, 3, 1, tzinfo=UTC)
        ),
        init_config={"table.local-time-zone": "Europe/Berlin"},
        dynamic_options={"format": "orc"},
        name="mt__lake.default.daily",
    )
    return replace(usual, **facts)


def publish(world: ManagerWorld, **facts: Any) -> str:
    """Store the definition and return the path of its shard."""
    stored = definition(world, **facts)
    world.registry.definitions.put(stored)
    return f"/v3/workflows/airflow/shards/{shard_of(stored.workflow_id)}"


def test_a_shard_has_all_that_a_dag_needs(world: ManagerWorld, airflow: httpx.Client) -> None:
    path = publish(world)
    table_id = world.table().table_id

    answer = airflow.get(path)

    text = answer.json()["workflows"][0].pop("definition")
    body = answer.json()
    body["workflows"][0].pop("definition")
    assert answer.status_code == 200
    assert body == {
        "version": 1,
        "scheduler": "airflow",
        "shard": shard_of(table_id),
        "shards": 32,
        "state": world.registry.definitions.shard(shard_of(table_id))[0],
        "workflows": [
            {
                "name": "mt__lake.default.daily",
                "workflow_id": table_id,
                "identifier": "lake.default.daily",
                "description": "Refresh materialized table lake.default.daily every 1 day",
                "schedule": {
                    "version": 2,
                    "amount": 1,
                    "unit": "DAY",
                    "anchor": "1970-01-05",
                    "zone": "Europe/Berlin",
                    "cron": "0 0 * * *",
                },
                "freshness": {"amount": 1, "unit": "DAY"},
                "zone": "Europe/Berlin",
                "since": "2026-03-01T00:00:00+00:00",
                "paused": False,
                "init_config": {"table.local-time-zone": "Europe/Berlin"},
                "execution_config": {},
                "dynamic_options": {"format": "orc"},
                "details_url": f"{airflow.base_url}/ui/tables/{table_id}",
            }
        ],
    }
    assert "CREATE MATERIALIZED TABLE `lake`.`default`.`daily`" in text
    assert parse(text) is not None
    assert "p4ss" not in text


def test_no_secret_of_a_table_is_published(world: ManagerWorld, airflow: httpx.Client) -> None:
    path = publish(world, dynamic_options={"s3.access-key": "hunter2", "write.format.default": "orc"})

    answer = airflow.get(path)

    assert "COMMENT 'from jdbc:x://u:***@h'" in answer.json()["workflows"][0]["definition"]
    assert "hunter2" not in answer.text
    assert answer.json()["workflows"][0]["dynamic_options"] == {"write.format.default": "orc"}


def test_who_has_the_shard_already_is_sent_nothing_until_it_changes(
    world: ManagerWorld, airflow: httpx.Client
) -> None:
    world.engine.create_source("lake.default.others", [{"ds": "2026-03-01", "amount": 1}])
    path = publish(world)
    etag = airflow.get(path).headers["etag"]

    same = airflow.get(path, headers={"If-None-Match": etag})
    publish(world, paused=True)
    paused = airflow.get(path, headers={"If-None-Match": etag})
    world.sql("ALTER MATERIALIZED TABLE daily AS SELECT * FROM others")
    altered = airflow.get(path, headers={"If-None-Match": paused.headers["etag"]})

    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag)
    assert (paused.status_code, paused.json()["workflows"][0]["paused"]) == (200, True)
    assert altered.status_code == 200


def test_workflows_that_another_scheduler_keeps_are_not_published(
    world: ManagerWorld, airflow: httpx.Client
) -> None:
    path = publish(world, name="")

    assert airflow.get(path).json()["workflows"] == []


def test_a_table_that_is_dropped_leaves_its_shard(world: ManagerWorld, airflow: httpx.Client) -> None:
    path = publish(world)
    world.sql("DROP MATERIALIZED TABLE daily")

    assert airflow.get(path).json()["workflows"] == []


def test_one_workflow_can_be_looked_up(world: ManagerWorld, airflow: httpx.Client) -> None:
    path = publish(world)
    [listed] = airflow.get(path).json()["workflows"]

    found = airflow.get(f"/v3/workflows/airflow/{listed['workflow_id']}")
    missing = airflow.get("/v3/workflows/airflow/nothing")

    assert found.json() == listed
    assert (missing.status_code, missing.headers["freshtable-error"]) == (404, "TABLE_NOT_FOUND")


@pytest.mark.parametrize(
    ("page", "before"),
    [
        ({"page_base": None}, "{gateway}/v3/workflows/airflow"),
        (
            {"page_base": "/freshtable/ui", "page_url": "https://data.example.com/freshtable/ui"},
            "https://data.example.com/freshtable/ui/tables",
        ),
    ],
    ids=["without the page", "with an address for browsers"],
)
def test_the_link_of_a_dag_leads_to_what_the_gateway_serves_of_its_table(
    gateway: Gateway, world: ManagerWorld, switch: Any, page: dict[str, Any], before: str
) -> None:
    published = ServedWorkflows(world.registry, "airflow")
    switch.app = app_of(replace(gateway.services, published=published, **page))

    [served] = gateway.http.get(publish(world)).json()["workflows"]

    address = before.format(gateway=str(gateway.http.base_url).rstrip("/"))
    assert served["details_url"] == f"{address}/{world.table().table_id}"


def test_a_workflow_without_the_page_is_found_with_the_run_that_a_task_adds(
    world: ManagerWorld, airflow: httpx.Client
) -> None:
    publish(world)

    found = airflow.get(f"/v3/workflows/airflow/{world.table().table_id}?run=r1")

    assert found.json()["identifier"] == "lake.default.daily"


@pytest.mark.parametrize("number", ["32", "-1", "first", "99999999999999999999", "0000000001"])
def test_a_shard_that_does_not_exist_is_refused(airflow: httpx.Client, number: str) -> None:
    answer = airflow.get(f"/v3/workflows/airflow/shards/{number}")

    assert answer.status_code == 400
    assert "errors" in answer.json()


@pytest.mark.parametrize("path", ["shards/0", "some-id"])
def test_a_scheduler_that_is_not_in_use_has_no_workflows(airflow: httpx.Client, path: str) -> None:
    answer = airflow.get(f"/v3/workflows/dagster/{path}")

    assert (answer.status_code, answer.headers["freshtable-error"]) == (404, "SCHEDULER_NOT_USED")
    assert "workflow-scheduler.type is airflow" in root_cause(answer)


def test_shards_need_the_token(gateway: Gateway, world: ManagerWorld, switch: Any) -> None:
    published = ServedWorkflows(world.registry, "airflow")
    switch.app = app_of(
        replace(
            gateway.services,
            published=published,
            tokens=parse_tokens("airflow:refresh:first"),
        )
    )

    refused = gateway.http.get("/v3/workflows/airflow/shards/0")
    let_in = gateway.http.get("/v3/workflows/airflow/shards/0", headers={"Authorization": "Bearer first"})

    assert (refused.status_code, let_in.status_code) == (401, 200)
