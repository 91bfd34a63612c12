from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from mt_core.errors import RegistryError, Unsupported
from mt_core.model.catalog import CatalogAbilities, CreatedCatalog
from mt_core.model.freshness import Freshness
from mt_core.model.function import CreatedFunction
from mt_core.model.gateway import GatewayLease
from mt_core.model.job import Job, JobEvent, JobHook, JobStatus
from mt_core.model.partition import NOT_DOUBTED, WHOLE, DoubtedPartitions, PartitionSpec, Scope
from mt_core.model.run import ReasonCode, RefreshRun, RunKind, RunStatus
from mt_core.model.stream import StopRequest, StreamDefinition, StreamState
from mt_core.model.stream_plan import StreamPlan
from mt_core.model.table import (
    Column,
    Intent,
    MaterializedTable,
    RefreshMode,
    RefreshStatus,
    TableDefinition,
    TableIdentifier,
)
from mt_core.model.transform import Transform, TransformKind
from mt_core.registry import rows
from mt_core.tables.registry import Tombstone
from mt_core.workflow.definitions import WorkflowDefinition
from mt_core.workflow.operations import Schedule
from tests.support.registry_facts import HOUR, NOON, a_plan, a_run, a_stream, a_table

GOLDEN = Path(__file__).parent.parent / "golden" / "registry_v1.json"
# The rows whose form has changed since.
GOLDEN_2 = GOLDEN.with_name("registry_v2.json")

TABLE = MaterializedTable(
    table_id="0b6f7a52-9a0e-4f5e-9f0e-3f1f5f6f7a01",
    identifier=TableIdentifier("lake", ("sales", "eu"), "daily"),
    definition=TableDefinition(
        columns=(
            Column(name="ds", type="string"),
            Column(name="n", type="bigint", nullable=False, comment="how many"),
        ),
        original_query="SELECT ds, count(*) AS n FROM orders GROUP BY ds",
        expanded_query="SELECT `ds`, count(*) AS `n` FROM `lake`.`sales`.`orders` GROUP BY `ds`",
        freshness=Freshness(1, "DAY"),
        refresh_mode=RefreshMode.FULL,
        logical_refresh_mode="AUTOMATIC",
        zone="Europe/Rome",
        comment="orders a day",
        partition_keys=("ds",),
        options={"partition.fields.ds.date-formatter": "yyyy-MM-dd"},
        catalog="lake",
        namespace=("sales",),
        settings={"spark.sql.ansi.enabled": "true"},
    ),
    created_at=NOON,
    status=RefreshStatus.SUSPENDED,
    status_by="SUSPEND",
    status_at=NOON + HOUR,
    location="file:///warehouse/daily-1",
    covered_until=NOON,
    scheduler="memory",
    handler='{"version": 1}',
    dynamic_options={"read.split": "1"},
    rebuild_due="f1",
    intent=Intent(
        command="ALTER",
        step="storage",
        token=3,
        owner="g1",
        lease_until=NOON + HOUR,
        started_at=NOON,
        detail={"columns": ["n"]},
    ),
    revision=7,
    claim=12,
)
RUN = RefreshRun(
    run_id="0b6f7a52-9a0e-4f5e-9f0e-3f1f5f6f7a02",
    table_id=TABLE.table_id,
    kind=RunKind.PERIODIC,
    scope=Scope.of([PartitionSpec.of({"ds": "2026-02-28"}), PartitionSpec.of({"ds": "2026-02-27"})]),
    requested_at=NOON + timedelta(microseconds=123),
    request_key="tick",
    schedule_time=NOON,
    points=(NOON - 24 * HOUR, NOON),
    solo=True,
    options={"read.split": "1"},
    status=RunStatus.COALESCED,
    attempt=2,
    claim=12,
    owner="g1",
    lease_until=NOON + HOUR,
    waits_until=NOON + 2 * HOUR,
    waits_for={"0b6f7a52-9a0e-4f5e-9f0e-3f1f5f6f7a05": "lake.sales.a at 2026-03-01 12:00:00"},
    cancel_requested=True,
    covered_by="0b6f7a52-9a0e-4f5e-9f0e-3f1f5f6f7a03",
    retry_of="0b6f7a52-9a0e-4f5e-9f0e-3f1f5f6f7a04",
    job_id="a" * 32,
    vector=({"name": "lake.sales.orders", "kind": "table", "version": {"snapshot": "1", "schema": 0}},),
    pinned=True,
    fingerprint="f1",
    decision="refresh",
    reason="orders changed",
    started_at=NOON,
    finished_at=NOON + HOUR,
    rows=0,
    strategy="append",
    rows_inserted=5,
    rows_updated=0,
    rows_deleted=2,
    bytes_read=4096,
    snapshot_id="77",
    error="it broke",
    cause="because",
)
TOMBSTONE = Tombstone(
    table_id=TABLE.table_id,
    identifier=TABLE.identifier,
    location=TABLE.location,
    handler='{"version": 1}',
    dropped_at=NOON,
)
DEFINITION = WorkflowDefinition(
    workflow_id=TABLE.table_id,
    identifier="lake.`sales.eu`.daily",
    description="Refresh",
    schedule=Schedule(freshness=Freshness(1, "DAY"), zone="Europe/Rome", since=NOON),
    paused=True,
    init_config={"a": "b"},
    execution_config={"c": "d"},
    dynamic_options={"read.split": "1"},
    token=3,
)

CATALOG = CreatedCatalog(name="archive", options={"type": "iceberg", "token": "t"}, comment="old orders")
GATEWAY = GatewayLease(
    owner="h/7/x",
    lease_until=NOON,
    url="http://127.0.0.1:8083",
    host="h",
    machine="boot/pid:[1]",
    pid=7,
    started="99",
)

JOB = Job(
    job_id="0f" * 16,
    kind="INSERT",
    name="insert-lake.sales.t",
    status=JobStatus.FAILED,
    started_at=NOON,
    statement="INSERT INTO t SELECT 1",
    session="s",
    user="u",
    target="lake.sales.t",
    owner="h/7/x",
    rows_read=7,
    rows_written=5,
    error="it broke",
    checkpoint="file:///c",
    restarts=2,
    hooks=(
        JobHook(
            name="webhook",
            body={"url": "https://h"},
            done=(JobEvent.CREATED,),
            given_up=(JobEvent.FAILED,),
            failures=3,
            retry_at=NOON,
            error="503",
        ),
    ),
    finished_at=NOON + HOUR,
    revision=4,
)
STREAM = replace(
    JOB,
    status=JobStatus.RESTARTING,
    definition=a_stream(plan=a_plan()),
    stream=StreamState(
        batch=7,
        offsets="{}",
        failures=2,
        start_at=NOON,
        stop=StopRequest(savepoint="file:///s", drain=True),
        savepoint="file:///s",
        refused="no",
    ),
    finished_at=None,
)
# A run as later rows have it.
CODED_RUN = replace(
    RUN,
    reason_code=ReasonCode.SOURCES_CHANGED,
    steps={"queue": 0.5, "decide": 0.01, "write": 2.0, "publish": 0.25},
)
# A job whose definition is of version 1.
EARLIER_STREAM = replace(STREAM, definition=a_stream(plan=StreamPlan(has_checkpoint=False)))

FACTS: list[tuple[str, Any]] = [
    ("materialized_tables", TABLE),
    ("runs", RUN),
    ("tombstones", TOMBSTONE),
    ("catalogs", CATALOG),
    ("gateways", GATEWAY),
    ("jobs", JOB),
    ("streams", EARLIER_STREAM),
]
STORED = pytest.mark.parametrize(("kind", "fact"), FACTS, ids=[kind for kind, _ in FACTS])


@pytest.mark.parametrize(
    ("namespace", "stored"),
    [
        ((), ""),
        (("sales",), "sales"),
        (("sales", "eu"), "sales.eu"),
        (("eu.sales",), "`eu.sales`"),
        (("a", "b.`c", "d"), "a.`b.``c`.d"),
        (("a`b",), "a`b"),
        (("`a`",), "```a```"),
    ],
)
def test_a_namespace_is_stored_as_one_text_and_read_back(namespace: tuple[str, ...], stored: str) -> None:
    definition = replace(TABLE.definition, namespace=namespace)
    table = replace(TABLE, identifier=TableIdentifier("lake", namespace, "daily"), definition=definition)

    row = rows.row_of(table)

    assert row["namespace"] == stored
    assert json.loads(row["body"])["definition"]["namespace"] == stored
    assert rows.fact_of(MaterializedTable, row) == table


@STORED
def test_a_row_of_version_1_can_still_be_read(kind: str, fact: Any) -> None:
    golden = json.loads(GOLDEN.read_text())[kind]
    if kind == "runs":
        # The migration adds these columns and fills the first two, which remain in the body.
        body = json.loads(golden["body"])
        columns = {name: body[name] for name in ("started_at", "finished_at")}
        golden |= {**columns, "reason_code": None}

    assert rows.fact_of(type(fact), golden) == fact


UNCHANGED = [(kind, fact) for kind, fact in FACTS if kind not in ("runs", "streams")]


@pytest.mark.parametrize(("kind", "fact"), UNCHANGED, ids=[kind for kind, _ in UNCHANGED])
def test_a_row_is_written_as_version_1_has_it(kind: str, fact: Any) -> None:
    golden = json.loads(GOLDEN.read_text())[kind]

    assert rows.row_of(fact) == golden


@pytest.mark.parametrize(
    ("kind", "fact"), [("streams", STREAM), ("runs", CODED_RUN)], ids=["streams", "runs"]
)
def test_a_row_whose_form_has_changed_is_written_and_read_as_version_2_has_it(kind: str, fact: Any) -> None:
    golden = json.loads(GOLDEN_2.read_text())[kind]

    assert (rows.row_of(fact), rows.fact_of(type(fact), golden)) == (golden, fact)


def test_a_workflow_definition_is_stored_and_read_as_version_1_has_it() -> None:
    golden = json.loads(GOLDEN.read_text())["workflow_definitions"]

    assert (rows.definition_row(DEFINITION), rows.definition_of(golden)) == (golden, DEFINITION)


def test_why_a_table_was_suspended_is_stored_with_what_failed() -> None:
    table = replace(TABLE, status_reason="division by zero", failed_times=(NOON, NOON + HOUR))
    run = replace(RUN, by_query=True, continuous_job="b" * 32)

    assert rows.fact_of(MaterializedTable, rows.row_of(table)) == table
    assert rows.fact_of(RefreshRun, rows.row_of(run)) == run


def test_what_began_the_scheduler_s_own_run_is_stored_and_absent_where_unknown() -> None:
    row = rows.row_of(RUN)

    assert rows.fact_of(RefreshRun, rows.row_of(replace(RUN, trigger="backfill"))) == replace(
        RUN, trigger="backfill"
    )
    assert "trigger" not in json.loads(row["body"])
    assert rows.fact_of(RefreshRun, row).trigger is None


def test_partitions_in_doubt_are_stored_with_tables_and_runs() -> None:
    day = Scope.of([PartitionSpec.of({"ds": "2026-02-28"})])
    doubted = DoubtedPartitions(scope=WHOLE, besides=day, reason="it has expired")
    facts = (
        replace(TABLE, doubted=doubted, cleared="7"),
        replace(RUN, doubted=doubted),
        replace(RUN, doubted=NOT_DOUBTED),
    )

    stored = [rows.row_of(fact) for fact in facts]

    assert [rows.fact_of(type(fact), row) for fact, row in zip(facts, stored, strict=True)] == list(facts)
    assert json.loads(stored[0]["body"])["doubted"] == {
        "scope": None,
        "besides": [{"ds": "2026-02-28"}],
        "reason": "it has expired",
    }


def test_facts_without_the_optional_parts_come_back_as_they_were() -> None:
    table, run, tombstone = a_table(), a_run(), replace(TOMBSTONE, handler=None)

    assert rows.fact_of(MaterializedTable, rows.row_of(table)) == table
    assert rows.fact_of(RefreshRun, rows.row_of(run)) == run
    assert rows.fact_of(Tombstone, rows.row_of(tombstone)) == tombstone


def test_the_latest_point_of_a_run_is_a_column() -> None:
    assert rows.row_of(RUN)["last_point"] == "2026-03-01T12:00:00.000000Z"
    assert rows.row_of(a_run())["last_point"] is None


@pytest.mark.parametrize(("command", "exclusive"), [("ALTER", True), ("SUSPEND", False)])
def test_an_intent_that_runs_wait_for_is_a_column(command: str, exclusive: bool) -> None:
    assert TABLE.intent is not None
    table = replace(TABLE, intent=replace(TABLE.intent, command=command))

    assert rows.row_of(table)["exclusive"] is exclusive
    assert rows.row_of(a_table())["exclusive"] is False


def test_texts_of_instants_sort_as_the_instants_do() -> None:
    rome = timezone(timedelta(hours=1))
    instants = [
        datetime(999, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, tzinfo=rome),
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, microsecond=1, tzinfo=UTC),
        datetime(2026, 1, 1, 1, 0, 1, tzinfo=rome),
    ]

    texts = [rows.instant_text(instant) for instant in instants]

    assert sorted(texts) == texts
    assert rows.instants_of(texts) == tuple(instants)
    assert {len(text) for text in texts} == {27}


@STORED
def test_a_row_with_more_than_this_release_knows_is_refused_with_the_way_out(kind: str, fact: Any) -> None:
    row = rows.row_of(fact)
    newer = row | {"body": json.dumps(json.loads(row["body"]) | {"from_the_future": 1})}

    with pytest.raises(
        RegistryError, match=r"has from_the_future, which this release does not know; use the release"
    ):
        rows.fact_of(type(fact), newer)


def test_a_body_of_another_version_is_refused_by_name() -> None:
    row = rows.row_of(RUN) | {"body": '{"version": 2}'}

    with pytest.raises(
        RegistryError, match=f"refresh {RUN.run_id} has version 2, this release reads version 1"
    ):
        rows.fact_of(RefreshRun, row)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "has version 99, this release reads version "),
        ({"hint": 1}, "has hint, which this release does not know; use the release that wrote it"),
    ],
)
@pytest.mark.parametrize(
    ("read", "body"),
    [
        (TableDefinition.from_json, a_table("t").definition.to_json()),
        (StreamDefinition.from_json, a_stream().to_json()),
        (StreamPlan.from_json, a_plan().to_json()),
    ],
    ids=["table", "stream", "plan"],
)
def test_a_definition_of_a_later_form_is_refused_with_the_way_out(
    read: Callable[[Mapping[str, Any]], object], body: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(Unsupported, match=message):
        read(body | change)


def test_a_row_with_a_value_of_a_later_release_does_not_send_for_the_backup_first() -> None:
    row = rows.row_of(RUN) | {"kind": "REHEARSAL"}

    with pytest.raises(RegistryError, match="If a newer release has used the registry, use that release"):
        rows.fact_of(RefreshRun, row)


def test_a_function_in_python_with_none_or_a_later_declaration_is_read_without_one() -> None:
    body = (
        '{"version": 1, "language": "PYTHON", "body": "scores.score", "kind": '
        '"SCALAR", "returns": "INT", "files": []'
    )
    earlier = {"name": "score", "body": body + "}"}
    later = {
        "name": "score",
        "body": body + ', "declared": {"python": "3.20", "form": "VALUE", "colour": "red"}}',
    }

    assert rows.fact_of(CreatedFunction, earlier) == rows.fact_of(CreatedFunction, later)
    assert rows.fact_of(CreatedFunction, earlier).declared is None


def test_transforms_are_stored_with_a_definition_that_has_some() -> None:
    transforms = (
        Transform(kind=TransformKind.BUCKET, column="n", width=4),
        Transform(kind=TransformKind.DAYS, column="at"),
    )
    laid_out = replace(TABLE.definition, transforms=transforms)

    body = json.loads(json.dumps(laid_out.to_json()))

    assert body["transforms"] == [
        {"kind": "bucket", "column": "n", "width": 4},
        {"kind": "days", "column": "at", "width": None},
    ]
    assert TableDefinition.from_json(body) == laid_out
    assert "transforms" not in TABLE.definition.to_json()


def test_the_abilities_of_a_catalog_are_stored_and_those_of_another_release_are_not_read() -> None:
    catalog = replace(CATALOG, abilities=CatalogAbilities(has_views=False))
    row = rows.row_of(catalog)
    body = json.loads(row["body"])

    assert rows.fact_of(CreatedCatalog, row).abilities == CatalogAbilities(has_views=False)
    body["abilities"]["sings"] = True
    assert rows.fact_of(CreatedCatalog, row | {"body": json.dumps(body)}).abilities is None
