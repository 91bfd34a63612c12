"""Connections to the catalog's database: those of a session of Spark end with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from mt_core.sessions.ports import SessionContext
from mt_core.spark.catalogs.catalog_sync import CatalogSync, no_catalogs
from mt_core.spark.catalogs.plugins import plugins_of
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.session_functions import NoFunctions
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.queries.contexts import QueryContexts
from mt_core.spark.statements.spark_statements import SparkStatements
from mt_core.tables.engine import Query
from tests.integration.stream_world import StreamWorld
from tests.support.gateway.own_process import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TIMES = 6
_numbers = count(1)


@pytest.fixture
def connections(spark_driver: SparkDriver, pytestconfig: pytest.Config) -> Callable[[], int]:
    """Return what counts the connections of the driver to its catalog's database."""
    url = pytestconfig.getoption("--catalog-url")
    return (lambda: clients_of(url)) if url else (lambda: open_files(spark_driver))


def clients_of(url: str) -> int:
    """Return how many connections a database of PostgreSQL has, without that of the question."""
    text = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with psycopg.connect(url) as connection:
        [[number]] = connection.execute(text)
    return int(number)


def open_files(driver: SparkDriver) -> int:
    """Return how often the JVM has the log of its catalog open: once for each connection.

    SQLite keeps the file of the database itself open, for the next connection.
    """
    log = driver.settings.catalog_url.removeprefix("jdbc:sqlite:file:") + "-wal"
    return sum(str(each.resolve()) == log for each in Path(f"/proc/{driver.pid}/fd").iterdir())


@pytest.fixture
def world(spark_driver: SparkDriver, tmp_path: Path) -> Iterator[StreamWorld]:
    world = StreamWorld(spark_driver, tmp_path)
    yield world
    world.stop_all()


@pytest.fixture
def statements(spark_driver: SparkDriver) -> SparkStatements:
    return SparkStatements(SparkContexts(spark_driver))


def session(**properties: str) -> SessionContext:
    return SessionContext(session_id=f"connections-{next(_numbers)}", properties=properties)


def test_sessions_that_are_closed_leave_no_connection(
    statements: SparkStatements, world: StreamWorld, connections: Callable[[], int]
) -> None:
    before = connections()

    for context in [session() for _ in range(TIMES)]:
        statements.execute(context, f"SHOW TABLES IN lake.{world.namespace}", job_id=uuid4().hex)
        statements.close_session(context.session_id)

    wait_until(lambda: connections() <= before, "more connections than before the sessions", 10)


@pytest.mark.slow
def test_attempts_of_a_stream_leave_no_connection(world: StreamWorld, connections: Callable[[], int]) -> None:
    job_id, definition = world.start()
    world.append("0")
    world.wait_rows(["0"])
    before = connections()

    for attempt in (2, 3):
        world.engine.stop(job_id, definition)
        world.append(str(attempt))
        world.engine.start(job_id, definition, attempt)
        world.wait_rows([str(each) for each in (0, *range(2, attempt + 1))])

    # Two batches at once make the gateway's own catalog open its second one.
    wait_until(lambda: connections() <= before + 1, "more connections than with the first attempt", 10)


def test_an_insert_whose_session_is_closed_goes_on_and_leaves_no_connection(
    spark_driver: SparkDriver, statements: SparkStatements, world: StreamWorld, connections: Callable[[], int]
) -> None:
    context, job_id, before = session(), uuid4().hex, connections()
    slow = "substr(java_method('java.lang.Thread', 'sleep', id + 1500), 1, 0)"
    insert = (
        f"INSERT INTO lake.{world.namespace}.arrivals SELECT concat_ws('', 'late', {slow}) "
        "FROM range(0, 1, 1, 1)"
    )
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(statements.execute, context, insert, job_id=job_id)
        wait_until(lambda: spark_driver.progress(job_id) is not None, "the INSERT does not run", 30)

        statements.close_session(context.session_id)

        assert running.result().affected_rows == 1
    assert world.rows() == ["late"]
    wait_until(lambda: connections() <= before, "more connections than before the session", 10)


@pytest.mark.parametrize(
    ("settings", "shares"),
    [
        ({}, True),
        ({"spark.sql.shuffle.partitions": "3"}, True),
        ({"spark.sql.catalog.lakes.type": "jdbc"}, True),
        ({"spark.sql.catalog.lake.table-default.comment": "ours"}, False),
        ({"spark.hadoop.fs.s3a.access.key": "other"}, False),
    ],
)
def test_a_query_opens_a_catalog_anew_only_for_settings_of_its_own(
    spark_driver: SparkDriver, settings: dict[str, str], shares: bool
) -> None:
    query = Query(text="", catalog="lake", namespace=("default",), zone="UTC", settings=settings)

    found = QueryContexts(spark_driver, CatalogSync(no_catalogs, NoFunctions())).new_session(query)

    mine, theirs = (plugins_of(each).apply("lake") for each in (found, spark_driver.session))
    assert mine.equals(theirs) is shares
