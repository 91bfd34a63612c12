"""Jobs that change data, seen from any session."""

from __future__ import annotations

import pytest

from mt_core.sessions.ports import StatementResult
from tests.support.gateway.statements import Gateway, root_cause

INSERT = "INSERT INTO t SELECT 1"


def test_a_job_is_known_in_any_session_after_its_own_was_closed(gateway: Gateway) -> None:
    gateway.engine.answers[INSERT] = StatementResult(is_query=False, rows=None, affected_rows=7, rows_read=9)
    session = gateway.open()
    job_id = gateway.run(session, INSERT).json()["jobID"]
    gateway.http.delete(session)

    other = gateway.open()
    listed, described = (
        gateway.rows(other, "SHOW JOBS LIKE 'insert-%'"),
        gateway.rows(other, f"DESCRIBE JOB '{job_id}'"),
    )
    handle = other.rpartition("/")[2]
    status = gateway.http.get(f"/v1/sessions/{handle}/jobs/{job_id}/status").json()

    assert [row[:3] for row in listed] == [[job_id, "insert-t", "FINISHED"]]
    [row] = described
    assert (row[:3], row[4], row[6], row[8:11]) == (
        [job_id, "insert-t", "FINISHED"], "INSERT", session.rpartition("/")[2], ["t", 9, 7],
    )  # fmt: skip
    assert status == {"status": "FINISHED"}


@pytest.mark.parametrize("value", ["nope", " nope ,", "nope,other"])
def test_a_hook_that_is_not_installed_is_refused_wherever_it_is_named(gateway: Gateway, value: str) -> None:
    session, hooks = gateway.open(), {"job.hooks": value}

    answers = [
        gateway.run(session, f"SET 'job.hooks' = '{value}'"),
        gateway.http.post("/v3/sessions", json={"properties": hooks}),
        gateway.http.post("/v1/sessions", json={"properties": hooks}),
        gateway.http.post("/v1/statements", json={"statement": "SELECT 1", "properties": hooks}),
    ]
    one = gateway.http.post(
        f"{session}/statements", json={"statement": INSERT, "executionConfig": hooks}
    ).json()
    answers.append(gateway.result(f"{session}/operations/{one['operationHandle']}"))

    for answer in answers:
        assert "job.hooks: Job status hook 'nope' is not installed; installed hooks: " in root_cause(answer)
    assert (gateway.engine.executed, len(gateway.sessions)) == ([], 1)
    assert gateway.rows(session, "SHOW JOBS") == gateway.rows(session, "SET 'job.hooks'") == []


def test_no_hooks_are_a_value_too(gateway: Gateway) -> None:
    session = gateway.open(**{"job.hooks": ""})

    assert gateway.rows(session, "SET 'job.hooks' = ' '") == [["OK"]]


def test_the_settings_of_the_webhook_are_not_a_sessions(gateway: Gateway) -> None:
    answer = gateway.run(gateway.open(), "SET 'job.hooks.webhook.allowed-urls' = 'http://h'")

    assert "job.hooks.webhook.allowed-urls is a setting of the whole gateway" in root_cause(answer)
