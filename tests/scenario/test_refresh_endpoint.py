from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest

from mt_core.errors import (
    MtError,
    RequestInvalid,
    RequestKeyReused,
    TableBusy,
    TableGone,
    TableInitializing,
    TableNotFound,
)
from mt_core.model.partition import PartitionSpec, Scope
from mt_core.model.progress import Progress
from mt_core.model.run import RunStatus
from mt_core.tables.table_commands import RefreshRequest
from tests.support.gateway.statements import Gateway, normalised, root_cause

GOLDEN = Path(__file__).parents[1] / "golden" / "v3_refresh.json"
TABLE = "materialized-tables/lake.sales.daily/refresh"
MANUAL = {"isPeriodic": False}


def test_a_tick_becomes_a_request_with_all_it_says(gateway: Gateway) -> None:
    session = gateway.open()
    body = {
        "isPeriodic": True,
        "scheduleTime": "2026-01-02 00:00:00",
        "dynamicOptions": {"a": "1"},
        "staticPartitions": {"ds": "2026-01-01"},
        "executionConfig": {"b": "2"},
        "unknown": 1,
    }
    headers = {
        "Idempotency-Key": "k",
        "Freshtable-Table": "uuid",
        "Freshtable-Attempt": "2",
        "Freshtable-Force": "true",
        "Freshtable-Trigger": "backfill",
    }

    answer = gateway.http.post(f"{session}/{TABLE}", json=body, headers=headers)

    assert answer.status_code == 200
    assert list(answer.json()) == ["operationHandle", "partitions"]
    assert gateway.runs.requests == [
        RefreshRequest(
            identifier_text="lake.sales.daily",
            is_periodic=True,
            schedule_time="2026-01-02 00:00:00",
            dynamic_options={"a": "1"},
            static_partitions={"ds": "2026-01-01"},
            execution_config={"b": "2"},
            request_key="k",
            table_id="uuid",
            attempt=2,
            force=True,
            trigger="backfill",
        )
    ]


def test_a_request_that_says_only_that_it_is_not_periodic_asks_for_the_whole_table(gateway: Gateway) -> None:
    session = gateway.open()

    answer = gateway.http.post(
        f"{session}/{TABLE}", json={**MANUAL, "scheduleTime": "", "dynamicOptions": None}
    )

    assert answer.status_code == 200
    assert gateway.runs.requests == [RefreshRequest(identifier_text="lake.sales.daily", is_periodic=False)]


def test_a_word_that_is_none_for_what_began_a_refresh_refuses_no_refresh(gateway: Gateway) -> None:
    answer = gateway.http.post(
        f"{gateway.open()}/{TABLE}", json=MANUAL, headers={"Freshtable-Trigger": "By Hand!"}
    )

    assert answer.status_code == 200
    assert [request.trigger for request in gateway.runs.requests] == [None]


@pytest.mark.parametrize("identifier", ["`lake`.`sales`.`a b`", "lake.sales.`x/y`", "lake.sales.`50%`"])
def test_a_quoted_name_arrives_as_it_was_written(gateway: Gateway, identifier: str) -> None:
    gateway.http.post(
        f"{gateway.open()}/materialized-tables/{quote(identifier, safe='')}/refresh", json=MANUAL
    )

    assert [request.identifier_text for request in gateway.runs.requests] == [identifier]


def test_the_same_idempotency_key_gives_the_same_handle(gateway: Gateway) -> None:
    session = gateway.open()

    handles = [
        gateway.http.post(f"{session}/{TABLE}", json=MANUAL, headers={"Idempotency-Key": key}).json()[
            "operationHandle"
        ]
        for key in ("k1", "k1", "k2")
    ]

    assert (handles[0] == handles[1], handles[0] == handles[2]) == (True, False)


@pytest.mark.parametrize(
    ("error", "status", "code", "retry_after"),
    [
        (RequestInvalid("scheduleTime is no time."), 400, "REQUEST_INVALID", None),
        (TableNotFound("There is no lake.sales.daily."), 404, "TABLE_NOT_FOUND", None),
        (TableBusy("lake.sales.daily is being altered."), 409, "TABLE_BUSY", None),
        (RequestKeyReused("The key is of another refresh."), 409, "REQUEST_KEY_REUSED", None),
        (TableGone("lake.sales.daily was dropped."), 410, "TABLE_GONE", None),
        (TableInitializing("lake.sales.daily is being created."), 503, "TABLE_INITIALIZING", "2"),
        (MtError("Something else."), 500, "INTERNAL", None),
    ],
)
def test_a_refused_refresh_is_answered_with_the_status_of_its_error(
    gateway: Gateway, error: MtError, status: int, code: str, retry_after: str | None
) -> None:
    session, gateway.runs.refusal = gateway.open(), error

    answer = gateway.http.post(f"{session}/{TABLE}", json=MANUAL)

    assert (answer.status_code, answer.headers["freshtable-error"]) == (status, code)
    assert answer.headers.get("retry-after") == retry_after
    internal = f" Request id: {answer.headers['freshtable-request-id']}" if code == "INTERNAL" else ""
    assert root_cause(answer) == f"{type(error).__name__}: {error}{internal}"


def test_an_error_nobody_expected_is_told_without_its_text_and_the_connection_stays(gateway: Gateway) -> None:
    session, gateway.runs.refusal = gateway.open(), ZeroDivisionError("the inside of the gateway")

    answers = [gateway.http.post(f"{session}/{TABLE}", json=MANUAL) for _ in range(20)]

    answer = answers[-1]
    assert (answer.status_code, answer.headers["freshtable-error"]) == (500, "INTERNAL")
    assert root_cause(answer) == (
        "MtError: The gateway failed with an internal error, ZeroDivisionError; its log has the details. "
        f"Request id: {answer.headers['freshtable-request-id']}"
    )


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        ({"isPeriodic": "yes"}, {}),
        ({**MANUAL, "staticPartitions": ["ds"]}, {}),
        (MANUAL, {"Freshtable-Attempt": "x"}),
        (MANUAL, {"Freshtable-Attempt": "9" * 5000}),
        (MANUAL, {"Freshtable-Force": "1"}),
    ],
)
def test_a_request_that_cannot_be_read_is_refused_before_anything_is_queued(
    gateway: Gateway, body: dict[str, object], headers: dict[str, str]
) -> None:
    answer = gateway.http.post(f"{gateway.open()}/{TABLE}", json=body, headers=headers)

    assert (answer.status_code, gateway.runs.requests) == (400, [])


@pytest.mark.parametrize(
    "body", [{}, {"isPeriodic": None}, {"is_periodic": True}, {"scheduleTime": "2026-01-02 00:00:00"}]
)
def test_a_tick_whose_is_periodic_got_lost_is_refused_and_does_not_rewrite_the_whole_table(
    gateway: Gateway, body: dict[str, object]
) -> None:
    answer = gateway.http.post(f"{gateway.open()}/{TABLE}", json=body)

    assert (answer.status_code, answer.headers["freshtable-error"], gateway.runs.requests) == (
        400,
        "REQUEST_INVALID",
        [],
    )
    assert root_cause(answer) == (
        "RequestInvalid: isPeriodic is missing: false is a manual refresh, of the whole table or of "
        "staticPartitions; true is a refresh at the schedule time in scheduleTime."
    )


def test_a_refresh_in_an_unknown_session_is_404_so_that_a_scheduler_opens_a_new_one(gateway: Gateway) -> None:
    answer = gateway.http.post(f"/v3/sessions/{uuid4()}/{TABLE}")

    assert (answer.status_code, answer.headers["freshtable-error"]) == (404, "SESSION_NOT_FOUND")
    assert gateway.runs.requests == []


@pytest.mark.parametrize(
    ("moves", "status"),
    [
        ((), "PENDING"),
        ((RunStatus.RUNNING,), "RUNNING"),
        ((RunStatus.RUNNING, RunStatus.SUCCEEDED), "FINISHED"),
        ((RunStatus.RUNNING, RunStatus.SKIPPED), "FINISHED"),
        ((RunStatus.RUNNING, RunStatus.FAILED), "ERROR"),
        ((RunStatus.CANCELED,), "CANCELED"),
    ],
)
def test_a_run_has_the_status_of_an_operation_under_any_live_session(
    gateway: Gateway, moves: tuple[RunStatus, ...], status: str
) -> None:
    first = gateway.open()
    run_id = gateway.http.post(f"{first}/{TABLE}", json=MANUAL).json()["operationHandle"]
    gateway.runs.move(run_id, *moves)
    gateway.http.delete(first)
    second = gateway.open()

    assert gateway.status(f"{second}/operations/{run_id}") == status


def test_the_shapes_of_a_refresh_are_golden(gateway: Gateway) -> None:
    session = gateway.open()
    run_id = gateway.http.post(f"{session}/{TABLE}", json=MANUAL).json()["operationHandle"]
    operation, gateway.runs.tasks = f"{session}/operations/{run_id}", Progress(done=3, total=8)
    answers = {
        "status of a queued run": gateway.http.get(f"{operation}/status"),
        "not ready": gateway.http.get(f"{operation}/result/0"),
    }
    gateway.runs.move(
        run_id,
        RunStatus.RUNNING,
        RunStatus.SUCCEEDED,
        schedule_time=datetime(2026, 1, 2, tzinfo=UTC),
        scope=Scope.of([PartitionSpec.of({"ds": "2026-01-01"})]),
        decision="refresh",
        reason="lake.sales.orders changed",
        rows=42,
    )
    answers |= {
        "status of a published run": gateway.http.get(f"{operation}/status"),
        "payload": gateway.http.get(f"{operation}/result/0"),
        "end of stream": gateway.http.get(f"{operation}/result/1"),
        "token out of turn": gateway.http.get(f"{operation}/result/7"),
        "cancel too late": gateway.http.post(f"{operation}/cancel"),
        "close": gateway.http.delete(f"{operation}/close"),
    }

    found = {
        name: {"status": answer.status_code, "body": normalised(answer)} for name, answer in answers.items()
    }

    assert found == json.loads(GOLDEN.read_text())


def test_a_run_whose_query_is_broken_says_so_by_its_code(gateway: Gateway) -> None:
    session = gateway.open()
    run_id = gateway.http.post(f"{session}/{TABLE}", json=MANUAL).json()["operationHandle"]
    gateway.runs.move(
        run_id, RunStatus.RUNNING, RunStatus.FAILED, error="Column x is not there.", broken=True
    )

    answer = gateway.http.get(f"{session}/operations/{run_id}/result/0")

    assert (answer.status_code, answer.headers["freshtable-error"]) == (500, "QUERY_BROKEN")


def test_a_failed_run_tells_why_when_its_result_is_fetched(gateway: Gateway) -> None:
    session = gateway.open()
    run_id = gateway.http.post(f"{session}/{TABLE}", json=MANUAL).json()["operationHandle"]
    gateway.runs.move(run_id, RunStatus.RUNNING, RunStatus.FAILED, error="Column x is not there.")

    answer = gateway.http.get(f"{session}/operations/{run_id}/result/0")

    assert (answer.status_code, answer.headers["freshtable-error"]) == (500, "REFRESH_FAILED")
    assert root_cause(answer) == f"RefreshFailed: Refresh {run_id} failed: Column x is not there."


def test_cancel_of_a_run_id_cancels_the_run_and_close_forgets_nothing(gateway: Gateway) -> None:
    session = gateway.open()
    first, second = (
        gateway.http.post(f"{session}/{TABLE}", json=MANUAL).json()["operationHandle"] for _ in range(2)
    )

    gateway.http.post(f"{session}/operations/{first}/cancel")
    gateway.http.delete(f"{session}/operations/{second}/close")

    assert gateway.runs.canceled == [first]
    assert gateway.status(f"{session}/operations/{first}") == "CANCELED"
    assert gateway.status(f"{session}/operations/{second}") == "PENDING"


def test_a_late_cancel_of_an_old_attempt_changes_nothing_and_says_where_the_run_stands(
    gateway: Gateway,
) -> None:
    session = gateway.open()
    run = gateway.runs.queue(request_attempt=2)
    path = f"{session}/operations/{run.run_id}/cancel"

    late = gateway.http.post(path, headers={"Freshtable-Attempt": "1"})
    now = gateway.http.post(path, headers={"Freshtable-Attempt": "2"})
    again = gateway.http.post(path, headers={"Freshtable-Attempt": "2"})

    assert [(answer.status_code, answer.json()) for answer in (late, now, again)] == [
        (200, {"status": "PENDING"}),
        (200, {"status": "CANCELED"}),
        (200, {"status": "CANCELED"}),
    ]
    assert gateway.runs.canceled == [run.run_id]
