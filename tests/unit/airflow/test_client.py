"""Login, safe repeats, and errors that say what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import certifi
import pytest

from mt_core.errors import WorkflowError
from scheduler_plugins.airflow import mt_workflow_schedulers
from scheduler_plugins.airflow.client import AirflowClient
from scheduler_plugins.airflow.scheduler import AirflowScheduler
from scheduler_plugins.airflow.settings import read_settings
from tests.support.fake_airflow_server import FakeAirflowServer
from tests.unit.airflow.airflow_world import DAG, AirflowWorld


def test_one_login_serves_all_calls(world: AirflowWorld) -> None:
    world.open()
    handler = world.create()
    world.suspend(handler)

    assert world.airflow.logins == 1


def test_a_token_that_expired_is_renewed(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.airflow.expire_tokens()

    opened.suspend(handler)

    assert opened.dag.is_paused
    assert opened.airflow.logins == 2


def test_a_token_that_was_signed_with_another_secret_is_renewed(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.airflow.forget_tokens()

    opened.suspend(handler)

    assert opened.dag.is_paused
    assert opened.airflow.logins == 2


def test_missing_rights_are_no_reason_to_log_in_again(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.airflow.fail("PATCH", 403, {"detail": "Forbidden"})

    error = opened.refused(opened.suspend, handler)

    assert "lacks rights for user 'svc': PATCH /api/v2/dags/mt__lake.sales.daily is forbidden" in str(error)
    assert "give it the role Op" in str(error)
    assert opened.airflow.logins == 1


def test_a_password_that_was_changed_is_named(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.airflow.expire_tokens()
    opened.airflow.users["svc"] = "another"

    error = opened.refused(opened.suspend, handler)

    assert "rejects user 'svc': Invalid credentials" in str(error)
    assert "workflow-scheduler.airflow.user-name and workflow-scheduler.airflow.password" in str(error)
    assert "s3cret" not in str(error)


@pytest.mark.parametrize("method", ["PATCH", "PUT", "GET /api/v2/dags/mt__lake"])
def test_a_busy_database_is_tried_again(opened: AirflowWorld, method: str) -> None:
    handler = opened.create()
    opened.airflow.fail(method, times=2)

    opened.resume(handler, {"format": "avro"})

    assert opened.dag.definition.dynamic_options == {"format": "avro"}


def test_a_database_that_stays_busy_is_an_error(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.airflow.fail("PATCH", times=3)

    error = opened.refused(opened.suspend, handler)

    assert "answered PATCH /api/v2/dags/mt__lake.sales.daily with 500: Database error" in str(error)
    assert opened.definitions.all()[0].paused is False


def test_a_gateway_in_between_that_has_no_server_is_tried_again(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.airflow.fail("PATCH", 503, {"detail": "no server"}, times=2)

    opened.suspend(handler)

    assert opened.dag.is_paused


def test_any_other_refusal_is_told_at_once(opened: AirflowWorld) -> None:
    handler = opened.create()
    opened.airflow.fail("PATCH", 422, {"detail": [{"msg": "no"}]})
    opened.airflow.requests.clear()

    error = opened.refused(opened.suspend, handler)

    assert "with 422: [{'msg': 'no'}]" in str(error)
    assert opened.airflow.asked("PATCH") == 1


def test_a_parse_that_waits_already_is_as_good(opened: AirflowWorld) -> None:
    opened.airflow.fail("PUT", 409, {"detail": "A parsing request for this Dag file already exists"})

    handler = opened.create()

    assert (handler.location["dag_id"], opened.dag.is_paused, opened.airflow.asked("PUT")) == (DAG, False, 2)


def test_a_redirect_is_refused_and_its_target_never_sees_the_token(world: AirflowWorld) -> None:
    elsewhere = FakeAirflowServer(world.airflow)
    elsewhere.start()
    world.open()
    handler = world.create()
    world.airflow.redirect("PATCH", f"{elsewhere.url}/api/v2/dags/{DAG}")

    error = world.refused(world.suspend, handler)
    elsewhere.stop()

    assert f"with 302, a redirect to {elsewhere.url}/api/v2/dags/{DAG}" in str(error)
    assert "set workflow-scheduler.airflow.endpoint to the URL at which Airflow itself answers" in str(error)
    assert elsewhere.served == 0
    assert not world.dag.is_paused


def test_a_client_that_is_closed_sends_nothing_more(world: AirflowWorld) -> None:
    settings = read_settings({"endpoint": world.server.url, "user-name": "svc", "password": "s3cret-svc"})
    client = AirflowClient(settings, world.clock)
    client.get("/dags")
    before = world.server.served

    client.close()

    with pytest.raises(WorkflowError, match="is closed"):
        client.get("/dags")
    assert world.server.served == before


@pytest.mark.parametrize("token", ["tökén-€", "a\nb"])
def test_a_token_that_no_header_can_have_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(WorkflowError) as caught:
        read_settings({"endpoint": "http://airflow:8080", "token": token})

    assert "workflow-scheduler.airflow.token has characters that no token has" in str(caught.value)
    assert token not in str(caught.value)


def test_a_ca_file_that_is_gone_is_an_error_of_the_workflow(world: AirflowWorld, tmp_path: Path) -> None:
    ca_file = tmp_path / "ca.pem"
    shutil.copyfile(certifi.where(), ca_file)
    options = {"endpoint": "https://127.0.0.1:1", "token": "jwt", "ca-file": str(ca_file)}
    client = AirflowClient(read_settings(options), world.clock)
    ca_file.unlink()

    with pytest.raises(WorkflowError, match=r"ca\.pem"):
        client.get("/dags")
    client.close()


def test_a_client_keeps_no_cookie_of_an_answer(world: AirflowWorld) -> None:
    settings = read_settings({"endpoint": world.server.url, "user-name": "svc", "password": "s3cret-svc"})
    client = AirflowClient(settings, world.clock)

    client.get("/dags")
    client.get("/dags")
    client.close()

    assert world.server.cookies == []


def test_a_proxy_of_the_environment_is_not_used(world: AirflowWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    world.open()

    assert world.airflow.logins == 1


@pytest.mark.parametrize("part", ["POST /auth/token", "PATCH"])
def test_an_airflow_that_answers_500_is_tried_again(opened: AirflowWorld, part: str) -> None:
    handler = opened.create()
    opened.airflow.expire_tokens()
    opened.airflow.fail(part, 500, {"detail": "Internal Server Error"}, times=2)

    opened.suspend(handler)

    assert opened.dag.is_paused


def test_a_dag_that_the_api_server_cannot_show_is_traced_to_the_missing_plug_in(opened: AirflowWorld) -> None:
    opened.airflow.plugin_loaded = False

    error = opened.refused(opened.create)

    assert "lacks our timetables: install freshtable-airflow where it runs" in str(error)


def test_a_scheduler_that_is_not_open_says_so() -> None:
    scheduler = AirflowScheduler()

    with pytest.raises(WorkflowError, match="is not open"):
        scheduler.describe_refresh_workflows([])


def test_the_plug_in_offers_the_scheduler() -> None:
    assert mt_workflow_schedulers() == [AirflowScheduler]
    assert AirflowScheduler.identifier == "airflow"


# --------------------------------------------------------------------------------------------------- settings

GOOD = {"endpoint": "http://airflow:8080/", "user-name": "svc", "password": "p"}


def test_settings_are_read_with_their_defaults() -> None:
    settings = read_settings(GOOD)

    assert (settings.endpoint, settings.dag_id_prefix, settings.publish_timeout_s) == (
        "http://airflow:8080",
        "mt__",
        60.0,
    )
    assert "password" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "web_url"),
    [
        ("", ""),
        ("https://data.example.com/airflow/", "https://data.example.com/airflow"),
        ("localhost:8080", "http://localhost:8080"),
    ],
)
def test_the_web_url_is_read_like_the_endpoint_and_may_be_left_out(text: str, web_url: str) -> None:
    assert read_settings(GOOD | {"web-url": text}).web_url == web_url


@pytest.mark.parametrize(
    ("text", "seconds"), [("500 ms", 0.5), ("10 s", 10.0), ("2min", 120.0), ("1 h", 3600.0), ("1.5 s", 1.5)]
)
def test_times_are_read_in_any_unit(text: str, seconds: float) -> None:
    assert read_settings(GOOD | {"request-timeout": text}).request_timeout_s == seconds


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "endpoint",
            "ftp://airflow:8080",
            "workflow-scheduler.airflow.endpoint is 'ftp://airflow:8080'; set a URL",
        ),
        ("endpoint", "http://", "workflow-scheduler.airflow.endpoint is"),
        ("endpoint", "http://airflow:port", "workflow-scheduler.airflow.endpoint is"),
        ("web-url", "javascript://x/%0aalert(1)", "workflow-scheduler.airflow.web-url is 'javascript:"),
        ("password", "", "set workflow-scheduler.airflow.user-name and workflow-scheduler.airflow.password"),
        ("dag-id-prefix", "mt/", "workflow-scheduler.airflow.dag-id-prefix is 'mt/'"),
        ("dag-id-prefix", "", "workflow-scheduler.airflow.dag-id-prefix is ''"),
        (
            "request-timeout",
            "soon",
            "workflow-scheduler.airflow.request-timeout is 'soon'; set a time such as",
        ),
        ("open-timeout", "-1 s", "workflow-scheduler.airflow.open-timeout is '-1 s'"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(key: str, value: str, message: str) -> None:
    with pytest.raises(WorkflowError) as caught:
        read_settings(GOOD | {key: value})

    assert message in str(caught.value)


def test_a_token_stands_for_user_and_password() -> None:
    settings = read_settings({"endpoint": "https://airflow", "token": "jwt"})

    assert (settings.token, settings.user_name) == ("jwt", "")


def test_a_token_that_is_given_is_used_and_an_old_one_is_named(world: AirflowWorld) -> None:
    token = world.airflow.log_in("anna", "s3cret-anna") or ""
    world.open(user_name="", password="", token=token)
    handler = world.create()
    world.airflow.expire_tokens()

    error = world.refused(world.suspend, handler)

    assert "rejects the token in workflow-scheduler.airflow.token: Token Expired" in str(error)
    assert "Get a new one for workflow-scheduler.airflow.token" in str(error)
    assert token not in str(error)


def test_a_certificate_file_that_cannot_be_read_is_named(world: AirflowWorld) -> None:
    assert "workflow-scheduler.airflow.ca-file: /nowhere.pem cannot be used" in world.refused_open(
        ca_file="/nowhere.pem"
    )


@pytest.mark.parametrize(
    "body", [{"message": "Sign in, please"}, [], "maintenance", {"dags": [{}], "total_entries": 1}]
)
def test_json_of_another_shape_is_an_error_that_names_the_endpoint(
    opened: AirflowWorld, body: object
) -> None:
    handlers = [
        opened.create(workflow_id=f"t{number}", identifier=f"lake.sales.t{number}") for number in range(8)
    ]
    opened.airflow.fail("GET /api/v2/dags", 200, body, times=10)  # type: ignore[arg-type]

    error = opened.refused(opened.describe, *handlers)

    assert "/api/v2/dags with unexpected JSON" in str(error)
    assert "endpoint is the URL of Airflow's api-server" in str(error)
