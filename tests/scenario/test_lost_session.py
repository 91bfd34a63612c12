"""How clients notice that the gateway has closed their session, and how heartbeats prevent it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta

import httpx
import pytest

from mt_core.base.rowset import INT, Column, RowSet
from mt_core.client import dbapi
from mt_core.client.http import GatewayClient
from mt_core.errors import QueryFailed, SessionLost
from mt_core.sessions.ports import StatementResult
from tests.scenario.test_sql_command import freshtable
from tests.support.gateway.statements import Gateway

VIEW = "CREATE TEMPORARY VIEW v AS SELECT 1"


class Beats(httpx.HTTPTransport):
    """Reports when a heartbeat has been answered."""

    def __init__(self) -> None:
        super().__init__()
        self.beat = threading.Event()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        if request.url.path.endswith("/heartbeat"):
            self.beat.set()
        return response


class Together(httpx.HTTPTransport):
    """Delays the errors for `SELECT 1` until *many* of them have arrived."""

    def __init__(self, many: int) -> None:
        super().__init__()
        self._answered = threading.Barrier(many)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        response.read()
        if b"SELECT 1" in request.content and response.status_code != 200:
            self._answered.wait(30)
        return response


class Late(httpx.HTTPTransport):
    """Delays the first error until `release` is set; `held` is set when there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.held, self.release = threading.Event(), threading.Event()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        if response.status_code != 200 and not self.held.is_set():
            self.held.set()
            assert self.release.wait(30)
        return response


def url_of(gateway: Gateway) -> str:
    return str(gateway.http.base_url)


def end_sessions(gateway: Gateway) -> None:
    """Forget all sessions, as a restart does."""
    gateway.sessions.close_all()


@contextmanager
def connection(gateway: Gateway) -> Iterator[dbapi.Connection]:
    with dbapi.connect(url_of(gateway), catalog="lake", schema="shop", properties={"a": "1"}) as made:
        yield made


def test_an_idle_client_keeps_its_session_by_heartbeats(gateway: Gateway) -> None:
    transport = Beats()
    with GatewayClient(url_of(gateway), transport=transport, heartbeat_s=0.005) as client:
        handle = client.session
        for _ in range(3):
            gateway.clock.advance(timedelta(minutes=9))
            transport.beat.clear()
            assert transport.beat.wait(60)
            gateway.sessions.expire_idle()

        assert len(gateway.sessions) == 1
        assert client.session == handle


def test_a_session_that_nothing_had_changed_is_opened_again_with_its_properties_and_schema(
    gateway: Gateway,
) -> None:
    with connection(gateway) as connected, connected.cursor() as cursor:
        end_sessions(gateway)

        rows = cursor.execute("SELECT 1").fetchall()

    context, sql = gateway.engine.executed[-1]
    assert (rows, sql, context.properties["a"]) == ([(1,)], "SELECT 1", "1")
    assert [sql for _, sql in gateway.engine.executed] == ["USE `lake`.`shop`"] * 2 + ["SELECT 1"]
    assert cursor.warnings == (
        "The gateway had closed the session; a new one was opened, and nothing was lost.",
    )


def test_a_changed_session_that_is_lost_is_an_error_that_names_what_is_lost_and_nothing_runs(
    gateway: Gateway,
) -> None:
    gateway.engine.answers[VIEW] = StatementResult(is_query=False, rows=RowSet(columns=(), rows=[]))
    with connection(gateway) as connected, connected.cursor() as cursor:
        cursor.execute("SET 'my.secret' = 'x'")
        cursor.execute("USE lake.other")
        cursor.execute(VIEW)
        before = len(gateway.engine.executed)
        end_sessions(gateway)

        with pytest.raises(dbapi.OperationalError) as lost:
            cursor.execute("INSERT INTO t SELECT * FROM v")

        assert len(gateway.engine.executed) == before
        assert lost.value.code == "SESSION_LOST"
        assert str(lost.value).endswith(
            "Its changes are lost: SET 'my.secret'; USE lake.other; CREATE TEMPORARY VIEW v. "
            "Run them again first. This statement was not run."
        )
        assert cursor.execute("SELECT 1").fetchall() == [(1,)]
        assert cursor.warnings == ()


def test_completion_leaves_the_loss_of_a_session_to_the_next_statement(gateway: Gateway) -> None:
    with GatewayClient(url_of(gateway)) as client:
        before_any = client.complete("SHOW CAT", 8)
        client.close_operation(client.execute("SET a = 1"))
        completed = client.complete("SHOW CAT", 8)
        end_sessions(gateway)
        lost = client.complete("SHOW CAT", 8)

        with pytest.raises(SessionLost, match="SET a"):
            client.execute("SELECT 1")

    assert (before_any, completed, lost) == ([], ["CATALOGS"], [])


def test_nothing_runs_in_a_session_whose_schema_could_not_be_set_when_it_was_opened_again(
    gateway: Gateway,
) -> None:
    with connection(gateway) as connected, connected.cursor() as cursor:
        end_sessions(gateway)
        gateway.engine.answers["USE `lake`.`shop`"] = QueryFailed("The catalog lake is away.")

        for _ in range(2):
            with pytest.raises(dbapi.Error, match="The catalog lake is away"):
                cursor.execute("SELECT 1")

        assert [sql for _, sql in gateway.engine.executed if sql == "SELECT 1"] == []
        assert len(gateway.sessions) == 0
        del gateway.engine.answers["USE `lake`.`shop`"]
        assert cursor.execute("SELECT 1").fetchall() == [(1,)]


def test_rows_that_were_not_read_yet_are_lost_with_the_session(gateway: Gateway) -> None:
    many = RowSet(columns=(Column(name="a", type=INT),), rows=[[number] for number in range(6_000)])
    gateway.engine.answers["SELECT many"] = StatementResult(is_query=True, rows=many)
    with connection(gateway) as connected, connected.cursor() as cursor:
        cursor.execute("SELECT many").fetchone()
        end_sessions(gateway)

        with pytest.raises(
            dbapi.OperationalError, match="has ended, with the results of its statements"
        ) as lost:
            cursor.fetchall()

    assert isinstance(lost.value.__cause__, SessionLost)


def test_threads_that_lose_a_session_together_open_one_other(gateway: Gateway) -> None:
    with (
        GatewayClient(url_of(gateway), transport=Together(4)) as client,
        ThreadPoolExecutor(4) as threads,
    ):
        client.execute("SELECT 1")
        end_sessions(gateway)

        operations = list(threads.map(client.execute, ["SELECT 1"] * 4))

        assert len(gateway.sessions) == 1
        assert [page.rows for operation in operations for page in client.pages(operation) if page.rows] == [
            [[1]]
        ] * 4


@pytest.mark.parametrize("changed", ["before", "after"])
def test_a_late_answer_tells_of_what_its_own_session_had(gateway: Gateway, changed: str) -> None:
    transport = Late()
    with GatewayClient(url_of(gateway), transport=transport) as client, ThreadPoolExecutor(1) as threads:
        client.execute("USE lake.other" if changed == "before" else "SELECT 1")
        end_sessions(gateway)
        late = threads.submit(client.execute, "SELECT 1")
        assert transport.held.wait(30)
        with suppress(SessionLost):
            client.execute("SELECT 1")
        client.execute("SELECT 1")
        if changed == "after":
            client.execute("USE lake.other")

        transport.release.set()

        if changed == "before":
            with pytest.raises(SessionLost, match=r"Its changes are lost: USE lake\.other\."):
                late.result()
        else:
            assert [page.rows for page in client.pages(late.result()) if page.rows] == [[[1]]]
        assert len(gateway.sessions) == 1


@pytest.mark.parametrize(
    "ask",
    [GatewayClient.cancel, GatewayClient.status, lambda client, operation: list(client.pages(operation))],
)
@pytest.mark.parametrize("opened", [False, True])
def test_an_operation_of_a_lost_session_is_lost_with_it_and_needs_no_other_session(
    gateway: Gateway, ask: Callable[[GatewayClient, str], object], opened: bool
) -> None:
    with GatewayClient(url_of(gateway)) as client:
        operation = client.execute("SELECT 1")
        end_sessions(gateway)
        with suppress(SessionLost):
            client.properties()
        if opened:
            client.execute("SELECT 1")

        with pytest.raises(SessionLost, match="has ended, with the results of its statements"):
            ask(client, operation)
        client.close_operation(operation)

        assert len(gateway.sessions) == opened


def test_the_command_says_that_the_session_was_opened_again(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = GatewayClient.execute

    def lose_the_session_first(self: GatewayClient, statement: str) -> str:
        assert self.session
        end_sessions(gateway)
        return begin(self, statement)

    monkeypatch.setattr(GatewayClient, "execute", lose_the_session_first)

    result = freshtable(gateway, "-e", "SELECT 1", "--format", "csv")

    assert (result.exit_code, result.stdout) == (0, "a\n1\n")
    assert result.stderr.startswith("Warning: The gateway had closed the session; a new one was opened")


def test_a_statement_that_takes_longer_than_the_cursor_allows_is_ended(gateway: Gateway) -> None:
    hold, ended = gateway.engine.hold("SELECT slow"), list[dbapi.Error]()
    with connection(gateway) as connected:
        connected.timeout_s = 1.5
        cursor = connected.cursor()

        def run() -> None:
            with pytest.raises(dbapi.OperationalError) as failure:
                cursor.execute("SELECT slow")
            ended.append(failure.value)

        thread = threading.Thread(target=run)
        thread.start()
        hold.wait_entered()
        gateway.clock.advance(timedelta(seconds=1.5))
        thread.join(60)

        assert [error.code for error in ended] == ["STATEMENT_TIMED_OUT"]
        cursor.timeout_s = None
        assert cursor.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize(("max_rows", "expected"), [(None, 6_000), (0, 0), (5_500, 5_500)])
def test_a_cursor_fetches_no_more_than_its_max_rows(
    gateway: Gateway, max_rows: int | None, expected: int
) -> None:
    many = RowSet(columns=(Column(name="a", type=INT),), rows=[[number] for number in range(6_000)])
    gateway.engine.answers["SELECT many"] = StatementResult(is_query=True, rows=many)
    with connection(gateway) as connected, connected.cursor() as cursor:
        cursor.max_rows = max_rows

        fetched = cursor.execute("SELECT many").fetchall()
        first = cursor.execute("SELECT many").fetchmany(3)
        arrow = cursor.fetch_arrow()

    assert fetched == [(number,) for number in range(expected)]
    assert len(first) + arrow.num_rows == expected
