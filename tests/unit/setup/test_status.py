from __future__ import annotations

import json
import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from mt_core.cli import app
from mt_core.client.facts import JobFacts, LastRefresh, TableFacts, Tables
from mt_core.setup.status import (
    FAULTS,
    STATES,
    FailedJob,
    GatewayStatus,
    Measure,
    TableTrouble,
    failed_job,
    judge,
    since_of,
    status_json,
    table_trouble,
    waiting_job,
)
from mt_core.tables.overview.lateness import Fault, State
from tests.support.fake_facts import JOB, TABLE, failed

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FAILED = FailedJob(job_id="ab", name="insert-x", kind="INSERT", ended_at=NOON)
LATE = TableTrouble(
    table="lake.shop.daily",
    trouble="LATE",
    reason="by 2 h (queue)",
    fault="queue",
    state="LATE",
    late_at=datetime(2026, 3, 1, 10, 0, tzinfo=UTC),
    because="Its refresh waits for a worker.",
)
WELL = GatewayStatus(url="http://gw", version="1", engine="READY", tables=3)


TWO_HOURS = {"late_by": 7200.0, "late_at": "2026-03-01T10:00:00Z"}
LATE_BY_QUEUE = {**TWO_HOURS, "state": "LATE", "fault": "queue", "because": "Its refresh waits for a worker."}
SILENT = {"fault": "writer", "silent_by": 7200.0}


def table(**members: Any) -> TableFacts:
    return TableFacts.from_json({**TABLE, **members})


def job(**members: Any) -> JobFacts:
    return JobFacts.from_json({**JOB, **members})


@pytest.mark.parametrize(
    ("members", "trouble"),
    [
        ({}, None),
        ({"state": "SOON"}, None),
        ({"state": "INITIALIZING", "shows": None}, None),
        (LATE_BY_QUEUE, ("LATE", "by 2 h (queue)")),
        ({**LATE_BY_QUEUE, "fault": "query", "last": failed("no space")}, ("FAILING", "no space")),
        ({"state": "FAILING", "last": failed("no space")}, ("FAILING", "no space")),
        ({"state": "FAILING", "because": "cannot be read"}, ("FAILING", "cannot be read")),
        ({"state": "FAILING"}, ("FAILING", "see SHOW REFRESHES")),
        ({"state": "DOUBTED", "doubt": "it has expired"}, ("DOUBTED", "it has expired")),
        ({**LATE_BY_QUEUE, "doubt": "it has expired"}, ("LATE, DOUBTED", "by 2 h (queue); it has expired")),
        ({"state": "SUSPENDED"}, None),
        ({"state": "SUSPENDED", "last": failed("no space")}, None),
        (
            {
                "state": "SUSPENDED",
                "status_by": "5 failed schedule times in a row",
                "status_reason": "no space",
                "suspended_by": "failures",
            },
            ("SUSPENDED", "5 failed schedule times in a row: no space"),
        ),
        # Its job is reported instead.
        (
            {
                "state": "SUSPENDED",
                "status_by": "streaming job ab",
                "status_reason": "There is no jar a.jar.",
                "suspended_by": "job",
            },
            None,
        ),
    ],
)
def test_a_table_is_in_trouble_if_it_is_late_fails_or_was_suspended_for_that(
    members: dict[str, Any], trouble: tuple[str, str] | None
) -> None:
    found = table_trouble(table(**members))

    assert (None if found is None else (found.table, found.trouble, found.reason)) == (
        None if trouble is None else ("lake.shop.daily", *trouble)
    )


def test_trouble_has_the_state_of_its_table_since_when_it_is_late_and_why() -> None:
    found = table_trouble(table(**LATE_BY_QUEUE))

    assert found == TableTrouble(
        table="lake.shop.daily",
        trouble="LATE",
        reason="by 2 h (queue)",
        fault="queue",
        state="LATE",
        late_at=datetime(2026, 3, 1, 10, 0, tzinfo=UTC),
        because="Its refresh waits for a worker.",
    )


@pytest.mark.parametrize(
    ("members", "since", "counts"),
    [
        ({"status": "FAILED", "finished_at": "2026-03-01T12:00:00Z"}, NOON, True),
        ({"status": "FAILED", "finished_at": "2026-03-01T11:59:59.999Z"}, NOON, False),
        ({"status": "FAILED", "finished_at": "2020-01-01T00:00:00Z"}, since_of(NOON, timedelta(0)), True),
        ({"status": "FAILED", "finished_at": None}, NOON, False),
        ({"status": "CANCELED", "finished_at": "2026-03-01T12:00:00Z"}, NOON, False),
        ({"status": "RUNNING", "finished_at": None}, NOON, False),
        # Its statement was rejected.
        ({"status": "FAILED", "finished_at": "2026-03-01T12:00:00Z", "error": "refused: no"}, NOON, False),
    ],
)
def test_a_job_counts_that_failed_lately(members: dict[str, Any], since: datetime, counts: bool) -> None:
    assert (failed_job(job(**members), since) is not None) is counts


@pytest.mark.parametrize(
    ("members", "counts"),
    [
        ({}, True),
        # A person has suspended its table.
        ({"error": None}, False),
        ({"target": "lake.shop.daily"}, False),
        ({"status": "RUNNING"}, False),
    ],
)
def test_a_job_waits_that_is_suspended_for_what_is_missing(members: dict[str, Any], counts: bool) -> None:
    waiting = {"status": "SUSPENDED", "error": "There is no jar a.jar."}

    found = waiting_job(job(**waiting | members), {"lake.shop.daily"})

    said = "job insert-x (INSERT) is SUSPENDED: There is no jar a.jar; DESCRIBE JOB 'ab'"
    assert (None if found is None else str(found)) == (said if counts else None)
    assert found is None or not GatewayStatus(url="u", engine="READY", waiting_jobs=(found,)).is_well


@pytest.mark.parametrize(
    "by_job",
    [{"state": "SUSPENDED", "suspended_by": "job"}, {"state": "FAILING", "because": "no jar"}],
)
def test_a_job_that_suspended_its_table_is_reported_instead_of_it_and_no_job_of_a_table_that_a_user_suspended(
    by_job: dict[str, Any],
) -> None:
    waiting = {"status": "SUSPENDED", "error": "There is no jar a.jar."}
    by_user = {"state": "SUSPENDED", "suspended_by": "user"}
    tables = (table(name="lake.shop.x", **by_user), table(name="lake.shop.y", **by_job))
    found = Tables(as_of=NOON, read=9, total=9, tables=tables)
    jobs = [job(id="a", target="lake.shop.x", **waiting), job(id="b", target="lake.shop.y", **waiting)]

    status = judge(WELL, found, jobs, Measure(since=NOON))

    assert (status.tables, status.troubles, [each.job_id for each in status.waiting_jobs]) == (9, (), ["b"])


def test_a_gateway_that_has_not_read_all_tables_is_not_well() -> None:
    found = Tables(as_of=NOON, read=4, total=9, tables=())

    status = judge(WELL, found, [], Measure(since=NOON))

    error = "The gateway has read 4 of 9 tables since it started; try again later."
    assert (status.is_well, status.lines()) == (False, [f"http://gw: {error}"])


def test_the_length_of_time_begins_that_long_ago() -> None:
    assert since_of(NOON, timedelta(hours=2)) == datetime(2026, 3, 1, 10, 0, tzinfo=UTC)


@pytest.mark.parametrize("length", [timedelta(0), timedelta(days=1_000_000), timedelta.max])
def test_a_length_of_zero_or_from_before_all_times_means_for_ever(length: timedelta) -> None:
    assert since_of(NOON, length) == datetime.min.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "well"),
    [
        (WELL, True),
        (GatewayStatus(url="u", error="No gateway answers"), False),
        (GatewayStatus(url="u", engine="Spark is starting"), False),
        (GatewayStatus(url="u", engine="READY", scheduler="READY"), True),
        (
            GatewayStatus(url="u", engine="READY", scheduler="airflow is UNHEALTHY since noon: it is away"),
            False,
        ),
        (GatewayStatus(url="u", engine="READY", troubles=(LATE,)), False),
        (GatewayStatus(url="u", engine="READY", failed_jobs=(FAILED,)), False),
    ],
)
def test_a_gateway_is_well_if_it_answers_and_nothing_is_late_or_failed(
    status: GatewayStatus, well: bool
) -> None:
    assert status.is_well is well


def test_a_status_is_read_line_by_line() -> None:
    troubled = GatewayStatus(
        url="http://gw",
        version="1",
        engine="READY",
        scheduler="airflow is UNHEALTHY since noon: it is away",
        tables=3,
        troubles=(LATE,),
        failed_jobs=(FAILED,),
    )

    assert troubled.lines() == [
        "http://gw: version 1, Spark is ready; 3 tables, 1 in trouble, 1 failed job",
        "  scheduler airflow is UNHEALTHY since noon: it is away",
        "  table lake.shop.daily is LATE: by 2 h (queue)",
        "  job insert-x (INSERT) FAILED at 2026-03-01 12:00:00 UTC; DESCRIBE JOB 'ab'",
    ]
    assert GatewayStatus(url="u", error="No gateway answers").lines() == ["u: No gateway answers"]


def test_the_form_for_monitoring_has_a_version_and_every_fact() -> None:
    found = status_json(
        [WELL, GatewayStatus(url="u", engine="READY", troubles=(LATE,), failed_jobs=(FAILED,))]
    )

    assert (found["version"], found["healthy"]) == (1, False)
    assert json.loads(json.dumps(found))["gateways"][1] == {
        "healthy": False,
        "url": "u",
        "version": "",
        "engine": "READY",
        "scheduler": "UNKNOWN",
        "error": "",
        "tables": 0,
        "troubles": [
            {
                "table": "lake.shop.daily",
                "trouble": "LATE",
                "reason": "by 2 h (queue)",
                "fault": "queue",
                "state": "LATE",
                "late_at": "2026-03-01T10:00:00+00:00",
                "because": "Its refresh waits for a worker.",
            }
        ],
        "failed_jobs": [
            {"job_id": "ab", "name": "insert-x", "kind": "INSERT", "ended_at": "2026-03-01T12:00:00+00:00"}
        ],
        "waiting_jobs": [],
    }


def test_a_gateway_that_accepts_and_never_answers_takes_no_longer_than_it_may() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"

        result = CliRunner().invoke(app, ["status", "--gateway", url, "--timeout", "200 ms"])

    assert result.exit_code == 1
    assert result.stdout.startswith(f"{url}: ")


def test_a_fault_that_there_is_not_is_refused() -> None:
    result = CliRunner().invoke(app, ["status", "--ignore", "weather"])

    assert (result.exit_code, result.stderr) == (
        2,
        (
            "Error: --ignore: 'weather' is not a cause of lateness; use one of source, writer, "
            "queue, query, schedule.\n"
        ),
    )


def test_an_ignored_fault_leaves_what_else_is_wrong() -> None:
    ignored = frozenset({"queue"})
    late = table(**LATE_BY_QUEUE)
    failing, doubted = (
        replace(late, last=LastRefresh(status="FAILED", error="no")),
        replace(late, doubt="expired"),
    )

    assert table_trouble(late, ignored) is None
    assert table_trouble(replace(late, fault="query"), ignored) is not None
    assert [
        found and found.trouble for found in (table_trouble(each, ignored) for each in (failing, doubted))
    ] == ["FAILING", "DOUBTED"]


def test_a_table_to_whose_sources_no_one_writes_is_late_only_if_that_is_asked_for() -> None:
    found = table_trouble(table(**SILENT))

    assert found is not None
    assert (found.trouble, found.reason, found.fault) == ("LATE", "by 2 h (writer)", "writer")
    assert table_trouble(table(**SILENT), frozenset({"writer"})) is None


def test_the_faults_and_states_are_those_of_the_gateway() -> None:
    assert tuple(fault.value for fault in Fault) == FAULTS
    assert set(STATES) <= {state.value for state in State}


@pytest.mark.parametrize("option", ["--since", "--timeout"])
def test_a_length_of_time_that_cannot_be_read_is_refused(option: str) -> None:
    result = CliRunner().invoke(app, ["status", option, "soon"])

    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: {option}: 'soon' is not a duration; use for example '30 min'.\n",
    )
