from __future__ import annotations

import pytest

from mt_core.model.run import RunStatus
from mt_core.sessions.ports import SessionContext, SessionState
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.statements.spark_statements import SparkStatements
from mt_core.tables.table_commands import RefreshRequest
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world

pytestmark = pytest.mark.spark


@pytest.fixture
def events(world: RefreshWorld) -> RefreshWorld:
    world.spark(
        "CREATE TABLE events (ts TIMESTAMP, v INT) USING iceberg",
        "INSERT INTO events VALUES (TIMESTAMP '2026-01-01', 1)",
    )
    return world


MOMENTS = [
    "ts > TIMESTAMP 'now'", "ts > 'now'", "ts < CAST('today' AS TIMESTAMP)",
    "CAST(ts AS DATE) = DATE 'yesterday'", "ts > to_timestamp('now')", "CAST(ts AS DATE) = date('tomorrow')",
    "ts > CAST(concat('no', 'w') AS TIMESTAMP)",
]  # fmt: skip


def test_a_word_that_spark_reads_as_a_moment_makes_a_query_unstable(events: RefreshWorld) -> None:
    events.spark("CREATE VIEW recent AS SELECT v FROM events WHERE ts > TIMESTAMP 'now'")
    queries = [
        *(f"SELECT count(*) AS n FROM events WHERE {each}" for each in MOMENTS),
        "SELECT * FROM recent",
    ]

    vectors = {query: events.vector_of(query).unstable for query in queries}
    stable = events.vector_of(
        "SELECT v, 'today' AS word FROM events WHERE ts > '2026-01-01' AND ts > TIMESTAMP 'epoch'"
    )

    assert [query for query, unstable in vectors.items() if unstable is None] == []
    assert stable.unstable is None


def test_create_or_alter_gives_the_storage_its_options_and_comment(events: RefreshWorld) -> None:
    text = (
        "CREATE OR ALTER MATERIALIZED TABLE mt COMMENT 'new' WITH ('write.parquet.compression-codec' = "
        "'gzip') FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS SELECT * FROM events"
    )
    options = "WITH ('write.parquet.compression-codec' = 'zstd', 'write.distribution-mode' = 'range')"
    events.create("mt", "SELECT * FROM events", clauses=options)

    events.sql(text)

    properties = dict(events.plain("SHOW TBLPROPERTIES mt"))  # type: ignore[call-overload]
    assert properties["write.parquet.compression-codec"] == "gzip"
    assert properties["write.distribution-mode"] == "none"
    assert ("Comment", "new", "") in events.plain("DESCRIBE TABLE EXTENDED mt")
    assert events.table("mt").rebuild_due is None


def test_settings_and_options_of_one_refresh_act_on_its_rows_files(events: RefreshWorld) -> None:
    events.create("mt", "SELECT v, count(*) AS n FROM events GROUP BY v")
    events.spark("INSERT INTO events SELECT TIMESTAMP '2026-01-01', id FROM range(100)")
    request = RefreshRequest(
        identifier_text=str(events.table("mt").identifier),
        is_periodic=False,
        dynamic_options={"write.format.default": "orc"},
        execution_config={"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "3"},
    )

    run_id = events.manager.requests.request_refresh(request).run_id
    events.work()
    files = events.plain(f"SELECT file_format FROM lake.{events.namespace}.mt.files")
    again = events.refresh("mt")

    assert events.run(run_id).status is RunStatus.SUCCEEDED, events.run(run_id).error
    assert files == [("ORC",)] * 3
    assert again.status is RunStatus.SUCCEEDED
    assert {row[0] for row in events.plain(f"SELECT file_format FROM lake.{events.namespace}.mt.files")} == {
        "PARQUET"
    }


def test_a_session_tells_the_zone_of_its_queries_and_its_temporary_names(spark_driver: SparkDriver) -> None:
    engine = SparkStatements(SparkContexts(spark_driver))
    context = SessionContext(session_id="of the test", properties={})
    for text in (
        "SET TIME ZONE 'America/New_York'",
        "CREATE TEMPORARY VIEW Big AS SELECT 1 AS a",
    ):
        engine.execute(context, text, job_id="j")

    state = engine.session_state(context)

    engine.close_session("of the test")
    assert state == SessionState(
        catalog="lake", namespace=("default",), zone="America/New_York", relations=frozenset({"big"})
    )
