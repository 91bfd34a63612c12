from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import httpx
import pytest

from mt_core import __version__
from mt_core.errors import PortInUse
from mt_core.gateway.application import build_app
from mt_core.gateway.http.server import GatewayServer, listen
from tests.support.gateway.statements import Gateway, root_cause


def test_a_session_shows_its_properties_over_the_defaults_with_secrets_masked(gateway: Gateway) -> None:
    session = gateway.open(**{"table.local-time-zone": "Europe/Rome", "jdbc.password": "hunter2"})

    answer = gateway.http.get(session)

    assert answer.json() == {
        "properties": {
            "execution.runtime-mode": "batch",
            "jdbc.password": "***",
            "table.local-time-zone": "Europe/Rome",
        }
    }


def test_a_session_opens_without_a_body_and_with_unknown_fields(gateway: Gateway) -> None:
    without = gateway.http.post("/sessions")
    unknown = gateway.http.post(
        "/v3/sessions", json={"sessionName": None, "planner": "blink", "properties": None}
    )

    assert [answer.status_code for answer in (without, unknown)] == [200, 200]
    assert [list(answer.json()) for answer in (without, unknown)] == [["sessionHandle"], ["sessionHandle"]]
    assert without.headers["content-type"] == "application/json; charset=UTF-8"


def test_a_closed_session_is_gone_and_its_running_query_is_cancelled(gateway: Gateway) -> None:
    session, hold = gateway.open(), gateway.engine.hold("SELECT 1")
    gateway.begin(session, "SELECT 1")
    hold.wait_entered()

    first, second = gateway.http.delete(session), gateway.http.delete(session)

    assert (first.status_code, first.json()) == (200, {"status": "CLOSED"})
    assert second.status_code == 500
    assert second.headers["freshtable-error"] == "SESSION_NOT_FOUND"
    assert len(gateway.engine.canceled) == 1
    assert gateway.engine.closed_sessions == [session.rpartition("/")[2]]


def test_one_session_more_than_allowed_is_refused_naming_the_setting(gateway: Gateway) -> None:
    for _ in range(3):
        gateway.open()

    refused = gateway.http.post("/v3/sessions")

    assert refused.status_code == 500
    assert root_cause(refused) == (
        "SessionLimit: 3 sessions are open, which is the limit; "
        "close one, or raise sql-gateway.session.max-num."
    )


def test_a_heartbeat_keeps_a_session_that_would_expire(gateway: Gateway) -> None:
    kept, forgotten = gateway.open(), gateway.open()
    gateway.clock.advance(timedelta(minutes=9))
    heartbeat = gateway.http.post(f"{kept}/heartbeat")
    gateway.clock.advance(timedelta(minutes=1))

    expired = gateway.sessions.expire_idle()

    assert heartbeat.json() == {}
    assert expired == [forgotten.rpartition("/")[2]]
    assert [gateway.http.get(session).status_code for session in (kept, forgotten)] == [200, 500]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v9/info"),
        ("GET", "/nowhere"),
        ("PUT", "/v3/sessions"),
        ("GET", "/v5/info"),
        ("GET", "/V4/info"),
        ("GET", "/docs"),
        ("GET", "/v3/sessions/"),
    ],
)
def test_an_unknown_path_version_or_method_is_not_found(gateway: Gateway, method: str, path: str) -> None:
    answer = gateway.http.request(method, path)

    assert (answer.status_code, answer.json()["errors"]) == (404, [f"Not found: {path}"])


@pytest.mark.parametrize("path", ["/v3/sessions/abc", "/v3/sessions/abc/operations/1/status"])
def test_a_handle_that_is_no_uuid_is_a_bad_request(gateway: Gateway, path: str) -> None:
    answer = gateway.http.get(path)

    assert (answer.status_code, answer.headers["freshtable-error"]) == (400, "REQUEST_INVALID")
    assert 'Cannot resolve path parameter (session_handle) from value "abc".' in answer.json()["errors"][0]


@pytest.mark.parametrize("body", ["{", "[]", '{"properties": 3}', '{"sessionName": 7}'])
def test_a_body_that_does_not_fit_is_a_bad_request(gateway: Gateway, body: str) -> None:
    answer = gateway.http.post("/v3/sessions", content=body)

    assert (answer.status_code, list(answer.json()), len(gateway.sessions)) == (400, ["errors"], 0)


def test_every_call_on_an_unknown_session_is_an_error_naming_it(gateway: Gateway) -> None:
    handle, operation = str(uuid4()), str(uuid4())
    base = f"/v3/sessions/{handle}"
    calls = [
        ("GET", base),
        ("POST", f"{base}/heartbeat"),
        ("POST", f"{base}/statements"),
        ("GET", f"{base}/operations/{operation}/status"),
        ("GET", f"{base}/operations/{operation}/result/0"),
        ("POST", f"{base}/operations/{operation}/cancel"),
        ("DELETE", f"{base}/operations/{operation}/close"),
    ]

    answers = [gateway.http.request(method, path) for method, path in calls]

    assert [answer.status_code for answer in answers] == [500] * len(calls)
    assert {answer.headers["freshtable-error"] for answer in answers} == {"SESSION_NOT_FOUND"}
    assert all(
        root_cause(answer).startswith(f"SessionNotFound: Session '{handle}' does not exist")
        for answer in answers
    )


def test_the_api_versions_are_told_on_v1_too(gateway: Gateway) -> None:
    answers = [
        gateway.http.get(path).json() for path in ("/v1/api_versions", "/v3/api_versions", "/api_versions")
    ]

    assert answers == [{"versions": ["V1", "V2", "V3", "V4"]}] * 3
    assert gateway.http.get("/v3/info").json() == {"productName": "Freshtable", "version": __version__}


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic first", "Bearer", "Bearer firstt"])
def test_without_one_of_the_tokens_nothing_is_answered(guarded_gateway: Gateway, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}

    answer = guarded_gateway.http.post("/v3/sessions", headers=headers)

    assert answer.status_code == 401
    assert (answer.headers["www-authenticate"], answer.headers["freshtable-error"]) == (
        "Bearer",
        "UNAUTHORIZED",
    )
    assert [list(answer.json()), answer.json()["errors"][0][:13]] == [["errors"], "Unauthorized:"]
    assert len(guarded_gateway.sessions) == 0


@pytest.mark.parametrize("header", ["Bearer first", "bearer second"])
def test_any_of_the_tokens_lets_in(guarded_gateway: Gateway, header: str) -> None:
    answer = guarded_gateway.http.post("/v3/sessions", headers={"Authorization": header})

    assert answer.status_code == 200


def test_a_port_in_use_is_named_with_the_setting_to_choose_another() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(
            PortInUse, match=rf"127\.0\.0\.1:{port} is in use.*-D sql-gateway\.endpoint\.rest\.port="
        ):
            listen("127.0.0.1", port)


def test_a_stopped_gateway_frees_its_port(gateway: Gateway) -> None:
    server = GatewayServer(build_app(gateway.services), listen("127.0.0.1", 0))
    server.start()
    url = httpx.URL(server.url)
    answer = httpx.get(f"{server.url}/info")

    server.stop()
    server.stop()

    assert (answer.status_code, url.host) == (200, "127.0.0.1")
    assert url.port
    with listen(url.host, url.port) as again:
        assert again.getsockname() == (url.host, url.port)


# What Flink's sql-client opens its session with: all of its config.yaml, misspelt keys
# and other products' among them.
CLIENTS_OWN = {
    "$internal.deployment.config-dir": "/opt/flink/conf",
    "execution.runtime-mode": "streaming",
    "jobmanager.rpc.port": "6123",
    "parallelism.default": "one",
    "sql-gateway.endpoint.rest.address": "localhost",
    "table.exec.state.tll": "1 h",
    "table.exec.source.idle-timeout": "banana",
}


def test_a_client_opens_its_session_with_its_whole_configuration(gateway: Gateway) -> None:
    session = gateway.open(**CLIENTS_OWN)

    assert gateway.http.get(session).json() == {"properties": CLIENTS_OWN}
    assert gateway.run(session, "SELECT 1").status_code == 200


def test_a_client_that_sets_streaming_and_does_not_wait_has_it_for_its_next_statement(
    gateway: Gateway,
) -> None:
    session = gateway.open()
    gateway.begin(session, "SET 'execution.runtime-mode' = 'streaming'")

    after = gateway.run(session, "SELECT 1")

    assert after.status_code == 200
    assert [query.text for query in gateway.engine.analysed] == ["SELECT 1"]
    assert gateway.http.get(session).json() == {"properties": {"execution.runtime-mode": "streaming"}}


@pytest.mark.parametrize(
    ("key", "value", "refusal"),
    [
        (
            "table.exec.state.ttl",
            "banana",
            "table.exec.state.ttl: 'banana' (the session) cannot be used; expected a duration",
        ),
        (
            "table.exec.state.tll",
            "1 h",
            "There is no property table.exec.state.tll; did you mean table.exec.state.ttl?",
        ),
    ],
)
def test_a_mistake_in_a_property_of_flink_is_told_at_set_and_changes_nothing(
    gateway: Gateway, key: str, value: str, refusal: str
) -> None:
    session, statement = gateway.open(), f"SET '{key}' = '{value}'"
    before = gateway.http.get(session).json()

    configured = gateway.http.post(f"{session}/configure-session", json={"statement": statement})
    run = gateway.run(session, statement)

    assert [root_cause(each).startswith(f"RequestInvalid: {refusal}") for each in (configured, run)] == [
        True,
        True,
    ]
    assert gateway.http.get(session).json() == before


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("table.exec.state.tll", "1 h", "did you mean table.exec.state.ttl?"),
        ("table.exec.state.ttl", "soon", "a duration such as"),
        ("sql-gateway.session.max-num", "1", "is a setting of the whole gateway"),
    ],
)
def test_the_config_of_a_statement_is_refused_where_it_would_have_no_effect(
    gateway: Gateway, key: str, value: str, expected: str
) -> None:
    session = gateway.open()

    config = {"statement": "SELECT 1", "executionConfig": {key: value}}
    begun = gateway.http.post(f"{session}/statements", json=config).json()["operationHandle"]
    refusal = gateway.result(f"{session}/operations/{begun}")

    assert expected in root_cause(refusal)
    assert gateway.engine.executed == []


@pytest.mark.parametrize(
    "config",
    [
        None,
        {},
        {"pipeline.name": "x", "execution.runtime-mode": "BATCH", "table.exec.state.ttl": "1 h", "a": 1},
    ],
)
def test_what_clients_of_flink_send_with_a_statement_is_taken(gateway: Gateway, config: object) -> None:
    session = gateway.open()

    body = {"statement": "SELECT 1", "executionConfig": config}
    begun = gateway.http.post(f"{session}/statements", json=body).json()["operationHandle"]

    assert gateway.result(f"{session}/operations/{begun}").status_code == 200


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("execution.timeout", "soon", "a duration such as"),
        ("table.local-time-zone", "Mars/Base", "an IANA name such as Europe/Berlin"),
        ("execution.runtime-mode", "sometimes", "batch or streaming"),
    ],
)
def test_a_property_that_cannot_be_right_is_refused_wherever_it_is_set(
    gateway: Gateway, key: str, value: str, expected: str
) -> None:
    session, statement = gateway.open(), f"SET '{key}' = '{value}'"
    before = gateway.http.get(session).json()
    config = {"statement": "SELECT 1", "executionConfig": {key: value}}

    opened = gateway.http.post("/v3/sessions", json={"properties": {key: value}})
    configured = gateway.http.post(f"{session}/configure-session", json={"statement": statement})
    begun = gateway.http.post(f"{session}/statements", json=config).json()["operationHandle"]
    refusals = [
        root_cause(each)
        for each in (
            opened,
            configured,
            gateway.run(session, statement),
            gateway.result(f"{session}/operations/{begun}"),
        )
    ]

    assert [refusal.startswith(f"RequestInvalid: {key}: '{value}'") for refusal in refusals] == [True] * 4, (
        refusals
    )
    assert all(expected in refusal for refusal in refusals)
    assert opened.status_code == 400
    assert (gateway.http.get(session).json(), len(gateway.sessions)) == (before, 1)
