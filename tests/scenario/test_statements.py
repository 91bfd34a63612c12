from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from mt_core.base.rowset import Column, LogicalType, RowSet
from mt_core.errors import EngineUnavailable, QueryFailed, TableNotFound
from mt_core.model.freshness import Freshness
from mt_core.model.progress import Progress
from mt_core.model.run import RunStatus
from mt_core.model.table import TableIdentifier
from mt_core.sessions.ports import StatementResult
from mt_core.sql.statements import (
    CreateMaterializedTable,
    RefreshTable,
    ShowMaterializedTables,
    SuspendTable,
)
from mt_core.tables.table_commands import CommandContext, CommandOutcome
from tests.support.gateway.statements import CLUSTER, NOW, Gateway, normalised, root_cause

GOLDEN = Path(__file__).parents[1] / "golden" / "v3_statements.json"
REFRESH = "ALTER MATERIALIZED TABLE daily REFRESH"
CREATE = "CREATE MATERIALIZED TABLE daily FRESHNESS = INTERVAL '1' DAY AS SELECT 1"
DAILY = TableIdentifier("lake", ("default",), "daily")


def test_the_shapes_of_a_statement_are_golden(gateway: Gateway) -> None:
    session, hold = gateway.open(), gateway.engine.hold("SELECT 1")
    gateway.engine.tasks = Progress(done=1, total=4, rows_read=900)
    running = gateway.begin(session, "SELECT 1")
    hold.wait_entered()
    answers = {
        "status of a running query": gateway.http.get(f"{running}/status"),
        "not ready": gateway.http.get(f"{running}/result/0?rowFormat=plain_text"),
    }
    hold.release()
    failed = gateway.begin(session, "SELECT wrong")
    gateway.result(failed)
    answers |= {
        "payload": gateway.result(running),
        "payload as text": gateway.http.get(f"{running}/result/0?rowFormat=PLAIN_TEXT"),
        "end of stream": gateway.http.get(f"{running}/result/1"),
        "status of a finished query": gateway.http.get(f"{running}/status"),
        "cancel of a finished query": gateway.http.post(f"{running}/cancel"),
        "OK": gateway.run(session, "USE lake"),
        "status of a failed query": gateway.http.get(f"{failed}/status"),
        "result of a failed query": gateway.http.get(f"{failed}/result/0"),
        "close": gateway.http.delete(f"{running}/close"),
        "status of a closed operation": gateway.http.get(f"{running}/status"),
        "wrong token": gateway.http.get(f"{failed}/result/abc"),
        "wrong format": gateway.http.get(f"{failed}/result/0?rowFormat=XML"),
    }

    found = {
        name: {"status": answer.status_code, "body": normalised(answer)} for name, answer in answers.items()
    }

    assert found == json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("format_", ["JSON", "PLAIN_TEXT"])
def test_a_page_is_repeated_for_the_current_and_the_previous_token(gateway: Gateway, format_: str) -> None:
    rows = RowSet(
        columns=(Column(name="n", type=LogicalType(root="INTEGER")),), rows=[[n] for n in range(5001)]
    )
    gateway.engine.answers["SELECT many"] = StatementResult(is_query=True, rows=rows)
    operation = gateway.begin(gateway.open(), "SELECT many")
    gateway.result(operation)

    pages = [
        gateway.http.get(f"{operation}/result/{token}?rowFormat={format_}")
        for token in (0, 0, 1, 1, 2, 2, 1, 0)
    ]

    bodies = [page.json() for page in pages]
    assert [page.status_code for page in pages] == [200] * 7 + [500]
    assert [len(body["results"]["data"]) for body in bodies[:7]] == [5000, 5000, 1, 1, 0, 0, 1]
    assert [body["resultType"] for body in bodies[:7]] == ["PAYLOAD"] * 4 + ["EOS"] * 2 + ["PAYLOAD"]
    assert ["nextResultUri" in body for body in bodies[:7]] == [True] * 4 + [False] * 2 + [True]
    assert root_cause(pages[7]) == "RequestInvalid: Expecting token to be 2 or 1, but found 0."


@pytest.mark.parametrize("prefix", ["", "/v3"])
def test_the_next_uri_keeps_the_prefix_of_the_request(gateway: Gateway, prefix: str) -> None:
    session = gateway.open()
    operation = gateway.begin(session, "SELECT 1").removeprefix("/v3")

    body = gateway.result(prefix + operation).json()

    assert body["nextResultUri"] == f"{prefix}{operation}/result/1?rowFormat=JSON"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1; SELECT 1", "Only a single statement can be submitted at a time, but there are 2."),
        ("", 'Encountered "<EOF>"'),
        (" -- nothing\n;", 'Encountered "<EOF>"'),
    ],
)
def test_a_text_that_is_not_one_statement_becomes_an_operation_in_error(
    gateway: Gateway, text: str, message: str
) -> None:
    operation = gateway.begin(gateway.open(), text)

    answer = gateway.result(operation)

    assert (answer.status_code, answer.headers["freshtable-error"]) == (500, "SQL_SYNTAX")
    assert message in root_cause(answer)
    assert (gateway.status(operation), gateway.engine.executed) == ("ERROR", [])


def test_set_and_reset_change_what_statements_see_and_list_it_sorted(gateway: Gateway) -> None:
    session = gateway.open()

    changed = [gateway.rows(session, text) for text in ("SET 'b' = '2'", "SET a = 1", "SET 'x.secret' = 's'")]
    listed = gateway.run(session, "SET").json()
    gateway.run(session, "RESET a")
    gateway.run(session, "SELECT 1")

    assert changed == [[["OK"]]] * 3
    assert [column["name"] for column in listed["results"]["columns"]] == ["key", "value"]
    assert [row["fields"] for row in listed["results"]["data"]] == [
        ["a", "1"],
        ["b", "2"],
        ["execution.runtime-mode", "batch"],
        ["x.secret", "***"],
    ]
    assert gateway.engine.executed[0][0].properties == {"b": "2", "x.secret": "s"}


@pytest.mark.parametrize("reset", ["RESET;", "RESET 'b'", "RESET a"])
def test_reset_loses_nothing_of_what_the_session_was_opened_with(gateway: Gateway, reset: str) -> None:
    opened = {"a": "1", "table.local-time-zone": "Europe/Rome", "execution.runtime-mode": "streaming"}
    session = gateway.open(**opened)
    for text in ("SET b = 2",) if reset.endswith("'b'") else ("SET a = 2",):
        gateway.run(session, text)

    gateway.run(session, reset)
    gateway.run(session, "RESET 'execution.runtime-mode'")

    assert gateway.http.get(session).json() == {"properties": opened}


def test_reset_puts_back_the_default_of_what_was_set(gateway: Gateway) -> None:
    session = gateway.open()
    gateway.run(session, "SET 'execution.runtime-mode' = 'streaming'")

    gateway.run(session, "RESET")

    assert gateway.http.get(session).json() == {"properties": {"execution.runtime-mode": "batch"}}


def test_an_execution_config_holds_for_one_statement_only(gateway: Gateway) -> None:
    session = gateway.open(a="1")
    body = {"statement": "SELECT 1", "executionConfig": {"a": "2", "b": 3}}

    gateway.http.post(f"{session}/statements", json=body)
    gateway.run(session, "SELECT 1")

    assert [context.properties for context, _ in gateway.engine.executed] == [
        {"a": "2", "b": "3"},
        {"a": "1"},
    ]


def test_statements_of_one_session_run_one_after_the_other_in_order(gateway: Gateway) -> None:
    session, other, hold = gateway.open(), gateway.open(), gateway.engine.hold("SELECT 1")
    first = gateway.begin(session, "SELECT 1")
    hold.wait_entered()
    second = gateway.begin(session, "USE lake")
    elsewhere = gateway.run(other, "SELECT 1")
    before = (gateway.status(second), [sql for _, sql in gateway.engine.executed])

    hold.release()
    gateway.result(second)

    assert elsewhere.status_code == 200
    assert before == ("RUNNING", ["SELECT 1", "SELECT 1"])
    assert [gateway.status(operation) for operation in (first, second)] == ["FINISHED", "FINISHED"]


def test_cancel_stops_the_query_and_the_session_goes_on(gateway: Gateway) -> None:
    session, hold = gateway.open(), gateway.engine.hold("SELECT 1")
    operation = gateway.begin(session, "SELECT 1")
    hold.wait_entered()

    cancelled = gateway.http.post(f"{operation}/cancel")
    after = gateway.rows(session, "SELECT 1")

    assert cancelled.json() == {"status": "CANCELED"}
    assert (gateway.status(operation), len(gateway.engine.canceled), after) == ("CANCELED", 1, [[1]])
    assert root_cause(gateway.result(operation)).endswith("is CANCELED: it has no result to fetch.")


def test_close_is_harmless_for_an_operation_that_never_was(gateway: Gateway) -> None:
    session = gateway.open()
    operation = gateway.begin(session, "SELECT 1")
    paths = [operation, operation, f"{session}/operations/{uuid4()}"]

    answers = [gateway.http.delete(f"{path}/close") for path in paths]

    assert [(answer.status_code, answer.json()) for answer in answers] == [(200, {"status": "CLOSED"})] * 3


def test_an_unknown_operation_is_an_error_for_status_result_and_cancel(gateway: Gateway) -> None:
    operation = f"{gateway.open()}/operations/{uuid4()}"

    answers = [
        gateway.http.get(f"{operation}/status"),
        gateway.http.get(f"{operation}/result/0"),
        gateway.http.post(f"{operation}/cancel"),
    ]

    assert [(answer.status_code, answer.headers["freshtable-error"]) for answer in answers] == [
        (500, "OPERATION_NOT_FOUND")
    ] * 3


def test_a_statement_of_ours_goes_to_the_tables_with_the_place_and_properties_of_the_session(
    gateway: Gateway,
) -> None:
    session = gateway.open(a="1")
    gateway.commands.outcomes[SuspendTable] = CommandOutcome(warnings=("Airflow is away.",))

    body = gateway.run(session, "ALTER MATERIALIZED TABLE daily SUSPEND").json()

    [(statement, context)] = gateway.commands.executed
    assert statement == SuspendTable(name=("daily",))
    assert replace(context, job_id="") == CommandContext(
        catalog="lake", namespace=("default",), properties={"a": "1"}, zone="UTC"
    )
    assert context.job_id
    assert (body["resultKind"], body["warnings"]) == ("SUCCESS", ["Airflow is away."])
    assert body["results"]["data"] == [{"kind": "INSERT", "fields": ["OK"]}]


def test_rows_of_a_statement_of_ours_are_content_but_no_query(gateway: Gateway) -> None:
    rows = RowSet(columns=(Column(name="materialized table"),), rows=[])
    gateway.commands.outcomes[ShowMaterializedTables] = CommandOutcome(rows=rows)

    body = gateway.run(gateway.open(), "SHOW MATERIALIZED TABLES").json()

    assert (body["resultType"], body["isQueryResult"], body["resultKind"]) == (
        "EOS",
        False,
        "SUCCESS_WITH_CONTENT",
    )


def test_a_refused_command_is_the_error_of_its_operation(gateway: Gateway) -> None:
    gateway.commands.outcomes[SuspendTable] = TableNotFound(
        "There is no materialized table lake.default.daily."
    )

    answer = gateway.run(gateway.open(), "ALTER MATERIALIZED TABLE daily SUSPEND")

    assert (answer.status_code, answer.headers["freshtable-error"]) == (500, "TABLE_NOT_FOUND")
    assert root_cause(answer) == "TableNotFound: There is no materialized table lake.default.daily."


def test_an_error_nobody_expected_names_the_operation_and_the_log(gateway: Gateway) -> None:
    gateway.engine.answers["SELECT boom"] = ZeroDivisionError("division by zero")

    answer = gateway.run(gateway.open(), "SELECT boom")

    assert answer.headers["freshtable-error"] == "INTERNAL"
    assert re.search(
        "ZeroDivisionError: division by zero; the gateway's log has the details. Request id: [0-9a-f]{32}$",
        root_cause(answer),
    )


def test_a_manual_refresh_waits_for_its_run_and_leaves_the_session_free(gateway: Gateway) -> None:
    session, run = gateway.open(), gateway.runs.queue()
    gateway.commands.outcomes[RefreshTable] = CommandOutcome(wait_for=run.run_id)
    operation = gateway.begin(session, REFRESH)
    meanwhile = gateway.rows(session, "SELECT 1")
    before = gateway.status(operation)

    gateway.runs.move(run.run_id, RunStatus.RUNNING, RunStatus.SUCCEEDED, job_id="a" * 32, rows=3)
    body = gateway.result(operation).json()

    assert (before, meanwhile) == ("RUNNING", [[1]])
    assert body["results"]["data"] == [{"kind": "INSERT", "fields": ["a" * 32, CLUSTER, "whole table", 3]}]
    assert (body["isQueryResult"], body["resultKind"], body["run"]["rows"]) == (
        False,
        "SUCCESS_WITH_CONTENT",
        3,
    )


def test_cancel_of_a_manual_refresh_cancels_its_run(gateway: Gateway) -> None:
    session, run = gateway.open(), gateway.runs.queue()
    gateway.commands.outcomes[RefreshTable] = CommandOutcome(wait_for=run.run_id)
    operation = gateway.begin(session, REFRESH)
    gateway.rows(session, "SELECT 1")

    gateway.http.post(f"{operation}/cancel")

    assert (gateway.status(operation), gateway.runs.canceled) == ("CANCELED", [run.run_id])


def test_closing_the_session_of_a_refresh_leaves_the_run_alone(gateway: Gateway) -> None:
    session, run = gateway.open(), gateway.runs.queue()
    gateway.commands.outcomes[RefreshTable] = CommandOutcome(wait_for=run.run_id)
    gateway.begin(session, REFRESH)
    gateway.rows(session, "SELECT 1")

    gateway.http.delete(session)

    assert gateway.runs.canceled == []


@pytest.mark.parametrize(
    ("moves", "ended"),
    [
        ((RunStatus.RUNNING, RunStatus.FAILED), "failed: Column x is not there."),
        ((RunStatus.RUNNING, RunStatus.CANCELED), "was cancelled"),
    ],
)
def test_a_refresh_that_does_not_succeed_is_an_error_naming_the_table(
    gateway: Gateway, moves: tuple[RunStatus, ...], ended: str
) -> None:
    run = gateway.runs.queue()
    gateway.runs.move(run.run_id, *moves, error="Column x is not there.")
    gateway.commands.outcomes[RefreshTable] = CommandOutcome(wait_for=run.run_id)

    answer = gateway.run(gateway.open(), REFRESH)

    assert (
        root_cause(answer) == f"RefreshFailed: The refresh of materialized table lake.default.daily {ended}"
    )


def test_a_create_waits_for_its_first_run_and_says_ok(gateway: Gateway) -> None:
    run = gateway.runs.queue()
    gateway.commands.outcomes[CreateMaterializedTable] = CommandOutcome(wait_for=run.run_id, created=DAILY)
    gateway.runs.move(run.run_id, RunStatus.RUNNING, RunStatus.SKIPPED)

    rows = gateway.rows(gateway.open(), CREATE)

    assert rows == [["OK"]]


@pytest.mark.parametrize(
    ("seconds", "more"),
    [
        (5, ""),
        (
            7,
            ", more than half of its freshness of 10 seconds, so it cannot keep up: "
            "ALTER MATERIALIZED TABLE lake.default.daily SET FRESHNESS = INTERVAL '14' SECOND, or longer",
        ),
    ],
)
def test_a_create_of_a_table_that_every_change_computes_anew_says_how_long_that_took(
    gateway: Gateway, seconds: int, more: str
) -> None:
    run = gateway.runs.queue()
    gateway.commands.outcomes[CreateMaterializedTable] = CommandOutcome(
        wait_for=run.run_id, created=DAILY, recomputed=Freshness(10, "SECOND")
    )
    gateway.runs.move(run.run_id, RunStatus.RUNNING, started_at=NOW)
    gateway.runs.move(run.run_id, RunStatus.SUCCEEDED, finished_at=NOW + timedelta(seconds=seconds))

    body = gateway.run(gateway.open(), CREATE).json()

    assert body["warnings"] == [f"The first refresh of lake.default.daily took {seconds}.0 s{more}."]


def test_a_create_whose_first_refresh_fails_says_that_the_table_is_there(gateway: Gateway) -> None:
    run = gateway.runs.queue()
    gateway.commands.outcomes[CreateMaterializedTable] = CommandOutcome(wait_for=run.run_id, created=DAILY)
    gateway.runs.move(run.run_id, RunStatus.RUNNING, RunStatus.FAILED, error="no space left")

    answer = gateway.run(gateway.open(), CREATE)

    assert root_cause(answer) == (
        "RefreshFailed: Materialized table lake.default.daily was created, but its first refresh failed: "
        "no space left; correct the sources and ALTER MATERIALIZED TABLE lake.default.daily REFRESH, "
        "or correct the query with ALTER MATERIALIZED TABLE lake.default.daily AS … or CREATE OR ALTER. "
        "Until then, each scheduled refresh tries the whole table again; DROP removes the table."
    )


def test_a_statement_waits_for_spark_to_start_while_set_does_not(gateway: Gateway) -> None:
    session = gateway.open()
    gateway.engine.ready.clear()
    settings = gateway.rows(session, "SET a = 1")
    operation = gateway.begin(session, "SELECT 1")
    before = gateway.status(operation)

    gateway.engine.ready.set()

    assert (settings, before, gateway.result(operation).json()["results"]["data"][0]["fields"]) == (
        [["OK"]],
        "RUNNING",
        [1],
    )


def test_a_spark_that_never_starts_is_named(gateway: Gateway) -> None:
    gateway.engine.failure = EngineUnavailable("There is no JDK: set JAVA_HOME to one of version 17 or 21.")

    answer = gateway.run(gateway.open(), "SELECT 1")

    assert (
        root_cause(answer) == "EngineUnavailable: There is no JDK: set JAVA_HOME to one of version 17 or 21."
    )


def test_a_comment_before_the_statement_goes_to_spark_so_that_lines_are_right(gateway: Gateway) -> None:
    text = "/* {} */\n-- why\nSELECT 1"
    gateway.engine.answers[text] = QueryFailed("at line 3", line=3)

    answer = gateway.run(gateway.open(), text + " ; -- end")

    assert root_cause(answer) == "QueryFailed: at line 3"


def test_a_quick_statement_waits_for_its_turn_all_the_same(gateway: Gateway) -> None:
    session, hold = gateway.open(), gateway.engine.hold("SELECT 1")
    slow = gateway.begin(session, "SELECT 1")
    hold.wait_entered()

    quick = gateway.begin(session, "SET 'a' = 'b'")
    waiting, properties = gateway.status(quick), gateway.http.get(session).json()["properties"]
    hold.release()

    assert (waiting, "a" in properties) == ("RUNNING", False)
    assert [gateway.result(operation).status_code for operation in (slow, quick)] == [200, 200]
    assert gateway.http.get(session).json()["properties"]["a"] == "b"
