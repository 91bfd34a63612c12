"""Access: by the role of a token, and by the host name under which a gateway without tokens is called."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest

from mt_core.base.access import parse_tokens
from mt_core.client.http import GatewayClient, Refresh
from mt_core.errors import GatewayError
from mt_core.gateway.application import build_app
from mt_core.gateway.http.routing import VersionRoutes
from mt_core.gateway.http.security import roles_of
from mt_core.sql.statements import SuspendTable
from tests.support.gateway.shared_app import app_of
from tests.support.gateway.statements import Gateway
from tests.support.manager_world import DAILY, ManagerWorld

TOKENS = parse_tokens("boss:admin:a,anna:sql:s,bob:sql:b,airflow:refresh:f,ops:read:r")
REFRESH = "/materialized-tables/lake.default.daily/refresh"


def as_(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


@pytest.fixture
def gateway(gateway: Gateway, switch: Any) -> Gateway:
    switch.app = app_of(replace(gateway.services, tokens=TOKENS))
    return gateway


def status(gateway: Gateway, secret: str, method: str, path: str) -> int:
    return gateway.http.request(method, path, headers=as_(secret)).status_code


@pytest.mark.parametrize(
    ("method", "path", "let_in"),
    [
        ("GET", "/v3/info", "asfr"),
        ("GET", "/v3/openapi.json", "asfr"),
        ("GET", "/v3/sessions/{}/operations/{}/status", "asfr"),
        ("POST", "/v3/sessions", "asf"),
        ("POST", "/v1/sessions", "asf"),
        ("GET", "/v3/sessions/{}", "asf"),
        ("POST", "/v3/sessions/{}/heartbeat", "asf"),
        ("GET", "/v3/sessions/{}/operations/{}/result/0", "asf"),
        ("POST", "/v3/sessions/{}/operations/{}/cancel", "asf"),
        ("DELETE", "/v3/sessions/{}/operations/{}/close", "asf"),
        ("POST", "/v3/sessions/{}/statements", "as"),
        ("POST", "/v1/statements", "as"),
        ("POST", "/v3/sessions/{}/configure-session", "as"),
        ("GET", "/v3/sessions/{}/complete-statement", "as"),
        ("POST", "/v4/sessions/{}/scripts", "as"),
        ("POST", "/v3/sessions/{}" + REFRESH, "af"),
        ("GET", "/v3/workflows/airflow/shards/0", "af"),
        ("GET", "/v3/workflows/airflow/some-id", "af"),
        ("GET", "/freshtable/v1/openapi.json", "asfr"),
        ("GET", "/freshtable/v1/tables", "asr"),
        ("GET", "/freshtable/v1/tables/some-id", "asr"),
        ("GET", "/freshtable/v1/tables/some-id/refreshes", "asr"),
        ("GET", "/freshtable/v1/tables/some-id/staleness", "asr"),
        ("GET", "/freshtable/v1/runs/some-id", "asr"),
        ("GET", "/freshtable/v1/graph", "asr"),
        ("GET", "/freshtable/v1/jobs", "asr"),
        ("GET", "/freshtable/v1/sessions", "asr"),
        ("GET", "/freshtable/v1/gateway", "asr"),
        ("GET", "/metrics", "asr"),
    ],
)
def test_a_role_is_let_in_to_what_it_is_for_and_nothing_else(
    gateway: Gateway, method: str, path: str, let_in: str
) -> None:
    statuses = {}
    for token in (token for token in TOKENS if token.name != "bob"):
        session = gateway.sessions.open(owner=token.name)
        operation = gateway.services.executor.submit(session, "SELECT 1")
        operation.wait(60)
        secret = token.secret.reveal()
        statuses[secret] = status(gateway, secret, method, path.format(session.handle, operation.handle))
        gateway.sessions.close(session.handle, missing_ok=True)

    assert {secret for secret, found in statuses.items() if found not in (401, 403)} == set(let_in)


def test_every_endpoint_is_known_to_the_table_of_roles(gateway: Gateway) -> None:
    routes = next(
        route for route in build_app(gateway.services).router.routes if isinstance(route, VersionRoutes)
    )

    for_sql = {
        path
        for method, path in routes.endpoints()
        if roles_of(method, path) == roles_of("POST", "/statements")
    }

    assert for_sql == {
        "/statements",
        "/sessions/{session_handle}/statements",
        "/sessions/{session_handle}/plans/{name}",
        "/sessions/{session_handle}/configure-session",
        "/sessions/{session_handle}/complete-statement",
        "/sessions/{session_handle}/scripts",
        "/sessions/{session_handle}/jobs/{job_id}",
        "/sessions/{session_handle}/jobs/{job_id}/result/{token}",
        *(f"/workflow/embedded-scheduler/{verb}" for verb in ("create", "suspend", "resume", "delete")),
    }


def test_a_refusal_names_the_token_its_role_and_the_roles_needed(gateway: Gateway) -> None:
    session = gateway.sessions.open(owner="airflow").handle

    answer = gateway.http.post(
        f"/v3/sessions/{session}/statements", json={"statement": "SELECT 1"}, headers=as_("f")
    )

    assert (answer.status_code, answer.headers["Freshtable-Error"]) == (403, "FORBIDDEN")
    assert answer.json()["errors"] == [
        (
            "Forbidden: token 'airflow' has the role refresh; "
            "this request needs a token with the role sql or admin."
        )
    ]
    assert gateway.engine.executed == []


def test_a_scheduler_can_refresh_wait_and_cancel_but_run_no_statement(gateway: Gateway) -> None:
    with GatewayClient(str(gateway.http.base_url), "f") as client:
        run = client.refresh(Refresh(identifier="lake.default.daily"))
        told = client.status(run)
        client.cancel(run)
        with pytest.raises(GatewayError, match="token 'airflow' has the role refresh"):
            client.execute("SELECT 1")

    assert told in {"PENDING", "RUNNING"}
    assert [request.requested_by for request in gateway.runs.requests] == ["airflow"]


def test_a_statement_is_logged_with_the_name_of_its_token_and_without_its_text(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    with GatewayClient(str(gateway.http.base_url), "s") as client:
        client.execute("ALTER MATERIALIZED TABLE daily SUSPEND")
        client.execute("SET 's3.secret' = 'hunter2'")

    [table, setting] = [
        record for record in caplog.records if getattr(record, "action", "") == "statement_begun"
    ]
    assert (vars(table)["by"], vars(table)["statement"]) == ("anna", "ALTER_MATERIALIZED_TABLE")
    assert (vars(setting)["by"], vars(setting)["statement"]) == ("anna", "SET")


def test_a_command_knows_the_name_of_the_token_it_was_sent_with(gateway: Gateway) -> None:
    with GatewayClient(str(gateway.http.base_url), "s") as client:
        list(client.pages(client.execute("ALTER MATERIALIZED TABLE daily SUSPEND")))

    [(statement, context)] = gateway.commands.executed
    assert (type(statement), context.caller) == (SuspendTable, "anna")


def test_describe_and_ledger_say_whose_token_did_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = ManagerWorld()
    world.sql(DAILY)
    world.context = replace(world.context, caller="anna")

    world.sql("ALTER MATERIALIZED TABLE daily REFRESH")
    world.sql("ALTER MATERIALIZED TABLE daily SUSPEND")

    assert world.table().status_by == "anna"
    assert [
        (row["kind"], row["requested by"]) for row in world.show("SHOW REFRESHES FOR daily EXTENDED")
    ] == [
        ("MANUAL", "anna"),
        ("INITIAL", None),
    ]
    changes = [vars(record) for record in caplog.records if getattr(record, "action", "") == "table_changed"]
    assert [(each["by"], each["statement"], each["table"]) for each in changes] == [
        ("SQL", "CreateMaterializedTable", "lake.default.daily"),
        ("anna", "RefreshTable", "lake.default.daily"),
        ("anna", "SuspendTable", "lake.default.daily"),
    ]


# ----------------------------------------------------------------------------------- sessions of other tokens


# Every endpoint of a session and of its operations and jobs, in each version that has it.
OF_SESSIONS = [
    ("GET", ""),
    ("DELETE", ""),
    ("POST", "/heartbeat"),
    ("POST", "/statements"),
    ("POST", "/configure-session"),
    ("GET", "/complete-statement"),
    ("GET", "/operations/{}/result/0"),
    ("POST", "/operations/{}/cancel"),
    ("DELETE", "/operations/{}/close"),
    ("GET", "/plans/mine"),
    ("PUT", "/plans/mine"),
    ("POST", REFRESH),
]


@pytest.mark.parametrize(
    "spelling", [str, str.upper, lambda handle: handle.replace("-", ""), "urn:uuid:{}".format]
)
@pytest.mark.parametrize("other", ["s", "f"])
def test_a_session_is_that_of_the_token_that_opened_it(gateway: Gateway, other: str, spelling: Any) -> None:
    body = {"properties": {"my.key": "mine"}}
    handle = gateway.http.post("/v3/sessions", json=body, headers=as_("b")).json()["sessionHandle"]
    operation = gateway.begin_as(f"/v3/sessions/{handle}", "SELECT 1", as_("b"))

    refused = {
        (method, path): gateway.http.request(
            method, f"/v3/sessions/{spelling(handle)}{path.format(operation)}", headers=as_(other)
        )
        for method, path in OF_SESSIONS
    }

    assert {answer.status_code for answer in refused.values()} == {403}
    name = {"s": "anna", "f": "airflow"}[other]
    assert refused["GET", ""].json()["errors"] == [
        f"Forbidden: session {handle} was opened with another token than '{name}'; "
        "open one with POST /sessions, or send a token with the role admin."
    ]
    assert "mine" not in refused["GET", ""].text
    own = gateway.http.get(f"/v3/sessions/{handle}/operations/{operation}/result/0", headers=as_("b"))
    assert (own.status_code, own.json()["resultType"]) == (200, "PAYLOAD")


def test_an_admin_uses_and_closes_the_session_of_any_token(gateway: Gateway) -> None:
    handle = gateway.http.post("/v1/sessions", headers=as_("s")).json()["sessionHandle"]

    shown = status(gateway, "a", "GET", f"/v3/sessions/{handle}")
    closed = status(gateway, "a", "DELETE", f"/v3/sessions/{handle}")

    assert (shown, closed, len(gateway.sessions)) == (200, 200, 0)


def test_a_scheduler_finds_its_refresh_in_any_session_of_its_own(gateway: Gateway) -> None:
    run = gateway.runs.queue().run_id
    handle = gateway.http.post("/v3/sessions", headers=as_("f")).json()["sessionHandle"]

    told = gateway.http.get(f"/v3/sessions/{handle}/operations/{run}/status", headers=as_("f"))

    assert (told.status_code, told.json()["status"]) == (200, "PENDING")


def test_a_monitor_reads_the_status_of_operations_in_the_sessions_of_others_alone(gateway: Gateway) -> None:
    handle = gateway.http.post("/v3/sessions", headers=as_("s")).json()["sessionHandle"]
    operation = gateway.begin_as(f"/v3/sessions/{handle}", "SELECT 1", as_("s"))
    path = f"/v3/sessions/{handle}/operations/{operation}"

    assert status(gateway, "r", "GET", f"{path}/status") == 200
    assert status(gateway, "r", "GET", f"{path}/result/0") == 403


def test_a_session_that_is_gone_is_missing_to_every_token_and_not_forbidden(gateway: Gateway) -> None:
    handle = gateway.http.post("/v3/sessions", headers=as_("s")).json()["sessionHandle"]
    gateway.sessions.close(handle)

    answer = gateway.http.post(f"/v3/sessions/{handle}/heartbeat", headers=as_("f"))

    assert answer.headers["Freshtable-Error"] == "SESSION_NOT_FOUND"


def test_to_ask_for_the_session_of_another_token_does_not_keep_it_alive(gateway: Gateway) -> None:
    handle = gateway.http.post("/v3/sessions", headers=as_("s")).json()["sessionHandle"]
    gateway.clock.advance(timedelta(minutes=11))

    status(gateway, "f", "POST", f"/v3/sessions/{handle}/heartbeat")

    assert gateway.sessions.expire_idle() == [handle]


# --------------------------------------------------------------------------------------------- without tokens


@pytest.fixture
def open_gateway(gateway: Gateway, switch: Any) -> httpx.Client:
    switch.app = app_of(replace(gateway.services, hosts=("freshtable.example",)))
    return gateway.http


@pytest.mark.parametrize(
    "host", ["evil.example:8083", "127.evil.example", "localhost.evil.example", "10.0.0.7", "[x", ""]
)
def test_a_page_that_gave_its_name_our_address_can_run_nothing_here(
    open_gateway: httpx.Client, host: str
) -> None:
    answer = open_gateway.post("/v3/sessions", headers={"Host": host, "Origin": f"http://{host}"})

    assert (answer.status_code, answer.headers["Freshtable-Error"]) == (403, "FORBIDDEN")
    assert f"not '{host}'" in answer.json()["errors"][0]
    assert "sql-gateway.security.allowed-hosts" in answer.json()["errors"][0]


@pytest.mark.parametrize(
    "host", ["localhost:8083", "127.0.0.1", "127.1.2.3:1", "[::1]:8083", "FRESHTABLE.example"]
)
def test_this_machine_and_the_names_that_are_allowed_are_answered(
    open_gateway: httpx.Client, host: str
) -> None:
    assert open_gateway.get("/v3/info", headers={"Host": host}).status_code == 200


def test_with_tokens_a_gateway_answers_to_any_name(gateway: Gateway) -> None:
    assert gateway.http.get("/v3/info", headers={"Host": "gateway.example", **as_("r")}).status_code == 200
