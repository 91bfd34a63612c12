"""Valid facts for a registry under test. Tests change the fields that matter to them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from mt_core.model.connector_table import ConnectorTable, GeneratedRows, Watermark
from mt_core.model.freshness import Freshness
from mt_core.model.job import Job, JobStatus
from mt_core.model.kafka_topic import KafkaTopic
from mt_core.model.partition import WHOLE
from mt_core.model.reservation import Atomicity, Reservation
from mt_core.model.run import RefreshRun, RunKind
from mt_core.model.stream import StreamDefinition, StreamMember
from mt_core.model.stream_plan import IcebergTarget, MemberPlan, SinkTarget, Start, StreamPlan
from mt_core.model.table import (
    Column,
    Intent,
    MaterializedTable,
    RefreshMode,
    RefreshStatus,
    TableDefinition,
    TableIdentifier,
)
from mt_core.workflow.definitions import WorkflowDefinition
from mt_core.workflow.operations import Schedule

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def a_table(name: str = "daily", **changes: Any) -> MaterializedTable:
    """Return an ACTIVATED table `lake.sales.<name>` that was created at NOON."""
    definition = TableDefinition(
        columns=(
            Column(name="ds", type="string"),
            Column(name="amount", type="decimal(10,2)", nullable=False),
        ),
        original_query="SELECT ds, amount FROM orders",
        expanded_query="SELECT `orders`.`ds`, `orders`.`amount` FROM `lake`.`sales`.`orders`",
        freshness=Freshness(1, "HOUR"),
        refresh_mode=RefreshMode.FULL,
        logical_refresh_mode="AUTOMATIC",
        zone="Europe/Rome",
        partition_keys=("ds",),
        options={"partition.fields.ds.date-formatter": "yyyy-MM-dd"},
    )
    table = MaterializedTable(
        table_id=str(uuid4()),
        identifier=TableIdentifier("lake", ("sales",), name),
        definition=definition,
        created_at=NOON,
        status=RefreshStatus.ACTIVATED,
        status_at=NOON,
        location="file:///warehouse/daily",
        covered_until=NOON,
    )
    return replace(table, **changes)


def a_run(table_id: str = "t-1", **changes: Any) -> RefreshRun:
    """Return a QUEUED manual run of the whole table, requested at NOON."""
    run = RefreshRun(
        run_id=str(uuid4()),
        table_id=table_id,
        kind=RunKind.MANUAL,
        scope=WHOLE,
        requested_at=NOON,
    )
    return replace(run, **changes)


def an_intent(command: str, **changes: Any) -> Intent:
    """Return an intent of *command* at its first step, leased for an hour from NOON."""
    intent = Intent(
        command=command, step="begin", token=1, owner="g1", lease_until=NOON + HOUR, started_at=NOON
    )
    return replace(intent, **changes)


def a_definition(workflow_id: str, **changes: Any) -> WorkflowDefinition:
    """Return the definition of an hourly workflow."""
    definition = WorkflowDefinition(
        workflow_id=workflow_id,
        identifier="lake.sales.daily",
        description="Refresh lake.sales.daily",
        schedule=Schedule(freshness=Freshness(1, "HOUR"), zone="Europe/Rome", since=NOON),
    )
    return replace(definition, **changes)


def a_job(job_id: str = "a", **changes: Any) -> Job:
    """Return a job that is RUNNING since NOON and inserts into `t`."""
    job = Job(job_id=job_id, kind="INSERT", name="insert-t", status=JobStatus.RUNNING, started_at=NOON)
    return replace(job, **changes)


def a_reservation(job_id: str) -> Reservation:
    """Return the reservation of a job that creates the table `copies`."""
    table = ("lake", "default", "copies")
    return Reservation(
        job_id=job_id, table=table, atomicity=Atomicity.ATOMIC, folder=f"/lake/copies-{job_id}"
    )


def a_stream(**changes: Any) -> StreamDefinition:
    """Return the definition of a stream from `flights` to `arrivals`."""
    definition = StreamDefinition(
        members=(StreamMember(text="INSERT INTO arrivals SELECT * FROM flights"),),
        catalog="lake",
        namespace=("default",),
        zone="UTC",
        checkpoint="checkpoints/a",
    )
    return replace(definition, **changes)


def a_plan(**changes: Any) -> StreamPlan:
    """Return a stream plan in which every field is set."""
    flights, arrivals = "lake.default.flights", "lake.default.arrivals"
    plan = StreamPlan(
        starts={flights: Start(uuid="f", snapshot="12", millis=1_800_000_000_000)},
        begun=True,
        sources=(flights, "rate"),
        members=(
            MemberPlan(columns=("id", "city"), given=("ID", "é"), materialized=("id",)),
            MemberPlan(columns=("id",), given=("n",)),
        ),
        sinks=(SinkTarget(table=("shown",), connector="print", stored_name="`shown`", keys=("id",)),),
        tables={arrivals: IcebergTarget(uuid="a", keys=("id",))},
    )
    return replace(plan, **changes)


def a_connector_table() -> ConnectorTable:
    """Return a table in which every field is set."""
    return ConnectorTable(
        name="`é``1`",
        columns=("`a` INT", "`b` STRING COMMENT 'ü'"),
        clauses="x '%\"",
        keys=("a",),
        connector="datagen",
        options={"connector": "datagen", "pass": "'"},
        comment="",
        partition_keys=("a", "b"),
        watermark=Watermark(column="a", delay="5 SECOND"),
        spark_name="`s`.`t`",
        query="SELECT 1",
        unbounded=GeneratedRows(items=("value AS `a`",), rows_per_second=2),
        bounded=GeneratedRows(items=("value AS `a`",), rows_per_second=2, number_of_rows=9),
        topic=KafkaTopic(
            table="é",
            topics={"subscribe": "a"},
            connection={"kafka.bootstrap.servers": "h:1"},
            start={"startingOffsets": "earliest"},
            end={"endingOffsets": "latest"},
            reading={"failOnDataLoss": "false"},
            condition="value IS NOT NULL",
            parsed=("key AS `k`",),
            items=("`k` AS `a`",),
            computed=("`a`",),
            written=("a",),
            record=("`a` AS value",),
            keys=("a",),
            not_written="'",
        ),
    )
