from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.execution_time.context import ConnectionAccessor, VariableAccessor
from airflow.serialization.serialized_objects import DagSerialization
from jinja2.sandbox import SandboxedEnvironment
from stub_gateway import definition

from freshtable_airflow.cache import ShardCache
from freshtable_airflow.factory import DagSettings, dag_of
from freshtable_airflow.loader import load_shard
from freshtable_airflow.operator import RefreshMaterializedTableOperator
from freshtable_airflow.shard import Shard

SETTINGS = DagSettings()
SCHEDULE = definition("lake.sales.daily")["schedule"]
GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
BROKEN = [
    definition("lake.bad.zone", zone="Europe/Atlantis"),
    definition("lake.bad.grid", every=(0, "MINUTE"), cron=""),
    definition("lake.bad.unit", every=(1, "FORTNIGHT")),
    definition("lake.bad.version", schedule=SCHEDULE | {"version": 4}),
    definition("lake.bad.anchor", schedule=SCHEDULE | {"anchor": "1970-01-01"}),
    definition("lake.bad.since", since="yesterday"),
    definition("lake.bad.name", name="mt__lake bad name"),
    {key: value for key, value in definition("lake.bad.nothing").items() if key != "schedule"},
]


def cache_of(folder: Path, *bodies: Any) -> ShardCache:
    cache = ShardCache(folder)
    cache.store(3, Shard(etag="one", workflows=list(bodies)))
    return cache


def loaded(cache: ShardCache) -> dict[str, DAG]:
    namespace: dict[str, Any] = {}
    load_shard(namespace, cache, 3, SETTINGS)
    return namespace


def test_a_definition_becomes_a_dag_as_the_scheduler_needs_it() -> None:
    served = definition("lake.sales.daily", paused=True)

    dag = dag_of(served, SETTINGS)

    assert (dag.dag_id, dag.dag_display_name) == ("mt__lake.sales.daily", "mt__lake.sales.daily")
    assert dag.tags == {"freshtable", "materialized-table"}
    assert (dag.params["force"], dag.params.get_param("force").schema["type"]) == (False, "boolean")
    assert dag.timetable.summary == "0 0 * * * (Europe/Berlin) since 2026-11-01T12:00:00+00:00"
    assert (dag.start_date, dag.catchup, dag.max_active_runs, dag.is_paused_upon_creation) == (
        None,
        False,
        1,
        True,
    )
    assert "CREATE MATERIALIZED TABLE lake.sales.daily" in dag.doc_md
    assert f"[This table at the gateway]({served['details_url']})" in dag.doc_md


def test_a_definition_with_a_cron_becomes_a_dag_of_its_expression() -> None:
    schedule = {"version": 3, "cron": "0 6 * * MON-FRI", "zone": "Europe/Berlin"}

    dag = dag_of(definition("lake.sales.daily", schedule=schedule, freshness=None), SETTINGS)

    assert dag.timetable.summary == "0 6 * * MON-FRI (Europe/Berlin) since 2026-11-01T12:00:00+00:00"
    assert "refreshed by cron 0 6 * * MON-FRI in Europe/Berlin" in dag.doc_md


def test_its_task_asks_for_the_table_with_what_the_gateway_served() -> None:
    served = definition("lake.sales.daily")

    (task,) = dag_of(served, SETTINGS).tasks

    assert (task.task_id, task.table, task.workflow_id, task.zone) == (
        "refresh",
        "lake.sales.daily",
        served["workflow_id"],
        "Europe/Berlin",
    )
    assert task.init_config == served["init_config"]
    assert task.execution_config == served["execution_config"]
    assert task.dynamic_options == served["dynamic_options"]
    assert task.outlets == [Asset(name="lake.sales.daily", uri="freshtable://lake/sales/daily")]
    assert task.retries > 0


def test_a_statement_cannot_end_the_block_in_which_it_is_shown() -> None:
    served = definition("lake.a", definition="SELECT 1\n~~~~\n# Click [here](http://evil)\n~~~~~")

    doc = dag_of(served, SETTINGS).doc_md or ""

    assert "~~~~~~sql\nSELECT 1\n~~~~\n# Click [here](http://evil)\n~~~~~\n~~~~~~\n" in doc


def test_a_dag_is_the_same_at_every_parse() -> None:
    served = definition("lake.sales.daily", every=(90, "MINUTE"), cron="")

    first, second = (DagSerialization.to_dict(dag_of(served, SETTINGS)) for _ in range(2))

    assert first == second


def test_each_workflow_that_the_gateway_serves_becomes_a_dag() -> None:
    served = json.loads((GOLDEN / "shard_schedules_v2.json").read_text())["workflows"]

    dags = {dag.dag_id: dag.timetable.summary for dag in (dag_of(body, SETTINGS) for body in served)}

    assert dags.keys() == {body["name"] for body in served}
    assert dags["mt__lake.sales.odd"] == "every 90 MINUTE (Europe/Berlin) since 2026-03-01T12:30:15+00:00"
    assert dags["mt__lake.sales.daily"] == "0 0 * * * (Europe/Berlin) since 2026-03-01T12:30:15+00:00"


@pytest.mark.parametrize("broken", BROKEN, ids=lambda body: body["identifier"])
def test_a_broken_definition_hides_no_other_and_is_named_by_the_anchor(
    tmp_path: Path, broken: dict[str, Any]
) -> None:
    good = definition("lake.sales.daily")

    dags = loaded(cache_of(tmp_path, broken, good, "no object"))

    assert set(dags) == {"mt__lake.sales.daily", "mt__shard_03"}
    assert broken["name"] in dags["mt__shard_03"].doc_md
    assert "no object" in dags["mt__shard_03"].doc_md


def test_an_anchor_is_never_due_and_says_nothing_while_all_is_well(tmp_path: Path) -> None:
    anchor = loaded(ShardCache(tmp_path))["mt__shard_03"]

    assert anchor.tags == {"freshtable-shard"}
    assert anchor.dag_display_name == "zz_mt__shard_03"
    assert anchor.timetable.summary == "never"
    assert not anchor.timetable.can_be_scheduled
    assert anchor.doc_md is None


def test_a_task_has_its_own_dag_alone_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "mt__lake.b")

    dags = loaded(cache_of(tmp_path, definition("lake.a"), definition("lake.b")))

    assert set(dags) == {"mt__lake.b"}


def test_an_anchor_shows_which_state_of_its_shard_was_read(tmp_path: Path) -> None:
    served = Shard.of({"version": 1, "workflows": [], "state": "5f0c1d2e3f4a5b6c"}, "one", "http://gateway")
    older = Shard.of({"version": 1, "workflows": []}, "two", "http://gateway")
    cache = ShardCache(tmp_path)
    cache.store(3, served)
    first = loaded(cache)["mt__shard_03"].description
    cache.store(3, older)

    second = loaded(cache)["mt__shard_03"].description

    assert first is not None
    assert first.endswith("State: 5f0c1d2e3f4a5b6c")
    assert second is not None
    assert second.endswith("State: unknown")


LEAK = "{{ conn.warehouse.password }} {{ var.value.api_key }} {{ 6 * 7 }}"


def rendered(task: Any) -> Any:
    """Return the task as Airflow hands it to a worker: rendered with the macros,
    variables and connections of templates.
    """
    context = {
        "conn": ConnectionAccessor(),
        "var": {"value": VariableAccessor(deserialize_json=False)},
        "ds": "2026-11-01",
    }
    task.render_template_fields(context, SandboxedEnvironment())
    return task


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", json.dumps({"conn_type": "generic", "password": "S3CRET"}))
    monkeypatch.setenv("AIRFLOW_VAR_API_KEY", "variable-secret")


@pytest.mark.usefixtures("secrets")
def test_what_a_user_of_the_gateway_writes_is_no_template_for_airflow() -> None:
    served = definition(
        f"lake.default.`{LEAK}`",
        name="mt__leak",
        zone="UTC",
        init_config={LEAK: LEAK},
        execution_config={LEAK: LEAK},
        dynamic_options={f"write.snapshot-property.{LEAK}": LEAK},
        definition=LEAK,
        details_url=LEAK,
        description=LEAK,
    )
    (task,) = dag_of(served, SETTINGS).tasks
    before = {
        name: copy.deepcopy(value)
        for name, value in vars(task).items()
        if "config" in name or "options" in name
    }

    rendered(task)

    assert task.table == f"lake.default.`{LEAK}`"
    assert task.details_url == LEAK
    assert {name: value for name, value in vars(task).items() if name in before} == before
    assert "S3CRET" not in repr(vars(task))
    assert "variable-secret" not in repr(vars(task))


@pytest.mark.usefixtures("secrets")
def test_a_task_that_people_write_has_its_templates_rendered() -> None:
    task = RefreshMaterializedTableOperator(
        task_id="t", table="lake.{{ ds }}", dynamic_options={"k": "{{ conn.warehouse.password }}"}
    )

    rendered(task)

    assert (task.table, task.dynamic_options) == ("lake.2026-11-01", {"k": "S3CRET"})
