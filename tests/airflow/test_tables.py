"""Materialized tables whose workflows are DAGs of a real Airflow, from the gateway's side."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from dags.tests.stub_gateway import TOKEN
from mt_core.errors import TableNotCreated, WorkflowError
from mt_core.model.table import RefreshStatus
from scheduler_plugins.airflow.scheduler import AirflowScheduler
from tests.airflow.rest import ANSWERS_S, SOON_S
from tests.airflow.settings import JWT_SECRET
from tests.airflow.stack import AirflowStack
from tests.support.gateway.with_airflow import LiveGateway

DAG = "mt__lake.shop.daily"
DAILY = "INTERVAL '1' DAY"
CREATE = "CREATE MATERIALIZED TABLE {} FRESHNESS = {} REFRESH_MODE = FULL AS SELECT * FROM lake.shop.orders"


@pytest.fixture
def gateway(airflow: AirflowStack, gateway_port: int) -> Iterator[LiveGateway]:
    login = {"user-name": airflow.user, "password": airflow.password}
    options = {"endpoint": airflow.url, "request-timeout": f"{ANSWERS_S} s", **login}
    with closing(LiveGateway(gateway_port, TOKEN, options)) as live:
        yield live
        for table in list(live.show("SHOW MATERIALIZED TABLES")):
            live.sql(f"DROP MATERIALIZED TABLE {table['materialized table']}")


def test_a_table_lives_as_a_dag_from_create_to_drop(airflow: AirflowStack, gateway: LiveGateway) -> None:
    gateway.sql(CREATE.format("daily", DAILY))
    created = airflow.rest.dag(DAG)
    gateway.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
    suspended = airflow.rest.dag(DAG)
    gateway.sql("ALTER MATERIALIZED TABLE daily SET FRESHNESS = INTERVAL '90' MINUTE")
    rescheduled = airflow.rest.dag(DAG)
    gateway.sql("ALTER MATERIALIZED TABLE daily SET SCHEDULE CRON '0 6 * * MON-FRI'")
    by_cron = airflow.rest.dag(DAG)
    gateway.sql("ALTER MATERIALIZED TABLE daily RESUME WITH ('format' = 'orc')")
    resumed = airflow.rest.dag(DAG)
    facts = gateway.facts("daily")
    outcome = gateway.sql("DROP MATERIALIZED TABLE daily")

    assert created["timetable_summary"].startswith("0 0 * * * (UTC) since ")
    assert (created["is_paused"], suspended["is_paused"], rescheduled["is_paused"], resumed["is_paused"]) == (
        False,
        True,
        True,
        False,
    )
    assert rescheduled["timetable_summary"].startswith("every 90 MINUTE (UTC) since ")
    assert by_cron["timetable_summary"].startswith("0 6 * * MON-FRI (UTC) since ")
    assert facts["workflow"] == "ACTIVE in airflow"
    assert str(facts["next run"]).endswith(" 06:00:00")
    assert outcome.warnings == ()
    assert airflow.rest.dag(DAG) == {}


def test_a_pause_in_the_ui_suspends_the_table_and_a_deleted_dag_comes_back(
    airflow: AirflowStack, gateway: LiveGateway
) -> None:
    gateway.sql(CREATE.format("daily", DAILY))
    airflow.rest.pause(DAG, True)
    facts = gateway.facts("daily")
    airflow.rest.ask("DELETE", f"/dags/{DAG}")

    done = gateway.reconcile()

    assert facts["status"].startswith("SUSPENDED, by ")
    assert done == ["recreated the workflow of lake.shop.daily"]
    assert airflow.rest.dag(DAG)["is_paused"] is True
    assert gateway.table("daily").status is RefreshStatus.SUSPENDED


def test_a_run_by_hand_and_a_backfill_refresh(airflow: AirflowStack, gateway: LiveGateway) -> None:
    gateway.sql(CREATE.format("daily", DAILY))

    run = airflow.rest.trigger(DAG)
    airflow.rest.wait(lambda: airflow.rest.run(DAG, run).get("state") == "success", SOON_S)
    airflow.rest.backfill(DAG, "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z")
    airflow.rest.wait(lambda: len(gateway.refreshes("daily")) >= 4, SOON_S)

    found = sorted((row["schedule time"], row["kind"]) for row in gateway.refreshes("daily"))
    assert found[:3] == [(f"2026-01-0{day} 00:00:00", "BACKFILL") for day in (1, 2, 3)]
    assert "MANUAL" in [kind for _, kind in found[3:]]


def test_a_table_is_dropped_while_its_dag_runs(airflow: AirflowStack, gateway: LiveGateway) -> None:
    gateway.sql(CREATE.format("daily", DAILY))
    for _ in range(2):
        airflow.rest.trigger(DAG)

    outcome = gateway.sql("DROP MATERIALIZED TABLE daily")
    gateway.reconcile()

    assert airflow.rest.dag(DAG) == {}, outcome.warnings


def test_a_name_can_be_used_again_at_once(airflow: AirflowStack, gateway: LiveGateway) -> None:
    for _ in range(3):
        gateway.sql(CREATE.format("daily", DAILY))
        gateway.sql("DROP MATERIALIZED TABLE daily")

    assert airflow.rest.dag(DAG) == {}


@pytest.mark.kills
def test_airflow_away_at_create_and_at_drop(breakable_airflow: AirflowStack, gateway: LiveGateway) -> None:
    airflow = breakable_airflow
    gateway.sql(CREATE.format("daily", DAILY))
    airflow.stop("api-server")
    try:
        gateway.work.scheduler_watch.poll()
        trouble = gateway.work.scheduler_watch.trouble()
        with pytest.raises(TableNotCreated, match="nothing was left behind"):
            gateway.sql(CREATE.format("other", DAILY))
        with pytest.raises(WorkflowError, match="cannot be reached"):
            gateway.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
        outcome = gateway.sql("DROP MATERIALIZED TABLE daily")
    finally:
        airflow.start("api-server")

    done = gateway.reconcile()

    assert f"Airflow at {airflow.url} cannot be reached" in str(trouble)
    assert "is dropped; its leftovers are removed as soon as possible" in outcome.warnings[0]
    assert done == ["removed what was left of lake.shop.daily"]
    assert airflow.rest.dag(DAG) == {}


@pytest.mark.slow
def test_a_scheduler_that_died_is_named_with_its_last_heartbeat_until_it_runs_again(
    breakable_airflow: AirflowStack, gateway: LiveGateway
) -> None:
    airflow = breakable_airflow
    watch = gateway.work.scheduler_watch

    def trouble() -> str:
        watch.poll()
        return str(watch.trouble())

    airflow.rest.wait(lambda: not trouble(), SOON_S)
    airflow.kill("scheduler")
    killed = datetime.now(UTC)
    try:
        # Airflow notices after 30 seconds without a heartbeat.
        ill = airflow.rest.wait(trouble, SOON_S)
    finally:
        airflow.start("scheduler")

    airflow.rest.wait(lambda: not trouble(), SOON_S)
    assert ill.endswith(
        "runs without a healthy scheduler: DAGs and refreshes may be late; "
        "make sure that `airflow scheduler` runs"
    )
    since = datetime.fromisoformat(
        ill.removeprefix("airflow is UNHEALTHY since ").partition(" UTC")[0]
    ).replace(tzinfo=UTC)
    assert killed - timedelta(seconds=30) < since <= killed


def test_who_paused_a_dag_is_read_from_the_event_log(airflow: AirflowStack, gateway_port: int) -> None:
    options = {"endpoint": airflow.url, "token": airflow.rest.token()}
    with closing(LiveGateway(gateway_port, TOKEN, options)) as gateway:
        gateway.sql(CREATE.format("daily", DAILY))
        airflow.rest.pause(DAG, True)

        facts = gateway.facts("daily")
        gateway.sql("DROP MATERIALIZED TABLE daily")

    assert facts["status"].startswith(f"SUSPENDED, by {airflow.user} at ")


@pytest.mark.parametrize(
    ("secret", "lives_s", "answer"),
    [
        pytest.param(JWT_SECRET, -60, httpx.codes.UNAUTHORIZED, id="too old"),
        pytest.param("another secret" * 8, 600, httpx.codes.FORBIDDEN, id="signed with another secret"),
    ],
)
def test_a_token_that_airflow_does_not_accept_any_more_is_renewed(
    airflow: AirflowStack, gateway: LiveGateway, secret: str, lives_s: int, answer: int
) -> None:
    token = signed_anew(airflow.rest.token(), secret, datetime.now(UTC) + timedelta(seconds=lives_s))
    assert isinstance(gateway.scheduler, AirflowScheduler)
    connection = gateway.scheduler._connection
    assert connection is not None
    connection.client._token = token

    gateway.sql(CREATE.format("daily", DAILY))

    refused = httpx.get(f"{airflow.url}/api/v2/dags", headers={"Authorization": f"Bearer {token}"})
    assert refused.status_code == answer
    assert airflow.rest.dag(DAG)["is_paused"] is False


def signed_anew(token: str, secret: str, expires: datetime) -> str:
    """Return a JSON web token with the same claims that expires then."""
    header, claims, _ = token.split(".")
    claims = _text(json.dumps(json.loads(_bytes(claims)) | {"exp": int(expires.timestamp())}).encode())
    digest = "sha" + json.loads(_bytes(header))["alg"].removeprefix("HS")
    return f"{header}.{claims}.{_text(hmac.digest(secret.encode(), f'{header}.{claims}'.encode(), digest))}"


def _text(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_several_tables_are_read_back_in_bulk(airflow: AirflowStack, gateway: LiveGateway) -> None:
    for number in range(6):
        gateway.sql(CREATE.format(f"t{number}", DAILY))
    gateway.reconcile()
    airflow.rest.pause("mt__lake.shop.t3", True)

    rows = gateway.show("SHOW MATERIALIZED TABLES EXTENDED")

    assert [row["status"] for row in rows] == ["ACTIVATED"] * 3 + ["SUSPENDED"] + ["ACTIVATED"] * 2
    assert {row["as of"] for row in rows} == {None}
