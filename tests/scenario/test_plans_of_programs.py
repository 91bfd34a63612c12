"""Compiled plans of a program that shares no files with the gateway: it compiles, stores, edits, explains and
executes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mt_core.client import dbapi
from mt_core.model.job import JobStatus
from tests.scenario.test_compiled_plans import INSERT, ttls
from tests.scenario.test_compiled_plans import plans as plans
from tests.support.gateway.whole import WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway
from tests.support.plans import HOUR, deduplicate, scan

STREAMING = {"execution.runtime-mode": "streaming"}


@pytest.fixture
def connection(plans: WholeGateway) -> Iterator[dbapi.Connection]:
    with dbapi.connect(plans.process.server.url, properties=STREAMING) as connection:
        yield connection


def put(plans: WholeGateway, name: str, body: object) -> httpx.Response:
    headers = {"Freshtable-Errors": "json"}
    return plans.http.put(f"/v3/sessions/{plans.client.session}/plans/{name}", json=body, headers=headers)


def test_a_plan_is_compiled_and_executed_without_a_file(
    plans: WholeGateway, connection: dbapi.Connection
) -> None:
    plan = connection.compile_plan(INSERT)

    explained, job_id = plan.explain(), plan.execute()
    plans.watch_streams()

    assert json.loads(plan.as_json())["statements"] == [INSERT]
    assert "the plan can be executed" in explained
    assert plans.job(job_id)["status"] == JobStatus.RUNNING
    assert [Path(name).name.startswith("plan-") for name in plans.plans.files] == [True]


def test_the_ttls_of_a_plan_that_is_loaded_from_a_file_of_the_program_hold(
    plans: WholeGateway, connection: dbapi.Connection, tmp_path: Path
) -> None:
    file = tmp_path / "orders 1.json"
    connection.compile_plan(INSERT).write(file)
    file.write_text(file.read_text(encoding="utf-8").replace('"1 h"', '"2 h"', 1), encoding="utf-8")

    job_id = connection.load_plan(file).execute()
    again = connection.load_plan(file.read_text(encoding="utf-8"))

    plans.watch_streams()
    assert ttls(plans, job_id)[0][0] == 2 * HOUR
    assert again.as_json() == file.read_text(encoding="utf-8")


def test_a_job_goes_on_after_the_connection_of_its_plan(plans: WholeGateway) -> None:
    with dbapi.connect(plans.process.server.url, properties=STREAMING) as connection:
        job_id = connection.compile_plan(INSERT).execute()

    plans.watch_streams()

    assert plans.job(job_id)["status"] == JobStatus.RUNNING


def test_a_plan_is_executed_in_the_session_that_is_opened_after_a_lost_one(
    plans: WholeGateway, connection: dbapi.Connection
) -> None:
    plan = connection.compile_plan(INSERT)
    plans.process.sessions.close(connection.client.session)

    job_id = plan.execute()

    assert plans.job(job_id)["job id"] == job_id


def test_a_file_that_is_there_is_kept_unless_it_is_to_be_replaced(
    connection: dbapi.Connection, tmp_path: Path
) -> None:
    file = tmp_path / "plan.json"
    file.write_text("mine", encoding="utf-8")
    plan = connection.compile_plan(INSERT)

    with pytest.raises(FileExistsError):
        plan.write(file)

    kept = file.read_text(encoding="utf-8")
    plan.write(file, replace=True)
    assert (kept, file.read_text(encoding="utf-8")) == ("mine", plan.as_json())


def test_a_plan_of_other_operators_is_refused_with_what_differs(
    plans: WholeGateway, connection: dbapi.Connection
) -> None:
    plan = connection.compile_plan(INSERT)
    plans.streams.operators = {INSERT: deduplicate(scan())}

    with pytest.raises(
        dbapi.ProgrammingError, match="has other operators than when it was compiled"
    ) as refused:
        plan.execute()

    assert refused.value.code == "PLAN_INVALID"
    assert "The plan cannot be executed: Plan plan-" in plan.explain()


def test_a_broken_plan_is_refused_when_it_is_loaded_with_its_name_and_the_place(
    plans: WholeGateway, connection: dbapi.Connection, tmp_path: Path
) -> None:
    file = tmp_path / "orders.json"
    connection.compile_plan(INSERT).write(file)
    file.write_text(file.read_text(encoding="utf-8").replace('"1 h"', '"soon"', 1), encoding="utf-8")
    before = dict(plans.plans.files)

    with pytest.raises(
        dbapi.ProgrammingError, match=r"Plan orders-\w+\.json: nodes\[1\]\.state\[0\]\.ttl 'soon' is not"
    ):
        connection.load_plan(file)

    assert plans.plans.files == before


def test_a_select_cannot_be_compiled(connection: dbapi.Connection) -> None:
    with pytest.raises(dbapi.NotSupportedError, match="SELECT cannot be compiled"):
        connection.compile_plan("SELECT 1")


def test_a_file_that_is_not_there_is_an_error_of_the_program(
    connection: dbapi.Connection, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        connection.load_plan(tmp_path / "none.json")


def test_a_plan_is_one_of_its_session_alone(plans: WholeGateway) -> None:
    plans.sql(f"COMPILE PLAN 'mine.json' FOR {INSERT}")
    own = plans.http.get(f"/v3/sessions/{plans.client.session}/plans/mine.json")
    other = plans.process.sessions.open().handle

    refused = plans.http.get(f"/v3/sessions/{other}/plans/mine.json")

    assert json.loads(own.json()["plan"])["statements"] == [INSERT]
    assert (refused.status_code, refused.headers["Freshtable-Error"]) == (404, "PLAN_NOT_FOUND")


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({}, "REQUEST_INVALID", "plan is missing; it must be the text of a file that COMPILE PLAN wrote."),
        ({"plan": 1}, "REQUEST_INVALID", "plan must be a string, not 1."),
        ({"plan": "{}"}, "PLAN_INVALID", "Plan x.json: version is missing."),
    ],
)
def test_what_is_no_plan_is_not_stored(plans: WholeGateway, body: object, code: str, message: str) -> None:
    answer = put(plans, "x.json", body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
    assert message in answer.json()["errors"][-1]
    assert plans.plans.files == {}


@pytest.mark.parametrize("name", ["..", ".hidden", "..%2Fother.json", "%2Ftmp%2Fplan.json", "a%20b"])
def test_the_name_of_a_plan_is_no_path(plans: WholeGateway, name: str) -> None:
    answer = put(plans, name, {"plan": "{}"})

    assert answer.status_code in {400, 404}
    assert plans.plans.files == {}
