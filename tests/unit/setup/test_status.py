from __future__ import annotations

import json
import socket
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from typer.testing import CliRunner

from mt_core.cli import app
from mt_core.client.extended import extended_rows
from mt_core.client.http import GatewayClient
from mt_core.errors import GatewayError, OperationNotFound, RegistryError, SqlSyntaxError, TableNotFound
from mt_core.setup.status import (
    FAULTS,
    FailedJob,
    GatewayStatus,
    TableTrouble,
    _described,
    failed_job,
    since_of,
    status_json,
    table_trouble,
    waiting_job,
)
from mt_core.tables.views.lateness import Fault

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FAILED = FailedJob(job_id="ab", name="insert-x", kind="INSERT", ended_at=NOON)
LATE = TableTrouble(table="lake.shop.daily", trouble="LATE", reason="by 2 h (queue)", fault="queue")
WELL = GatewayStatus(url="http://gw", version="1", engine="READY", tables=3)


def table(**facts: str | None) -> dict[str, str | None]:
    """Return a row of SHOW MATERIALIZED TABLES EXTENDED; blanks of columns are written as underscores."""
    usual: dict[str, str | None] = {
        "materialized table": "daily",
        "namespace": "lake.shop",
        "status": "ACTIVATED",
        "health": "OK",
        "late by": None,
        "last error": None,
        "status by": "anna",
    }
    return usual | {name.replace("_", " "): fact for name, fact in facts.items()}


@pytest.mark.parametrize(
    ("facts", "trouble"),
    [
        ({}, None),
        ({"health": None}, None),
        ({"late_by": "2 h (queue)"}, ("LATE", "by 2 h (queue)")),
        ({"health": "LATE"}, ("LATE", "no refresh since the second-to-last schedule time")),
        ({"health": "FAILING", "last_error": "no space", "late_by": "2 h (query)"}, ("FAILING", "no space")),
        ({"health": "FAILING"}, ("FAILING", "see SHOW REFRESHES")),
        ({"health": "DOUBTED", "last_error": "it has expired"}, ("DOUBTED", "it has expired")),
        (
            {"health": "LATE, DOUBTED", "last_error": "it has expired", "late_by": "2 h (queue)"},
            ("LATE, DOUBTED", "by 2 h (queue); it has expired"),
        ),
        (
            {"health": "DOUBTED", "last_error": "it has expired", "late_by": "2 h (source)"},
            ("LATE, DOUBTED", "by 2 h (source); it has expired"),
        ),
        ({"status": "SUSPENDED", "health": None, "late_by": "2 h (schedule)"}, None),
        (
            {
                "status": "SUSPENDED",
                "health": None,
                "status_by": "5 failed schedule times in a row: no space",
            },
            ("SUSPENDED", "5 failed schedule times in a row: no space"),
        ),
        ({"status": "INITIALIZING", "health": None}, None),
    ],
)
def test_a_table_is_in_trouble_if_it_is_late_fails_or_was_suspended_for_that(
    facts: dict[str, str | None], trouble: tuple[str, str] | None
) -> None:
    found = table_trouble(table(**facts))

    assert (None if found is None else (found.table, found.trouble, found.reason)) == (
        None if trouble is None else ("lake.shop.daily", *trouble)
    )


@pytest.mark.parametrize(
    ("status", "end", "since", "counts"),
    [
        ("FAILED", "2026-03-01T12:00:00.000Z", NOON, True),
        ("FAILED", "2026-03-01T11:59:59.999Z", NOON, False),
        ("FAILED", "2020-01-01T00:00:00.000Z", since_of(NOON, timedelta(0)), True),
        ("FAILED", None, NOON, False),
        ("CANCELED", "2026-03-01T12:00:00.000Z", NOON, False),
        ("RUNNING", None, NOON, False),
    ],
)
def test_a_job_counts_that_failed_lately(status: str, end: str | None, since: datetime, counts: bool) -> None:
    row = {"job id": "ab", "job name": "insert-x", "status": status, "kind": "INSERT", "end time": end}

    assert (failed_job(row, since) is not None) is counts


@pytest.mark.parametrize(
    ("facts", "counts"),
    [
        ({}, True),
        # A person has suspended its table.
        ({"error": None}, False),
        ({"target": "lake.shop.daily"}, False),
        ({"status": "RUNNING"}, False),
    ],
)
def test_a_job_waits_that_is_suspended_for_what_is_missing(
    facts: dict[str, str | None], counts: bool
) -> None:
    usual = {
        "job id": "ab",
        "job name": "insert-x",
        "kind": "INSERT",
        "status": "SUSPENDED",
        "target": "lake.shop.x",
    }
    row = {**usual, "error": "There is no jar a.jar.", **facts}

    found = waiting_job(row, {"lake.shop.daily"})

    said = "job insert-x (INSERT) is SUSPENDED: There is no jar a.jar; DESCRIBE JOB 'ab'"
    assert (None if found is None else str(found)) == (said if counts else None)
    assert found is None or not GatewayStatus(url="u", engine="READY", waiting_jobs=(found,)).is_well


def test_a_table_whose_name_needs_quotes_is_named_as_the_targets_of_jobs_are() -> None:
    row = {"job id": "ab", "job name": "x", "kind": "INSERT", "status": "SUSPENDED", "error": "It is gone."}
    trouble = table_trouble(
        {**table(), "materialized table": "my-table", "namespace": "lake.`a.b`", "health": "FAILING"}
    )

    assert trouble is not None
    assert trouble.table == "lake.`a.b`.`my-table`"
    assert waiting_job({**row, "target": trouble.table}, {trouble.table}) is None


def test_an_older_gateway_is_asked_without_extended() -> None:
    asked = list[str]()

    def rows(statement: str) -> list[dict[str, str]]:
        asked.append(statement)
        if "EXTENDED" in statement:
            raise GatewayError('Encountered "EXTENDED"', code=SqlSyntaxError.code)
        return [{"materialized table": "daily"}]

    assert extended_rows(rows, "SHOW REFRESHES FOR t", " LIMIT 20") == [{"materialized table": "daily"}]
    assert asked == ["SHOW REFRESHES FOR t EXTENDED LIMIT 20", "SHOW REFRESHES FOR t LIMIT 20"]


@pytest.mark.parametrize(("health", "trouble"), [("OK", None), ("LATE", "LATE")])
def test_a_table_of_an_older_gateway_has_the_troubles_that_this_knows(
    health: str, trouble: str | None
) -> None:
    row = table(health=health)
    del row["late by"], row["status by"]

    found = table_trouble(row)

    assert (None if found is None else found.trouble) == trouble


def test_another_error_of_extended_is_told() -> None:
    def rows(statement: str) -> list[dict[str, str]]:
        raise GatewayError("There is no table t.", code=TableNotFound.code)

    with pytest.raises(GatewayError, match="There is no table t"):
        extended_rows(rows, "SHOW REFRESHES FOR t")


@pytest.mark.parametrize(("code", "is_told"), [(OperationNotFound.code, False), (RegistryError.code, True)])
def test_a_job_that_cannot_be_described_is_told_unless_the_gateway_has_forgotten_it(
    code: str, is_told: bool
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/sessions"):
            return httpx.Response(200, json={"sessionHandle": "s"})
        return httpx.Response(500, json={"errors": ["no"], "error": {"code": code, "message": "no"}})

    client = GatewayClient("http://gw", transport=httpx.MockTransport(answer))

    with pytest.raises(GatewayError) if is_told else nullcontext():
        assert _described(client, "ab") == []


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
            {"table": "lake.shop.daily", "trouble": "LATE", "reason": "by 2 h (queue)", "fault": "queue"}
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
    ignored = frozenset({"writer"})

    assert table_trouble(table(late_by="2 h (writer)"), ignored) is None
    assert table_trouble(table(late_by="2 h (queue)"), ignored) is not None
    assert table_trouble(table(late_by="2 h (writer)", health="FAILING"), ignored) is not None


def test_every_fault_of_the_gateway_can_be_ignored() -> None:
    assert tuple(fault.value for fault in Fault) == FAULTS


@pytest.mark.parametrize("option", ["--since", "--timeout"])
def test_a_length_of_time_that_cannot_be_read_is_refused(option: str) -> None:
    result = CliRunner().invoke(app, ["status", option, "soon"])

    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: {option}: 'soon' is not a duration; use for example '30 min'.\n",
    )
