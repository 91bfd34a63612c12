"""What `freshtable doctor` says of an Airflow."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mt_core.clock import SystemClock
from mt_core.model.finding import Finding, Level
from scheduler_plugins.airflow.diagnosis import Diagnosis
from scheduler_plugins.airflow.scheduler import AirflowScheduler
from scheduler_plugins.airflow.settings import read_settings
from tests.unit.airflow.airflow_world import AirflowWorld


def diagnosis(world: AirflowWorld, **options: str) -> list[Finding]:
    login = {"endpoint": world.server.url, "user-name": "svc", "password": "s3cret-svc"}
    return list(AirflowScheduler().diagnose(login | options, SystemClock()))


def problems(world: AirflowWorld, **options: str) -> list[tuple[str, str, str]]:
    found = diagnosis(world, **options)
    return [(each.subject, each.text, each.way_out) for each in found if each.level is Level.PROBLEM]


def test_an_airflow_that_has_everything_is_said_to_be_well_and_is_not_changed(world: AirflowWorld) -> None:
    found = diagnosis(world)

    where = f"Airflow at {world.server.url}"
    assert [(each.level, each.subject, each.text) for each in found] == [
        (Level.OK, "scheduler", f"{where} answers and accepts the gateway's user"),
        (Level.OK, "airflow", "it has Freshtable's plug-in and bundle"),
        (Level.OK, "clock", f"agrees with the clock of {where}"),
    ]
    assert {request.partition(" ")[0] for request in world.airflow.requests} <= {"GET", "POST"}
    assert world.airflow.dags == {}


def test_an_airflow_that_is_away_has_the_command_that_starts_it(world: AirflowWorld) -> None:
    world.server.stop()

    [(subject, text, way_out)] = problems(world, **{"request-timeout": "1 s"})

    world.server.start()
    assert (subject, way_out) == ("scheduler", "airflow api-server")
    assert f"Airflow at {world.server.url} cannot be reached" in text


@pytest.mark.parametrize(("configured", "used"), [("1 s", 1.0), ("10 min", 4.0)])
def test_no_answer_is_waited_for_longer_than_a_reader_waits(
    world: AirflowWorld, configured: str, used: float
) -> None:
    login = {"endpoint": world.server.url, "user-name": "svc", "password": "x", "request-timeout": configured}

    made = Diagnosis.of(read_settings(login), SystemClock())
    made.client.close()

    assert made.preflight.settings.request_timeout_s == used


def test_a_wrong_password_is_named_without_it(world: AirflowWorld) -> None:
    [(subject, text, way_out)] = problems(world, password="wrong-one")

    assert subject == "scheduler"
    assert "rejects user 'svc'" in text
    assert "wrong-one" not in text
    assert "Correct workflow-scheduler.airflow.user-name and workflow-scheduler.airflow.password" in text
    assert way_out == "correct workflow-scheduler.airflow.*, or the rights of its user in Airflow"


def test_an_airflow_that_is_too_old_is_named(world: AirflowWorld) -> None:
    world.airflow.version = "2.11.2"

    [(subject, text, way_out)] = problems(world)

    assert (subject, way_out) == ("scheduler", "pip install 'apache-airflow>=3.3'")
    assert "is of version 2.11.2; 3.3 or newer is needed" in text


def test_a_bundle_and_a_package_that_are_missing_are_told_apart(world: AirflowWorld) -> None:
    world.airflow.definitions = None
    [(_, without_bundle, configure)] = problems(world)
    world.airflow.packages.remove("freshtable-airflow")
    [(subject, without_package, install)] = problems(world)

    assert subject == "airflow"
    assert "but not the DAG mt__shard_00 of its bundle" in without_bundle
    assert "DAG_BUNDLE_CONFIG_LIST" in configure
    assert "does not have the package freshtable-airflow" in without_package
    assert install.startswith("pip install --no-deps ./dags")


def test_a_component_that_never_ran_is_a_problem_and_one_that_is_ill_a_note(world: AirflowWorld) -> None:
    world.airflow.health["triggerer"] = None
    never = problems(world)
    world.airflow.health["triggerer"] = "unhealthy"
    ill = diagnosis(world)

    assert [(subject, way_out) for subject, _text, way_out in never] == [("airflow", "airflow triggerer")]
    assert [each.text for each in ill if each.level is Level.NOTE] == [
        f"Airflow at {world.server.url} runs without a healthy triggerer: DAGs and refreshes may be late; "
        "make sure that `airflow triggerer` runs"
    ]


def test_a_component_that_died_has_a_note_that_says_since_when(world: AirflowWorld) -> None:
    world.airflow.health["scheduler"] = "unhealthy"
    world.airflow.heartbeats["scheduler"] = datetime(2026, 3, 1, 11, 0, tzinfo=UTC)

    [note] = [each.text for each in diagnosis(world) if each.level is Level.NOTE]

    assert note.endswith("make sure that `airflow scheduler` runs (since 2026-03-01 11:00:00 UTC)")


@pytest.mark.parametrize("path", ["GET /api/v2/providers", "GET /api/v2/monitor/health"])
def test_a_refusal_of_any_question_is_a_finding(world: AirflowWorld, path: str) -> None:
    world.airflow.definitions = None
    world.airflow.fail(path, 418, {"detail": "no tea"})

    [(subject, text, _way_out)] = problems(world)

    assert subject == "scheduler"
    assert "418: no tea" in text
