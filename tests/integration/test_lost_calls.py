"""Spark that is lost at any call of a statement or a refresh: the error says so, and is never py4j's own."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest
from py4j.clientserver import JavaClient
from py4j.protocol import Py4JNetworkError

from mt_core.errors import EngineUnavailable
from mt_core.sessions.ports import SessionContext
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.failures import LOST
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.refresh.engine import spark_engine
from mt_core.spark.statements.spark_statements import SparkStatements
from mt_core.tables.engine import Query
from tests.integration.row_servers import row_servers
from tests.support.gateway.own_process import wait_until

pytestmark = pytest.mark.spark

QUERY = "SELECT n, count(*) AS rows FROM lake.default.lost_source GROUP BY n"
_numbers = itertools.count()
_send = JavaClient.send_command
# A thread that was told to end does so within this time.
END_S = 30
Action = Callable[[SparkDriver], object]


class LostCall:
    """Fails one call of this thread, that with the number *at*, as py4j does when the JVM dies during it."""

    def __init__(self, at: int) -> None:
        self._left, self._thread = at, threading.get_ident()

    @property
    def came(self) -> bool:
        return self._left < 0

    def send(self, client: JavaClient, command: str, *args: Any, **kwargs: Any) -> Any:
        # The release of an object is no call of ours: it comes whenever Python collects it,
        # and its failure is ignored.
        if threading.get_ident() == self._thread and not command.startswith("m\n"):
            self._left -= 1
            if self._left == -1:
                raise Py4JNetworkError("Error while sending or receiving")
        return _send(client, command, *args, **kwargs)


def statement(sql: str) -> Action:
    def run(driver: SparkDriver) -> None:
        context = SessionContext(
            session_id=f"lost-{next(_numbers)}", properties={"spark.sql.ansi.enabled": "true"}
        )
        found = (
            SparkStatements(SparkContexts(driver)).execute(context, sql, job_id=f"lost-{next(_numbers)}").rows
        )
        assert found is not None
        found.page(0, 10)

    return run


def state_and_plan(driver: SparkDriver) -> None:
    context, statements = (
        SessionContext(session_id=f"lost-{next(_numbers)}", properties={}),
        SparkStatements(SparkContexts(driver)),
    )
    statements.session_state(context)
    statements.explain(context, "SELECT 1", "extended")


def analysis(driver: SparkDriver) -> None:
    query, engine = (
        Query(text=QUERY, catalog="lake", namespace=("default",)),
        spark_engine(SparkContexts(driver)),
    )
    engine.queries.analyse(query)


@pytest.fixture(scope="module", autouse=True)
def source(started_driver: SparkDriver) -> None:
    started_driver.session.sql("CREATE TABLE IF NOT EXISTS lake.default.lost_source (n INT) USING iceberg")


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(statement("SELECT id FROM range(0, 4)"), id="a query that is a job"),
        pytest.param(statement("SELECT 1 AS one"), id="a query without a job"),
        pytest.param(statement("SHOW TABLES IN lake.default"), id="a command"),
        pytest.param(state_and_plan, id="state and plan"),
        pytest.param(analysis, id="what a refresh asks"),
    ],
)
def test_spark_that_is_lost_at_any_call_is_said_so(
    spark_driver: SparkDriver, monkeypatch: pytest.MonkeyPatch, action: Action
) -> None:
    before = row_servers(spark_driver)

    def comes(at: int) -> bool:
        lost, said = LostCall(at), LOST
        with monkeypatch.context() as patch:
            patch.setattr(JavaClient, "send_command", lambda *call, **options: lost.send(*call, **options))
            try:
                action(spark_driver)
            except EngineUnavailable as error:
                said = str(error)
        assert said == LOST
        return lost.came

    calls = next(at for at in itertools.count() if not comes(at))

    assert calls > 5
    wait_until(
        lambda: row_servers(spark_driver).keys() <= before.keys(),
        "the JVM keeps rows that nobody reads",
        END_S,
    )
