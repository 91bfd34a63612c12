"""Each endpoint exists in the same versions as in Flink, and answers as clients of that version expect."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.support.gateway.statements import Gateway, normalised, root_cause

GOLDEN = Path(__file__).parents[1] / "golden"
S, O = "4020cec2-d895-4858-8b76-b855c88f8077", "6fe5d9ab-9a7f-4df5-8a0e-1a2b7d0c5a11"  # noqa: E741
SESSION, OPERATION = f"/sessions/{S}", f"/sessions/{S}/operations/{O}"
ENDPOINTS = [
    ("GET", "/api_versions", "1234"),
    ("GET", "/info", "1234"),
    ("POST", "/sessions", "1234"),
    ("GET", SESSION, "1234"),
    ("DELETE", SESSION, "1234"),
    ("POST", f"{SESSION}/heartbeat", "1234"),
    ("POST", f"{SESSION}/configure-session", "234"),
    ("GET", f"{SESSION}/complete-statement", "234"),
    ("POST", f"{SESSION}/statements", "1234"),
    ("GET", f"{OPERATION}/status", "1234"),
    ("POST", f"{OPERATION}/cancel", "1234"),
    ("DELETE", f"{OPERATION}/close", "1234"),
    ("GET", f"{OPERATION}/result/0", "1234"),
    ("POST", f"{SESSION}/materialized-tables/lake.a.b/refresh", "3"),
    ("POST", "/workflow/embedded-scheduler/create", "3"),
    ("POST", "/workflow/embedded-scheduler/suspend", "3"),
    ("POST", "/workflow/embedded-scheduler/resume", "3"),
    ("DELETE", "/workflow/embedded-scheduler/delete", "3"),
    ("POST", f"{SESSION}/scripts", "4"),
    ("POST", "/statements", "1"),
    ("GET", f"{SESSION}/jobs/{'a' * 32}/status", "1"),
    ("GET", f"{SESSION}/jobs/{'a' * 32}/result/0", "1"),
    ("DELETE", f"{SESSION}/jobs/{'a' * 32}", "1"),
]


@pytest.mark.parametrize(("method", "path", "versions"), ENDPOINTS)
def test_an_endpoint_is_there_in_its_versions_only_and_without_a_prefix_as_in_v4(
    gateway: Gateway, method: str, path: str, versions: str
) -> None:
    prefixes = {"/v1": "1", "/v2": "2", "/v3": "3", "/v4": "4", "": "4"}

    answers = {prefix: gateway.http.request(method, prefix + path) for prefix in prefixes}

    there = {prefix: gateway_knows(answer.json()) for prefix, answer in answers.items()}
    assert there == {prefix: number in versions for prefix, number in prefixes.items()}


def gateway_knows(body: dict[str, object]) -> bool:
    return not str(body.get("errors", "")).startswith("['Not found: ")


@pytest.mark.parametrize("version", ["v1", "v2", "v4"])
def test_the_shapes_of_a_version_are_golden(gateway: Gateway, version: str) -> None:
    found = {
        name: {"status": answer.status_code, "body": normalised(answer)}
        for name, answer in conversation(gateway, version).items()
    }

    assert found == json.loads((GOLDEN / f"{version}_statements.json").read_text())


def conversation(gateway: Gateway, version: str) -> dict[str, httpx.Response]:
    """Return the answers that a client of a version gets to a query, a command and an error."""
    opened = gateway.http.post(f"/{version}/sessions", json={"sessionName": "d"})
    session = f"/{version}/sessions/{opened.json()['sessionHandle']}"
    hold = gateway.engine.hold("SELECT 1")
    begun = gateway.http.post(f"{session}/statements", json={"statement": "SELECT 1", "executionTimeout": 0})
    running = f"{session}/operations/{begun.json()['operationHandle']}"
    hold.wait_entered()
    waiting = {
        "info": gateway.http.get(f"/{version}/info"),
        "session opened": opened,
        "statement begun": begun,
        "status of a running query": gateway.http.get(f"{running}/status"),
        "not ready": gateway.http.get(f"{running}/result/0"),
    }
    hold.release()
    command = gateway.begin(session, "SET a = 1")
    failed = gateway.begin(session, "SELECT wrong")
    return waiting | {
        "payload": gateway.result(running),
        "end of stream": gateway.http.get(f"{running}/result/1"),
        "status of a finished query": gateway.http.get(f"{running}/status"),
        "OK": gateway.result(command),
        "result of a failed query": gateway.result(failed),
        "close": gateway.http.delete(f"{running}/close"),
    }


def test_the_end_has_a_null_uri_on_v1_and_none_at_all_elsewhere(gateway: Gateway) -> None:
    opened, ends = gateway.open(), {}
    for version in ("v1", "v2", "v3", "v4"):
        operation = gateway.begin(opened.replace("/v3/", f"/{version}/"), "SELECT 1")
        first = gateway.result(operation).json()
        ends[version] = gateway.http.get(first["nextResultUri"]).json().get("nextResultUri", "absent")

    assert ends == {"v1": None, "v2": "absent", "v3": "absent", "v4": "absent"}


def test_v1_has_no_row_format(gateway: Gateway) -> None:
    operation = gateway.begin(gateway.open().replace("/v3/", "/v1/"), "SELECT 1")
    gateway.result(operation)

    answer = gateway.http.get(f"{operation}/result/0?rowFormat=PLAIN_TEXT")

    assert answer.json()["results"]["data"] == [{"kind": "INSERT", "fields": [1]}]
    assert answer.json()["nextResultUri"] == f"{operation}/result/1"


@pytest.mark.parametrize(
    ("method", "action", "way_out"),
    [
        ("POST", "create", "CREATE MATERIALIZED TABLE creates it."),
        ("POST", "suspend", "ALTER MATERIALIZED TABLE … SUSPEND suspends it."),
        ("POST", "resume", "ALTER MATERIALIZED TABLE … RESUME resumes it."),
        ("DELETE", "delete", "DROP MATERIALIZED TABLE deletes it."),
    ],
)
def test_the_embedded_scheduler_says_who_manages_workflows(
    gateway: Gateway, method: str, action: str, way_out: str
) -> None:
    answer = gateway.http.request(
        method, f"/v3/workflow/embedded-scheduler/{action}", json={"workflowName": "w"}
    )

    assert (answer.status_code, answer.headers["freshtable-error"]) == (500, "UNSUPPORTED")
    assert root_cause(answer) == (
        f"Unsupported: embedded-scheduler/{action}: the workflow of a materialized table is managed by the "
        f"gateway, with the scheduler that workflow-scheduler.type names; {way_out}"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {},
            (
                "RequestInvalid: Please specify either script content or uri: "
                "script and scriptUri, neither is given."
            ),
        ),
        (
            {"script": "SELECT 1", "scriptUri": "file:///x"},
            (
                "RequestInvalid: Please specify either script content or uri: "
                "script and scriptUri, both are given."
            ),
        ),
        ({"script": "SELECT 1"}, "Unsupported: Scripts cannot be deployed: there is no application mode"),
    ],
)
def test_a_script_is_refused_with_the_way_out(gateway: Gateway, body: dict[str, str], message: str) -> None:
    session = gateway.open().replace("/v3/", "/v4/")

    answer = gateway.http.post(f"{session}/scripts", json=body)

    assert (answer.status_code, root_cause(answer)[: len(message)]) == (500, message)
