"""Tables of datagen, rate, print and blackhole in Spark."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from mt_core.errors import QueryFailed
from mt_core.sessions.ports import SessionContext
from mt_core.spark.connectors.temporary import create_temporary
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.statements.spark_statements import SparkStatements

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

_numbers = itertools.count()
Run = Callable[[str], list[list[object]]]
ALL_TYPES = """CREATE TEMPORARY TABLE g (
  id BIGINT, t TINYINT, s SMALLINT, n INT, b BIGINT, f FLOAT, x DOUBLE, d DECIMAL(10, 2), v STRING,
  c CHAR(3), y BYTES, o BOOLEAN, da DATE, at TIMESTAMP(3), l TIMESTAMP_LTZ(3), p AS PROCTIME(),
  WATERMARK FOR at AS at - INTERVAL '5' SECOND
) WITH (
  'connector' = 'datagen', 'fields.id.kind' = 'sequence', 'fields.id.start' = '11', 'fields.id.end' = '30',
  'fields.n.min' = '1', 'fields.n.max' = '6', 'fields.b.min' = '-9223372036854775808', 'fields.b.max' = '5',
  'fields.x.max' = '0.5', 'fields.v.null-rate' = '0.5', 'fields.v.length' = '70', 'fields.v.var-len' = 'true',
  'fields.y.length' = '3', 'fields.at.max-past' = '1 min'
)"""


@pytest.fixture
def run(spark_driver: SparkDriver) -> Run:
    """Return a function that runs a statement in a session of its own and returns its rows."""
    statements = SparkStatements(SparkContexts(spark_driver))
    context = SessionContext(session_id=f"generated-{next(_numbers)}", properties={})

    def run(sql: str) -> list[list[object]]:
        if sql.startswith("CREATE TEMPORARY"):
            with statements._sessions.use(context) as session:
                create_temporary(spark_driver, session, sql)
            return []
        rows = statements.execute(context, sql, job_id=f"generated-{next(_numbers)}").rows
        assert rows is not None
        return rows.page(0, 1000)

    return run


def test_a_bounded_table_has_values_of_every_type_within_its_bounds(run: Run) -> None:
    run(ALL_TYPES)

    [facts] = run(
        "SELECT array_agg(id) = sequence(11, 30), count(DISTINCT n) > 3 AND min(n) >= 1 AND max(n) <= 6, "
        "max(b) <= 5, max(x) <= 0.5, count(v) BETWEEN 1 AND 19, max(length(v)) <= 70 AND min(length(v)) "
        "< max(length(v)), max(length(c)) = 3, max(length(y)) = 3, count(DISTINCT o) = 2, count(d) = 20, "
        "count(DISTINCT t) > 10, min(l) = max(l), max(at) < max(l) FROM g"
    )

    assert facts == [True] * 13
    assert run("SELECT id, n, v FROM g") == run("SELECT id, n, v FROM g")


@pytest.mark.parametrize(
    "sql",
    ["SELECT * FROM g", "SELECT count(*) FROM g", "CREATE TABLE lake.default.never USING iceberg AS TABLE g"],
)
def test_a_batch_query_of_rows_without_end_is_refused_with_the_way_out(run: Run, sql: str) -> None:
    run("CREATE TEMPORARY TABLE g (n INT) WITH ('connector' = 'datagen')")

    with pytest.raises(QueryFailed, match=r"an unbounded table.*number-of-rows"):
        run(sql)


def test_a_table_without_end_may_have_any_name(run: Run) -> None:
    run("CREATE TEMPORARY TABLE `my-events` (id BIGINT) WITH ('connector' = 'datagen')")

    with pytest.raises(QueryFailed, match="an unbounded table"):
        run("SELECT id FROM `my-events`")


def test_a_sink_has_its_columns_and_cannot_be_read(run: Run) -> None:
    run("CREATE TEMPORARY TABLE p (a INT, b STRING) WITH ('connector' = 'print')")

    with pytest.raises(QueryFailed, match="connector 'print' is a sink and cannot be read"):
        run("SELECT * FROM p")
