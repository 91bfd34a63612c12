"""GROUP BY over streams on a real Spark: what each batch changes, what a state is kept for,
and what is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from mt_core.errors import Unsupported
from mt_core.model.stream import StreamDefinition
from mt_core.plans.durations import FOR_EVER
from mt_core.plans.operators import ADDS, ALL, OperatorState, RowKind
from mt_core.spark.connectors.changelog import ROW_KIND, Changelog
from mt_core.spark.driver.jvm_objects import active_session, class_name, java_dataset, scala_items
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.streams.inserts import query_of
from mt_core.spark.streams.operators import rewriting
from mt_core.spark.streams.operators.operator_nodes import scan_of
from mt_core.spark.streams.operators.state_ttls import read_ttls
from mt_core.spark.streams.operators.stateless import expression_id
from mt_core.spark.streams.operators.walk import Walk
from mt_core.sql.parser import ReadStatement
from tests.depth import DEPTH
from tests.integration.operator_stream import Change, OperatorStream
from tests.integration.stream_world import StreamWorld

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600 * DEPTH)]

HOUR = timedelta(hours=1)
Row = tuple[str | None, int | None]


@pytest.fixture(scope="module")
def session(module_driver: SparkDriver) -> Iterator[SparkSession]:
    session = module_driver.new_session()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    with active_session(session):
        yield session


@pytest.fixture
def start(session: SparkSession, tmp_path: Path) -> Iterator[Callable[..., OperatorStream]]:
    """Start a query over the views `changes` and `adds` of a stream of changes,
    and over those of its rows that come.
    """
    streams = list[OperatorStream]()

    def started(text: str, ttl: timedelta = FOR_EVER) -> OperatorStream:
        stream = OperatorStream(
            session, tmp_path, f"k STRING, v INT, {ROW_KIND} TINYINT", aggregating(text, ttl)
        )
        streams.append(stream)
        return stream

    yield started
    for stream in streams:
        stream.stop()


def aggregating(text: str, ttl: timedelta = FOR_EVER) -> Callable[[DataFrame], DataFrame]:
    def operator(rows: DataFrame) -> DataFrame:
        session = rows.sparkSession
        return DataFrame(java_dataset(session, changelog(rows, text, ttl).plan), session)

    return operator


def changelog(rows: DataFrame, text: str, ttl: timedelta = FOR_EVER) -> Changelog:
    """Return the query with our operators, those in `changes` being the rows of a changelog."""
    session = rows.sparkSession
    rows.createOrReplaceTempView("changes")
    rows.where(f"{ROW_KIND} IN (0, 2)").drop(ROW_KIND).createOrReplaceTempView("adds")
    timed = rows.selectExpr("k", "v", "timestamp_seconds(v) AS t").withWatermark("t", "0 seconds")
    timed.createOrReplaceTempView("timed")
    parsed = query_of(session, text)
    ttls = read_ttls(text, parsed, {"table.exec.state.ttl": f"{ttl // timedelta(milliseconds=1)} ms"})

    def found(plan: Any) -> Changelog:
        if class_name(plan) == "SubqueryAlias" and str(plan.alias()) == "changes":
            return Changelog(plan=plan, operator=replace(scan_of(plan), changes=ALL))
        return rewriting._changelog(walk, plan)

    walk = Walk(session, ttls, found)
    return found(java_dataset(session, parsed).queryExecution().analyzed())


def change(kind: RowKind, row: Row) -> dict[str, Any]:
    return {"k": row[0], "v": row[1], ROW_KIND: kind.code}


@pytest.mark.slow
def test_the_state_of_a_group_expires_and_a_later_start_may_have_another_ttl(
    start: Callable[..., OperatorStream],
) -> None:
    text = "SELECT k, count(*) AS n, count(DISTINCT v) AS d FROM adds GROUP BY k"
    stream = start(text, HOUR)

    assert stream.feed(added("a", 1)) == [("+I", {"k": "a", "n": 1, "d": 1})]
    stream.wait(HOUR / 2)
    assert stream.feed(added("a", 2)) == [
        ("-U", {"k": "a", "n": 1, "d": 1}),
        ("+U", {"k": "a", "n": 2, "d": 2}),
    ]
    # The value 1 is forgotten; the group is not, which was written later.
    stream.wait(HOUR / 2)
    assert stream.feed(added("a", 1))[1] == ("+U", {"k": "a", "n": 3, "d": 3})
    stream.wait(HOUR)
    assert stream.feed(added("a", 1)) == [("+I", {"k": "a", "n": 1, "d": 1})]
    stream.restart(aggregating(text, 3 * HOUR))
    assert stream.feed(added("a", 1), added("b", 1))[-1] == ("+I", {"k": "b", "n": 1, "d": 1})
    stream.wait(2 * HOUR)
    assert stream.feed(added("b", 1))[1] == ("+U", {"k": "b", "n": 2, "d": 1})


def test_a_later_batch_removes_a_group_that_has_expired_and_no_other(
    start: Callable[..., OperatorStream],
) -> None:
    text = "SELECT k, count(*) AS n FROM adds GROUP BY k"
    stream = start(text, HOUR)

    stream.feed(added("a", 1))
    stream.wait(HOUR / 2)
    stream.feed(added("a", 1))
    stream.wait(HOUR / 2)
    stream.feed(added("b", 1))
    written_later = stream.rows_kept()
    stream.wait(HOUR / 2)
    stream.feed(added("b", 1))
    kept, expired = stream.rows_kept(), stream.rows_expired()
    stream.restart(aggregating(text, HOUR / 4))
    stream.feed(added("b", 1))
    stream.wait(HOUR / 4)
    given = stream.feed(added("c", 1))

    assert (written_later, kept, stream.rows_kept()) == (2, 1, 1)
    assert (expired, stream.rows_expired()) == (1, 1)
    assert given == [("+I", {"k": "c", "n": 1})]


@pytest.mark.slow
def test_every_function_aggregates_rows_that_are_added_and_some_that_change(
    start: Callable[..., OperatorStream],
) -> None:
    functions = (
        "first(v) AS f, max_by(k, v) AS most, stddev_pop(v) AS dev, percentile(v, 0.5) AS half, "
        "approx_count_distinct(v) AS about, every(v > 0) AS pos, collect_set(v) AS vs, listagg(k, ',') "
        "WITHIN GROUP (ORDER BY v) AS ks, sum(CAST('NaN' AS DOUBLE)) FILTER (WHERE v = 1) AS nan, "
        "sum(v / 2) AS halves, sum(CAST(v AS DECIMAL(5, 2))) AS dec, avg(CAST(v AS DECIMAL(5, 2))) AS mean"
    )
    stream = start(
        f"SELECT 'a' AS q, {functions} FROM adds UNION ALL SELECT 'c' AS q, {functions} FROM changes"
    )
    one = {
        "f": 1, "most": "a", "dev": 0.0, "half": 1.0, "about": 1, "pos": True, "vs": [1], "ks": "a",
        "nan": "NaN", "halves": 0.5, "dec": 1.0, "mean": 1.0,
    }  # fmt: skip
    two = {
        "f": 1, "most": "b", "dev": 1.0, "half": 2.0, "about": 2, "pos": True, "vs": [1, 3], "ks": "a,b",
        "nan": "NaN", "halves": 2.0, "dec": 4.0, "mean": 2.0,
    }  # fmt: skip
    last = {
        "f": 3, "most": "b", "dev": 0.0, "half": 3.0, "about": 1, "pos": True, "vs": [3], "ks": "b",
        "nan": None, "halves": 1.5, "dec": 3.0, "mean": 3.0,
    }  # fmt: skip

    assert in_order(stream.feed(added("a", 1))) == [("+I", {"q": "a", **one}), ("+I", {"q": "c", **one})]
    assert in_order(stream.feed(added("b", 3))) == [
        ("+U", {"q": "a", **two}),
        ("-U", {"q": "a", **one}),
        ("+U", {"q": "c", **two}),
        ("-U", {"q": "c", **one}),
    ]
    assert in_order(stream.feed(change(RowKind.DELETE, ("a", 1)))) == [
        ("+U", {"q": "c", **last}),
        ("-U", {"q": "c", **two}),
    ]
    assert stream.feed(change(RowKind.DELETE, ("b", 3))) == [("-D", {"q": "c", **last})]


@pytest.mark.slow
def test_aggregates_of_aggregates_grouping_sets_having_and_equal_numbers(
    start: Callable[..., OperatorStream],
) -> None:
    stream = start(
        "SELECT 'n' AS q, CAST(n AS STRING) AS k, count(*) AS n FROM (SELECT k, count(*) AS n "
        "FROM adds GROUP BY k) GROUP BY n UNION ALL SELECT 'r', coalesce(k, '-'), sum(v) FROM adds "
        "GROUP BY ROLLUP (k) UNION ALL SELECT 'h', k, max(v) FROM adds GROUP BY k HAVING max(v) > 1 "
        "UNION ALL SELECT 'z', CAST(abs(z) AS STRING), count(*) FROM (SELECT CASE WHEN v = 1 THEN 0.0D "
        "WHEN v = 2 THEN -0.0D ELSE CAST('NaN' AS DOUBLE) END AS z FROM adds) GROUP BY z"
    )

    first = standing(stream.feed(added("a", 1), added("b", 1)))
    second = standing([*first_changes(first), *stream.feed(added("a", 2), added("b", 3), added("b", 4))])

    assert first == {("n", "1", 2), ("r", "-", 2), ("r", "a", 1), ("r", "b", 1), ("z", "0.0", 2)}
    assert second == {
        ("n", "2", 1), ("n", "3", 1), ("r", "-", 11), ("r", "a", 3), ("r", "b", 8), ("h", "a", 2),
        ("h", "b", 4), ("z", "0.0", 3), ("z", "NaN", 2),
    }  # fmt: skip


def test_a_window_over_a_distinct_of_event_times_ends_with_the_watermark(
    start: Callable[..., OperatorStream],
) -> None:
    stream = start(
        "SELECT w.end AS at, n FROM (SELECT window(t, '10 seconds') AS w, count(*) AS n "
        "FROM (SELECT DISTINCT k, t FROM timed) GROUP BY 1)"
    )

    batches = (
        [added("a", 1), added("a", 1), added("a", 2)],
        [added("a", 30)],
        [added("a", 31)],
        [added("a", 32)],
    )
    changes = [change for batch in batches for change in stream.feed(*batch)]

    assert [(kind, row["n"]) for kind, row in changes] == [("+I", 2)]


def test_a_window_over_first_rows_in_event_time_ends_with_the_watermark(
    start: Callable[..., OperatorStream],
) -> None:
    stream = start(
        "SELECT w.end AS at, n FROM (SELECT window(t, '10 seconds') AS w, count(*) AS n FROM (SELECT k, t "
        "FROM (SELECT /*+ STATE_TTL('c', '0 EVENT TIME') */ *, ROW_NUMBER() OVER (PARTITION BY k "
        "ORDER BY p) AS rn FROM (SELECT *, now() AS p FROM timed) AS c) WHERE rn = 1) GROUP BY 1)"
    )

    batches = (
        [added("a", 1), added("a", 2), added("b", 2)],
        [added("c", 30)],
        [added("d", 31)],
        [added("e", 32)],
    )
    changes = [change for batch in batches for change in stream.feed(*batch)]

    assert [(kind, row["n"]) for kind, row in changes] == [("+I", 2)]


def test_a_distinct_of_rows_that_are_added_only_adds(session: SparkSession) -> None:
    found = changelog(rows_of(session), "SELECT DISTINCT k, v FROM adds")

    assert found.changes == ADDS
    assert [each.type for each in found.operator.all()][-1] == "stream-exec-group-aggregate_1"
    assert found.unique == {frozenset(expression_id(each) for each in scala_items(found.plan.output()))}


@pytest.mark.parametrize(
    ("text", "ttl"),
    [
        ("SELECT /*+ STATE_TTL('adds', '1 d') */ k, count(*) FROM adds GROUP BY k", timedelta(days=1)),
        (
            "SELECT /*+ STATE_TTL('a', '1 d') */ count(*) AS n FROM adds AS a HAVING count(*) > 1",
            timedelta(days=1),
        ),
        ("SELECT /*+ STATE_TTL('adds', '1 d') */ DISTINCT k FROM adds", timedelta(days=1)),
        ("SELECT k, count(*) FROM (SELECT k FROM adds) GROUP BY k", HOUR),
    ],
)
def test_the_ttl_is_that_of_the_hint_else_that_of_the_session(
    session: SparkSession, text: str, ttl: timedelta
) -> None:
    found = changelog(rows_of(session), text, HOUR)

    assert [each.states for each in found.operator.all() if each.states] == [
        (OperatorState(index=0, name="groupAggregateState", ttl=ttl),)
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT count(*) FROM adds GROUP BY k COLLATE UTF8_LCASE", "with a COLLATION"),
        ("SELECT count(DISTINCT k COLLATE UTF8_LCASE) FROM adds", "with a COLLATION"),
        ("SELECT count(*), rand() AS r FROM adds", r"rand\(\) AS r has another value"),
        ("SELECT max(current_timestamp()) FROM changes", "has another value"),
        (
            "SELECT count(*) FROM adds GROUP BY session_window(timestamp_seconds(v), '1 hour')",
            "only has session windows by event time",
        ),
        (
            "SELECT window(t, '10 seconds'), count(*) "
            "FROM (SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p) AS rn "
            "FROM (SELECT *, now() AS p FROM timed)) WHERE rn = 1) GROUP BY 1",
            "would never end",
        ),
    ],
)
def test_what_cannot_be_aggregated_is_refused_with_the_way_out(
    session: SparkSession, text: str, reason: str
) -> None:
    with pytest.raises(Unsupported, match=reason):
        changelog(rows_of(session), text)


def rows_of(session: SparkSession) -> DataFrame:
    stream = session.readStream.format("rate").load()
    return stream.selectExpr(
        "CAST(value AS STRING) AS k", "CAST(value AS INT) AS v", f"CAST(0 AS TINYINT) AS {ROW_KIND}"
    )


def added(k: str, v: int) -> dict[str, Any]:
    return change(RowKind.INSERT, (k, v))


def in_order(changes: Sequence[Change]) -> list[Change]:
    return sorted(changes, key=lambda each: (each[1]["q"], each[0]))


def first_changes(rows: set[tuple[Any, ...]]) -> list[Change]:
    return [("+I", {"q": q, "k": k, "n": n}) for q, k, n in rows]


def standing(changes: Sequence[Change]) -> set[tuple[Any, ...]]:
    """Return the rows that stand after *changes*, each of which may be there once."""
    counts = Counter[tuple[Any, ...]]()
    for kind, row in changes:
        counts[tuple(row.values())] += 1 if kind in {"+I", "+U"} else -1
    assert set(counts.values()) <= {0, 1}
    return {row for row, count in counts.items() if count}


class Orders(StreamWorld):
    """Orders, of which some come twice, and what is known of each product (FLIP-292)."""

    def __init__(self, driver: SparkDriver, folder: Path) -> None:
        super().__init__(driver, folder)
        self.sql("CREATE TABLE orders (order_id STRING, user_id STRING, product_id STRING, num BIGINT)")
        self.sql(
            "CREATE TABLE stats (product_id STRING NOT NULL, buy_uv BIGINT, order_cnt BIGINT, "
            "quantity_cnt BIGINT)"
        )
        self.sql("ALTER TABLE stats SET IDENTIFIER FIELDS product_id")

    def order(self, *rows: tuple[str, str, str, int]) -> None:
        self.sql(f"INSERT INTO orders VALUES {', '.join(map(str, rows))}")

    def count(self, hint: str = "", **changes: Any) -> tuple[str, StreamDefinition]:
        return self.start(ReadStatement(insert_stats("orders", "now()", hint)).text, **changes)

    def wait_stats(self, *expected: tuple[str, int, int, int]) -> None:
        self.wait(lambda: sorted(map(tuple, self.sql("SELECT * FROM stats"))) == sorted(expected))


def insert_stats(orders: str, time: str, hint: str = "") -> str:
    return (
        f"INSERT INTO stats SELECT {hint} product_id, COUNT(DISTINCT user_id) AS buy_uv, COUNT(order_id) "
        "AS order_cnt, SUM(num) AS quantity_cnt FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id "
        f"ORDER BY {time} ASC) AS rn FROM {orders}) tmp WHERE rn = 1 GROUP BY product_id"
    )


@pytest.fixture
def orders(module_driver: SparkDriver, tmp_path: Path) -> Iterator[Orders]:
    world = Orders(module_driver, tmp_path)
    yield world
    world.stop_all()


@pytest.mark.slow
def test_deduplicated_orders_are_counted_by_product_through_a_savepoint(orders: Orders) -> None:
    orders.order(
        ("o1", "ann", "tea", 2), ("o1", "ann", "tea", 2), ("o2", "bob", "tea", 3), ("o3", "ann", "nut", 1)
    )
    job_id, definition = orders.count()
    orders.wait_stats(("tea", 2, 2, 5), ("nut", 1, 1, 1))
    orders.order(("o1", "ann", "tea", 2), ("o4", "ann", "tea", 4))
    orders.wait_stats(("tea", 2, 3, 9), ("nut", 1, 1, 1))

    savepoint = orders.engine.savepoint(job_id, definition, orders.folder("down"), drain=True)
    orders.count("/*+ STATE_TTL('tmp' = '1 ms') */", restored_from=savepoint)
    orders.order(("o6", "dan", "tea", 1))
    orders.wait_stats(("tea", 3, 4, 10), ("nut", 1, 1, 1))
    orders.order(("o7", "eve", "tea", 1))

    # What was written with the short TTL is forgotten.
    orders.wait_stats(("tea", 1, 1, 1), ("nut", 1, 1, 1))


@pytest.mark.slow
def test_generated_orders_are_counted_without_an_end(orders: Orders) -> None:
    columns = "order_id STRING, user_id STRING, product_id STRING, num BIGINT, proctime AS PROCTIME()"
    temporary = (
        (
            f"CREATE TEMPORARY TABLE generated ({columns}) WITH ('connector' = 'datagen', "
            "'rows-per-second' = '20')"
        ),
        "CREATE TEMPORARY TABLE stats (product_id STRING, buy_uv BIGINT, order_cnt BIGINT, "
        "quantity_cnt BIGINT) WITH ('connector' = 'blackhole')",
    )

    job_id, _ = orders.start(ReadStatement(insert_stats("generated", "proctime")).text, temporary=temporary)

    orders.wait(lambda: (orders.engine.progress(job_id).rows_written or 0) > 40)
    assert orders.engine.progress(job_id).error is None
