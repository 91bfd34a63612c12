"""A real Airflow, a real gateway and a real Spark: from CREATE in SQL to a DAG, its runs, and DROP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dags.tests.stub_gateway import TOKEN
from mt_core.client import dbapi
from tests.airflow.stack import AirflowStack
from tests.integration.started_gateway import started_gateway

pytestmark = [pytest.mark.slow, pytest.mark.spark]

SOON_S = 90
# A tick of a table that is to be fresh to a minute comes within that, and its task a little later.
TICK_S = 60 + SOON_S


@pytest.fixture(scope="module")
def sql(
    airflow: AirflowStack, gateway_port: int, stack_kind: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dbapi.Cursor]:
    """A session on a gateway that has Airflow refresh its tables; there is a table of orders."""
    settings = (
        f"sql-gateway.endpoint.rest.address={'0.0.0.0' if stack_kind == 'compose' else '127.0.0.1'}",
        f"sql-gateway.endpoint.rest.port={gateway_port}",
        f"sql-gateway.security.tokens={TOKEN}",
        "table.local-time-zone=Europe/Berlin",
        "materialized-table.refresh-mode.freshness-threshold=0 s",
        "workflow-scheduler.type=airflow",
        f"workflow-scheduler.airflow.endpoint={airflow.url}",
        f"workflow-scheduler.airflow.user-name={airflow.user}",
        f"workflow-scheduler.airflow.password={airflow.password}",
        "spark.sql.shuffle.partitions=2",
    )
    home: Path = tmp_path_factory.mktemp("home")
    with (
        started_gateway(home, *settings) as url,
        dbapi.connect(url, token=TOKEN) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE TABLE lake.default.orders (id BIGINT, ds STRING, amount BIGINT) USING iceberg")
        days = ", ".join(f"({day}, '2026-09-{day:02d}', {day})" for day in range(1, 8))
        cursor.execute(f"INSERT INTO lake.default.orders VALUES {days}")
        yield cursor


def rows(sql: dbapi.Cursor, statement: str) -> list[tuple[object, ...]]:
    sql.execute(statement)
    return [tuple(row) for row in sql.fetchall()]


def test_a_created_table_is_a_dag_and_a_run_by_hand_refreshes_it(airflow: AirflowStack, sql: dbapi.Cursor) -> None:
    sql.execute(
        "CREATE MATERIALIZED TABLE lake.default.total FRESHNESS = INTERVAL '1' DAY "
        "AS SELECT count(*) AS orders FROM lake.default.orders"
    )
    dag = airflow.rest.dag("mt__lake.default.total")
    before = rows(sql, "SELECT orders FROM lake.default.total")
    sql.execute("INSERT INTO lake.default.orders VALUES (100, '2026-10-01', 100)")

    run_id = airflow.rest.trigger("mt__lake.default.total")
    airflow.rest.wait(lambda: airflow.rest.run("mt__lake.default.total", run_id)["state"] == "success", SOON_S)

    assert dag["timetable_summary"].startswith("0 0 * * * (Europe/Berlin) since ")
    assert (before, rows(sql, "SELECT orders FROM lake.default.total")) == ([(7,)], [(8,)])
    log = airflow.rest.task_log("mt__lake.default.total", run_id)
    assert "Refresh of lake.default.total FINISHED: decision refresh" in log
    assert "1 rows" in log


def test_a_tick_of_airflows_scheduler_refreshes_the_table(airflow: AirflowStack, sql: dbapi.Cursor) -> None:
    sql.execute(
        "CREATE MATERIALIZED TABLE lake.default.ticked FRESHNESS = INTERVAL '1' MINUTE REFRESH_MODE = FULL "
        "AS SELECT max(id) AS newest FROM lake.default.orders"
    )
    sql.execute("INSERT INTO lake.default.orders VALUES (200, '2026-10-02', 200)")

    airflow.rest.wait(lambda: rows(sql, "SELECT newest FROM lake.default.ticked") == [(200,)], TICK_S)

    runs = airflow.rest.runs("mt__lake.default.ticked")
    assert {run["run_type"] for run in runs} == {"scheduled"}


def test_a_backfill_in_airflow_refreshes_those_days_and_no_others(airflow: AirflowStack, sql: dbapi.Cursor) -> None:
    sql.execute(
        "CREATE MATERIALIZED TABLE lake.default.daily PARTITIONED BY (ds) "
        "WITH ('partition.fields.ds.date-formatter' = 'yyyy-MM-dd') FRESHNESS = INTERVAL '1' DAY "
        "AS SELECT ds, sum(amount) AS amount FROM lake.default.orders GROUP BY ds"
    )
    sql.execute(
        "INSERT INTO lake.default.orders SELECT id, ds, 1000 FROM lake.default.orders WHERE ds LIKE '2026-09-%'"
    )

    # Their schedule times are the midnights at which the days of the 2nd to the 4th were over.
    airflow.rest.backfill("mt__lake.default.daily", "2026-09-02T12:00:00Z", "2026-09-05T12:00:00Z")
    airflow.rest.wait(
        lambda: [run["state"] for run in airflow.rest.runs("mt__lake.default.daily")] == ["success"] * 3, 2 * SOON_S
    )

    found = dict(rows(sql, "SELECT ds, amount FROM lake.default.daily WHERE ds LIKE '2026-09-%'"))
    refreshed = sorted(ds for ds, amount in found.items() if int(str(amount)) > 1000)
    assert refreshed == ["2026-09-02", "2026-09-03", "2026-09-04"]


def test_a_pause_in_airflow_is_seen_in_sql_and_a_dropped_table_has_no_dag(
    airflow: AirflowStack, sql: dbapi.Cursor
) -> None:
    sql.execute(
        "CREATE MATERIALIZED TABLE lake.default.paused FRESHNESS = INTERVAL '1' DAY "
        "AS SELECT count(*) AS orders FROM lake.default.orders"
    )
    airflow.rest.pause("mt__lake.default.paused", True)

    shown = str(rows(sql, "DESCRIBE EXTENDED lake.default.paused"))
    sql.execute("DROP MATERIALIZED TABLE lake.default.paused")

    assert "SUSPENDED" in shown
    assert airflow.rest.dag("mt__lake.default.paused") == {}
