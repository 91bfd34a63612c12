from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from mt_core.app.logs import RequestIdFilter
from mt_core.base.protocol import ERRORS_AS_JSON, ERRORS_HEADER, REQUEST_ID_HEADER
from mt_core.cli import app
from mt_core.client import dbapi
from mt_core.client.http import GatewayClient
from mt_core.errors import GatewayError, TableNotFound
from mt_core.sql.statements import SuspendTable
from tests.support.gateway.statements import Gateway, root_cause
from tests.support.gateway.whole import DAILY, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway

FAILURE = "ZeroDivisionError: division by zero; the gateway's log has the details. Request id: "
NAMED = re.compile(r"Request id: ([0-9a-f]{32})")
AS_JSON = {ERRORS_HEADER: ERRORS_AS_JSON}


def as_request(identity: str) -> dict[str, str]:
    return {REQUEST_ID_HEADER: identity}


@pytest.fixture
def events(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """The log, with the ids of requests as in the log of a gateway."""
    ids = RequestIdFilter()
    caplog.handler.addFilter(ids)
    caplog.set_level(logging.INFO)
    yield caplog
    caplog.handler.removeFilter(ids)


def logged(events: pytest.LogCaptureFixture, identity: str) -> list[str]:
    """Return the actions of the events of a request."""
    records = [vars(record) for record in events.records]
    ours = [record for record in records if record.get("request_id") == identity and "action" in record]
    return [record["action"] for record in ours]


@pytest.fixture
def failing(gateway: Gateway) -> Gateway:
    """A gateway in which `SELECT boom` fails with an error that nobody expected."""
    gateway.engine.answers["SELECT boom"] = ZeroDivisionError("division by zero")
    return gateway


@pytest.mark.parametrize(
    "path", ["/info", "/v3/info", "/freshtable/v1/gateway", "/v9/nowhere", "/v3/sessions/x"]
)
def test_each_answer_has_the_id_of_its_request(gateway: Gateway, path: str) -> None:
    chosen = gateway.http.get(path, headers=as_request("mine")).headers.get_list(REQUEST_ID_HEADER)
    given = [gateway.http.get(path).headers[REQUEST_ID_HEADER] for _ in range(2)]

    assert chosen == ["mine"]
    assert len({*given, "mine"}) == 3


def test_the_id_of_a_trace_is_that_of_its_requests(gateway: Gateway) -> None:
    trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}

    answer = gateway.http.get("/info", headers=trace)

    assert answer.headers[REQUEST_ID_HEADER] == "4bf92f3577b34da6a3ce929d0e0e4736"


def test_a_statement_is_logged_with_the_id_of_the_request_that_began_it(
    failing: Gateway, events: pytest.LogCaptureFixture
) -> None:
    session = failing.open()
    begun = failing.http.post(
        f"{session}/statements", json={"statement": "SELECT boom"}, headers=as_request("begin")
    )
    operation = f"{session}/operations/{begun.json()['operationHandle']}"
    failing.result(operation)

    fetched = failing.http.get(f"{operation}/result/0", headers=as_request("fetch") | AS_JSON)

    assert (logged(events, "begin"), logged(events, "fetch")) == (["statement_failed"], [])
    assert fetched.headers[REQUEST_ID_HEADER] == "fetch"
    assert fetched.json()["error"]["requestId"] == "begin"
    assert fetched.json()["error"]["message"].endswith(f"{FAILURE}begin")


def test_the_next_statement_of_a_session_is_logged_with_its_own_id(
    failing: Gateway, events: pytest.LogCaptureFixture
) -> None:
    session = failing.open()
    hold = failing.engine.hold("SELECT 1")
    failing.begin(session, "SELECT 1")
    hold.wait_entered()
    second = failing.http.post(
        f"{session}/statements", json={"statement": "SELECT boom"}, headers=as_request("second")
    )
    hold.release()
    failing.result(f"{session}/operations/{second.json()['operationHandle']}")

    assert logged(events, "second") == ["statement_failed"]


def test_an_internal_error_names_its_request_to_flinks_clients(failing: Gateway) -> None:
    answer = failing.run(failing.open(), "SELECT boom")

    assert answer.json().keys() == {"errors"}
    assert NAMED.search(root_cause(answer))


def test_an_error_that_a_user_can_correct_reads_as_before(gateway: Gateway) -> None:
    gateway.commands.outcomes[SuspendTable] = TableNotFound("There is no materialized table daily.")

    answer = gateway.run(gateway.open(), "ALTER MATERIALIZED TABLE daily SUSPEND")

    assert answer.json().keys() == {"errors"}
    assert root_cause(answer) == "TableNotFound: There is no materialized table daily."
    assert REQUEST_ID_HEADER in answer.headers


def test_exceptions_of_clients_have_the_id_of_the_failed_request(
    failing: Gateway, events: pytest.LogCaptureFixture
) -> None:
    url = str(failing.http.base_url)
    with dbapi.connect(url) as connection, pytest.raises(dbapi.InternalError) as of_driver:
        connection.cursor().execute("SELECT boom")
    with GatewayClient(url) as client, pytest.raises(GatewayError) as of_client:
        [*_] = client.pages(client.execute("SELECT boom"))

    ids = [of_driver.value.request_id, of_client.value.request_id]

    assert [logged(events, each or "") for each in ids] == [["statement_failed"], ["statement_failed"]]
    assert str(of_driver.value).endswith(f"{FAILURE}{ids[0]}")


def test_freshtable_sql_shows_the_id_of_an_internal_error(
    failing: Gateway, events: pytest.LogCaptureFixture
) -> None:
    environ = {"FRESHTABLE_GATEWAY": str(failing.http.base_url)}

    result = CliRunner().invoke(app, ["sql", "-e", "SELECT boom"], env=environ)
    [identity] = NAMED.findall(result.stderr)

    assert logged(events, identity) == ["statement_failed"]


def test_a_verbose_client_shows_the_id_of_any_error(gateway: Gateway) -> None:
    environ = {"FRESHTABLE_GATEWAY": str(gateway.http.base_url)}

    result = CliRunner().invoke(
        app, ["sql", "-e", "SET 'sql-client.verbose' = 'true'; SELECT wrong"], env=environ
    )

    assert re.search(r"code=\w+ .*request_id=[0-9a-f]{32}\n", result.stderr)


def test_a_request_of_a_refresh_is_logged_with_its_run(
    whole: WholeGateway, events: pytest.LogCaptureFixture
) -> None:
    whole.sql(DAILY)

    handle = whole.refresh("lake.default.daily", headers=as_request("tick-7")).json()["operationHandle"]

    assert logged(events, "tick-7") == ["refresh_requested"]
    runs = [
        vars(record)["run"] for record in events.records if vars(record).get("action") == "refresh_requested"
    ]
    assert runs == [handle]
