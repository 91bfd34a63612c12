"""Who may do what: by the role of a token, and by the name a gateway without tokens is called by."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import httpx
import pytest

from mt_core.access import parse_tokens
from mt_core.client.http import GatewayClient, Refresh
from mt_core.errors import GatewayError
from mt_core.gateway.application import build_app
from mt_core.gateway.http.routing import VersionRoutes
from mt_core.gateway.http.security import roles_of
from mt_core.sql.statements import SuspendTable
from tests.support.gateway.shared_app import app_of
from tests.support.gateway.statements import Gateway
from tests.support.manager_world import DAILY, ManagerWorld

TOKENS = parse_tokens("boss:admin:a,anna:sql:s,airflow:refresh:f,ops:read:r")
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
    ],
)
def test_a_role_is_let_in_to_what_it_is_for_and_nothing_else(
    gateway: Gateway, method: str, path: str, let_in: str
) -> None:
    session = gateway.sessions.open()
    operation = gateway.services.executor.submit(session, "SELECT 1")
    operation.wait(60)

    statuses = {
        secret: status(gateway, secret, method, path.format(session.handle, operation.handle)) for secret in "rfsa"
    }

    assert {secret for secret, found in statuses.items() if found not in (401, 403)} == set(let_in)


def test_every_endpoint_is_known_to_the_table_of_roles(gateway: Gateway) -> None:
    routes = next(route for route in build_app(gateway.services).router.routes if isinstance(route, VersionRoutes))

    for_sql = {path for method, path in routes.endpoints() if roles_of(method, path) == roles_of("POST", "/statements")}

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
    session = gateway.sessions.open().handle

    answer = gateway.http.post(f"/v3/sessions/{session}/statements", json={"statement": "SELECT 1"}, headers=as_("f"))

    assert (answer.status_code, answer.headers["Freshtable-Error"]) == (403, "FORBIDDEN")
    assert answer.json()["errors"] == [
        "Forbidden: token 'airflow' has the role refresh; this request needs a token with the role sql or admin."
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

    [table, setting] = [record for record in caplog.records if getattr(record, "action", "") == "statement_begun"]
    assert (table.by, table.statement) == ("anna", "ALTER_MATERIALIZED_TABLE")
    assert (setting.by, setting.statement) == ("anna", "SET")


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
    assert [(row["kind"], row["requested by"]) for row in world.show("SHOW REFRESHES FOR daily")] == [
        ("MANUAL", "anna"),
        ("INITIAL", None),
    ]
    changes = [record for record in caplog.records if getattr(record, "action", "") == "table_changed"]
    assert [(record.by, record.statement, record.table) for record in changes] == [
        ("SQL", "CreateMaterializedTable", "lake.default.daily"),
        ("anna", "RefreshTable", "lake.default.daily"),
        ("anna", "SuspendTable", "lake.default.daily"),
    ]


# ------------------------------------------------------------------------------------------------------ without tokens


@pytest.fixture
def open_gateway(gateway: Gateway, switch: Any) -> httpx.Client:
    switch.app = app_of(replace(gateway.services, hosts=("freshtable.example",)))
    return gateway.http


@pytest.mark.parametrize(
    "host", ["evil.example:8083", "127.evil.example", "localhost.evil.example", "10.0.0.7", "[x", ""]
)
def test_a_page_that_gave_its_name_our_address_can_run_nothing_here(open_gateway: httpx.Client, host: str) -> None:
    answer = open_gateway.post("/v3/sessions", headers={"Host": host, "Origin": f"http://{host}"})

    assert (answer.status_code, answer.headers["Freshtable-Error"]) == (403, "FORBIDDEN")
    assert f"not to '{host}'" in answer.json()["errors"][0]
    assert "sql-gateway.security.allowed-hosts" in answer.json()["errors"][0]


@pytest.mark.parametrize("host", ["localhost:8083", "127.0.0.1", "127.1.2.3:1", "[::1]:8083", "FRESHTABLE.example"])
def test_this_machine_and_the_names_that_are_allowed_are_answered(open_gateway: httpx.Client, host: str) -> None:
    assert open_gateway.get("/v3/info", headers={"Host": host}).status_code == 200


def test_with_tokens_a_gateway_answers_to_any_name(gateway: Gateway) -> None:
    assert gateway.http.get("/v3/info", headers={"Host": "gateway.example", **as_("r")}).status_code == 200
