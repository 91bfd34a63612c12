"""A query that runs in the calling thread gives what a job gives, unless it was refused
when it was planned.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyarrow import Table
from pyspark.sql import DataFrame, SparkSession

from mt_core.errors import Canceled, MtError
from mt_core.model.progress import Progress
from mt_core.spark.driver.failures import SPARK_ERRORS, translate
from mt_core.spark.driver.jvm_objects import java_strings, own_class, state_of, static_member
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.functions.java_functions import users_functions
from mt_core.spark.iceberg import inline_plans
from mt_core.spark.iceberg.computed_rows import local_rows
from mt_core.spark.iceberg.inline_plans import InlinePlan, InlinePlans, plan_inline
from mt_core.spark.iceberg.jvm_rows import columns_of
from mt_core.spark.iceberg.scan_tasks import SourceRows, planned_tasks, source_rows
from mt_core.spark.iceberg.temporary_views import temporary_view
from tests.support.function_code import function_jar
from tests.support.gateway.own_process import wait_until
from tests.support.started_jobs import started_jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ORDERS = """
SELECT id, CAST(id % 7 AS INT) AS k, CAST(id % 5 AS STRING) AS s, CAST(id AS DECIMAL(12, 2)) AS a,
    id / 3.0D AS d, DATE '2026-03-01' AS day,
    TIMESTAMP '2026-03-01 22:30:00' + make_interval(0, 0, 0, 0, CAST(id AS INT)) AS at,
    array(id, id + 1) AS items, named_struct('x', id, 'y', CAST(id AS STRING)) AS part, map('a', id) AS m
FROM range({}, {})
"""
CITIES = "SELECT CAST(id AS INT) AS k, concat('n', id) AS name FROM range({})"
SHAPES = {
    "projection and filter": (
        "SELECT id * 2 AS x, upper(s) AS u, date_trunc('DAY', at) AS day FROM {o} WHERE k > 3"
    ),
    "aggregate": "SELECT k, count(*) AS n, sum(a) AS a, max(d) AS d FROM {o} GROUP BY k",
    "aggregate of all": "SELECT count(*) AS n, sum(a) AS a FROM {o}",
    "aggregate by sorting": "SELECT k, max(s) AS m, min(s) AS n FROM {o} GROUP BY k",
    "aggregate of objects": "SELECT k, sort_array(collect_list(id)) AS l FROM {o} GROUP BY k",
    "count distinct": "SELECT k, count(DISTINCT s) AS m, count(DISTINCT id) AS i FROM {o} GROUP BY k",
    "percentile": "SELECT k, percentile_approx(id, 0.5) AS p FROM {o} GROUP BY k",
    "HAVING": "SELECT k, sum(id) AS n FROM {o} GROUP BY k HAVING sum(id) > 70",
    "join": "SELECT o.id, c.name FROM {o} AS o JOIN {c} AS c ON o.k = c.k",
    "left join": "SELECT o.id, c.name FROM {o} AS o LEFT JOIN {c} AS c ON o.k = c.k",
    "full join": "SELECT o.id, c.name FROM {o} AS o FULL JOIN {c} AS c ON o.k = c.k AND c.k > 2",
    "full join without equality": (
        "SELECT o.id, c.name, v.x FROM {o} AS o FULL JOIN {c} AS c ON o.k + 3 < c.k FULL JOIN VALUES (2), "
        "(300), (NULL) AS v(x) ON o.k > v.x + 2"
    ),
    "semi join": "SELECT o.id FROM {o} AS o LEFT SEMI JOIN {c} AS c ON o.k <=> c.k",
    "anti join": "SELECT o.id FROM {o} AS o LEFT ANTI JOIN {c} AS c ON o.k <=> c.k",
    "NOT IN": "SELECT id FROM {o} WHERE k NOT IN (SELECT k FROM {c})",
    "NOT IN of a column with NULL": (
        "SELECT id FROM {o} WHERE nullif(k, 3) NOT IN (SELECT nullif(k, 2) FROM {c})"
    ),
    "NOT IN of two columns": (
        "SELECT id FROM {o} AS o WHERE (nullif(k, 3), s) NOT IN (SELECT nullif(k, 2), '1' FROM {c} AS c "
        "WHERE c.k < o.id)"
    ),
    "NOT IN beside another condition": (
        "SELECT id FROM {o} WHERE nullif(k, 3) NOT IN (SELECT nullif(k, 2) FROM {c}) OR id = 4"
    ),
    "EXISTS beside another condition": (
        "SELECT id FROM {o} AS o WHERE EXISTS (SELECT 1 FROM {c} AS c WHERE c.k = o.k) OR id < 10"
    ),
    "left join without equality": (
        "SELECT o.id, c.name FROM {o} AS o LEFT JOIN {c} AS c ON o.k > c.k AND o.id < 50"
    ),
    "cross join": "SELECT o.id, c.name FROM {o} AS o CROSS JOIN {c} AS c WHERE o.id < 20",
    "hash join": "SELECT /*+ SHUFFLE_HASH(c) */ o.id, c.name FROM {o} AS o JOIN {c} AS c ON o.k = c.k",
    "broadcast join": "SELECT /*+ BROADCAST(c) */ o.id, c.name FROM {o} AS o JOIN {c} AS c ON o.k = c.k",
    "broadcast join under an aggregate": (
        "SELECT /*+ BROADCAST(c) */ c.name, sum(o.a) AS a FROM {o} AS o LEFT "
        "JOIN {c} AS c ON o.k = c.k GROUP BY c.name"
    ),
    "window": (
        "SELECT id, row_number() OVER (PARTITION BY k ORDER BY id) AS r, "
        "sum(a) OVER (PARTITION BY s ORDER BY id ROWS 2 PRECEDING) AS w FROM {o}"
    ),
    "generator": "SELECT id, e FROM {o} LATERAL VIEW explode(array(id, id + 1)) AS e WHERE id < 9",
    "UNION ALL under an aggregate": (
        "SELECT k, count(*) AS n FROM (SELECT k FROM {o} UNION ALL SELECT k FROM {c}) GROUP BY k"
    ),
    "UNION": "SELECT k FROM {o} UNION SELECT k FROM {c}",
    "EXCEPT ALL": "SELECT k FROM {o} EXCEPT ALL SELECT k FROM {c}",
    "INTERSECT": "SELECT k FROM {o} INTERSECT SELECT k FROM {c}",
    "self join": "SELECT a.id, b.id AS other FROM {o} AS a JOIN {o} AS b ON a.id = b.id + 1 AND a.k = 3",
    "ORDER BY and LIMIT": "SELECT id, d FROM {o} ORDER BY d DESC LIMIT 7",
    "LIMIT of a UNION ALL": (
        "SELECT k, count(*) AS n FROM (SELECT k FROM (SELECT k FROM {o} UNION ALL SELECT k FROM {c}) "
        "ORDER BY k LIMIT 5 OFFSET 2) GROUP BY k"
    ),
    "LATERAL with LIMIT": (
        "SELECT c.k, l.id FROM {c} AS c, LATERAL (SELECT id FROM {o} AS o WHERE o.k = c.k ORDER BY id DESC "
        "LIMIT 2) AS l"
    ),
    "functions of all values": (
        "SELECT k, percentile(id, 0.5) AS p, median(a) AS m, mode(s, true) AS o, collect_set(k) AS l, "
        "max_by(id, a) AS b, bit_or(id) AS c, approx_count_distinct(s) AS n, "
        "listagg(s, ',') WITHIN GROUP (ORDER BY id) AS t FROM {o} GROUP BY k"
    ),
    "DISTINCT functions without keys": (
        "SELECT count(DISTINCT id) AS n, count(DISTINCT s, k) AS m, sum(DISTINCT a) AS t, max(d) AS x "
        "FROM {o}"
    ),
    "ROLLUP": "SELECT k, s, count(*) AS n FROM {o} GROUP BY ROLLUP (k, s)",
    "nested types": (
        "SELECT id, named_struct('a', k, 'b', items) AS st, map(s, part) AS m, m['a'] AS x "
        "FROM {o} WHERE id < 5"
    ),
    "a nested key": "SELECT part, count(*) AS n FROM {o} GROUP BY part",
    "WITH": (
        "WITH w AS (SELECT k, a FROM {o}) SELECT k, a FROM w JOIN (SELECT k, max(a) AS a FROM w "
        "GROUP BY k) USING (k, a)"
    ),
    "a function in Python": "SELECT twice(id) AS x FROM {o}",
    "a function in Python below an aggregate": "SELECT k, sum(twice(id)) AS x FROM {o} GROUP BY k",
    "a join of constants": "SELECT v.x, o.id FROM {o} AS o JOIN VALUES (2), (300) AS v(x) ON o.k > v.x",
    "constants that exist": (
        "SELECT id FROM {o} AS o WHERE EXISTS (SELECT 1 FROM VALUES (2), (5) AS v(x) WHERE o.k = v.x)"
    ),
    "a left join of constants": (
        "SELECT v.x, o.id FROM VALUES (2), (300), (NULL) AS v(x) LEFT JOIN {o} AS o ON o.k > v.x + 3"
    ),
    "a semi join of constants": (
        "SELECT /*+ BROADCAST(o) */ o.id FROM {o} AS o LEFT SEMI JOIN VALUES (2), (300) AS v(x) ON o.k > v.x"
    ),
    "constants for which rows exist": (
        "SELECT x FROM VALUES (2), (300), (NULL) AS v(x) WHERE EXISTS (SELECT 1 FROM {c} AS c WHERE c.k < x) "
        "OR x < 3"
    ),
    "a full join of constants below a broadcast": (
        "SELECT /*+ BROADCAST(v) */ o.id FROM {o} AS o JOIN (SELECT coalesce(a.x, b.y) AS x FROM "
        "VALUES (1), (2) AS a(x) FULL JOIN VALUES (2), (3) AS b(y) ON a.x < b.y) AS v ON o.k = v.x"
    ),
    "a LIMIT of constants": (
        "SELECT o.id FROM {o} AS o JOIN (SELECT x FROM VALUES (3), (1), (2) AS v(x) ORDER BY x "
        "LIMIT 2) AS v ON o.k = v.x"
    ),
    "a constant": "SELECT 1 AS one, VALUE FROM {c} AS c CROSS JOIN (VALUES (2), (3)) AS v(VALUE)",
}
REFUSED = {
    "a scalar subquery": "SELECT id FROM {o} WHERE k = (SELECT max(k) FROM {c})",
    "the current time": "SELECT id, at < current_timestamp() AS past FROM {o}",
    "a random number": "SELECT id, rand() AS r FROM {o}",
    "a table": "SELECT o.id, t.a FROM {o} AS o JOIN inlined AS t ON o.id = t.a",
    "a relation of another": "SELECT id FROM {o} UNION ALL SELECT a FROM cached",
    "rows without an end": "SELECT o.id FROM {o} AS o CROSS JOIN range(10000000000) AS r",
}
ERRORS = {
    "division by zero": "SELECT id / (k - k) AS x FROM {o}",
    "a cast": "SELECT CAST(concat('x', s) AS INT) AS x FROM {o}",
    "an overflow": "SELECT k, sum(CAST(9223372036854775807 AS BIGINT)) AS x FROM {o} GROUP BY k",
    "an error that is raised": "SELECT raise_error(s) AS x FROM {o}",
}


@pytest.fixture(scope="module")
def session(module_driver: SparkDriver) -> SparkSession:
    session = module_driver.new_session()
    session.udf.register("twice", lambda value: value * 2, "bigint")
    return session


class Relations:
    """The relations that the shapes read, with a function of their sizes."""

    def __init__(self, session: SparkSession, first: int, last: int, cities: int) -> None:
        self.session = session
        self.frames = {"o": session.sql(ORDERS.format(first, last)), "c": session.sql(CITIES.format(cities))}
        self.rows = {name: local_rows(frame, frame.toArrow()) for name, frame in self.frames.items()}

    def by_job(self, text: str) -> Table:
        with temporary_view(self.frames["o"]) as o, temporary_view(self.frames["c"]) as c:
            return self.session.sql(text.format(o=o, c=c)).toArrow()


def plan_of(session: SparkSession, relations: Relations, text: str) -> InlinePlan | None:
    schemas = {name: rows.schema for name, rows in relations.rows.items()}
    return plan_inline(session, schemas, lambda views: session.sql(text.format(**views)))


def rows_of(session: SparkSession, name: str) -> SourceRows:
    """Return the rows of a table of Iceberg's as its readers give them."""
    table = static_member(session, "org.apache.iceberg.spark.Spark3Util.loadIcebergTable")(
        session._jsparkSession, name
    )
    return source_rows(session, table, planned_tasks(session, table.newScan()))


def listed(rows: Table | None) -> list[str]:
    assert rows is not None
    return sorted(map(repr, rows.to_pylist()))


def message(compute: Callable[[], object]) -> str:
    """Return what the error of a query says."""
    with pytest.raises(SPARK_ERRORS) as raised:
        compute()
    return str(translate(raised.value)).splitlines()[0]


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES.keys())
def test_a_plan_gives_what_a_job_gives_over_the_rows_of_each_run(session: SparkSession, text: str) -> None:
    runs = [
        Relations(session, 0, 100, 5),
        Relations(session, 30, 70, 3),
        Relations(session, 0, 0, 0),
        Relations(session, 0, 100, 0),
    ]
    expected = [listed(relations.by_job(text)) for relations in runs]
    before = started_jobs(session)

    plan = plan_of(session, runs[0], text)
    assert plan is not None
    given = [plan.run(session, relations.rows) for relations in runs]

    assert [listed(rows.rows) for rows in given] == expected
    assert started_jobs(session) == before


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_a_query_that_takes_a_job_or_whose_plan_would_be_another_one_is_refused_when_it_is_planned(
    session: SparkSession, text: str
) -> None:
    session.sql("CREATE TABLE IF NOT EXISTS inlined (a BIGINT) USING iceberg")
    session.range(3).selectExpr("id AS a").localCheckpoint().createOrReplaceTempView("cached")

    assert plan_of(session, Relations(session, 0, 10, 5), text) is None


@pytest.mark.parametrize("text", ERRORS.values(), ids=ERRORS.keys())
def test_an_error_says_what_it_says_of_a_job_and_leaves_no_memory_taken(
    session: SparkSession, text: str
) -> None:
    relations = Relations(session, 0, 10, 5)
    plan = plan_of(session, relations, text)

    assert plan is not None
    inline = message(lambda: plan.run(session, relations.rows))

    # A job that fails ends while others of its tasks still run.
    assert memory_taken(session) == 0
    assert inline == message(lambda: relations.by_job(text))


def memory_taken(session: SparkSession) -> int:
    """Return how many bytes of Spark's memory tasks hold."""
    manager: Any = static_member(session, "org.apache.spark.SparkEnv.get")().memoryManager()
    return int(manager.executionMemoryUsed())


LONG = (
    "SELECT count(*) AS n FROM {o} AS a JOIN {o} AS b ON a.id + b.id < 0 AND a.k <> b.k "
    "JOIN {o} AS c ON b.d + c.d < 0"
)


def test_a_cancelled_job_ends_its_inline_task_and_shows_it_until_then(spark_driver: SparkDriver) -> None:
    session = spark_driver.new_session()
    relations, failures = Relations(session, 0, 3000, 5), list[BaseException]()
    plan = plan_of(session, relations, LONG)
    assert plan is not None

    def work() -> None:
        try:
            with spark_driver.run_tagged("inline", "statements", "a join that does not end"):
                plan.run(session, relations.rows)
        except MtError as error:
            failures.append(error)

    thread = Thread(target=work)
    thread.start()
    wait_until(lambda: spark_driver.progress("inline") == Progress(done=0, total=1), "the task is not shown")
    spark_driver.cancel("inline")
    thread.join(60)

    assert [type(failure) for failure in failures] == [Canceled]
    spark_driver.wait_tasks("inline")
    assert (spark_driver.progress("inline"), memory_taken(session)) == (Progress(done=1, total=1), 0)


HUNG = """implements org.apache.spark.sql.connector.catalog.SupportsRead,
    org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns,
    org.apache.spark.sql.connector.read.Scan,
    org.apache.spark.sql.connector.read.Batch, org.apache.spark.sql.connector.read.PartitionReaderFactory,
    org.apache.spark.sql.connector.read.InputPartition,
    org.apache.spark.sql.connector.read.PartitionReader<org.apache.spark.sql.catalyst.InternalRow> {
    private final java.util.concurrent.CountDownLatch closed = new java.util.concurrent.CountDownLatch(1);
    public String name() { return "hung"; }
    public StructType schema() { return new StructType().add("id", "bigint"); }
    public java.util.Set<org.apache.spark.sql.connector.catalog.TableCapability> capabilities() {
        return java.util.Set.of();
    }
    public Hung newScanBuilder(org.apache.spark.sql.util.CaseInsensitiveStringMap options) { return this; }
    public void pruneColumns(StructType columns) {}
    public Hung build() { return this; }
    public StructType readSchema() { return schema(); }
    public Hung toBatch() { return this; }
    public org.apache.spark.sql.connector.read.InputPartition[] planInputPartitions() {
        return new Hung[] {this};
    }
    public Hung createReaderFactory() { return this; }
    public Hung createReader(org.apache.spark.sql.connector.read.InputPartition part) { return this; }
    public boolean next() throws java.io.IOException {
        try { closed.await(); } catch (InterruptedException cause) { throw new IllegalStateException(cause); }
        throw new java.io.IOException("The stream is closed.");
    }
    public org.apache.spark.sql.catalyst.InternalRow get() { return null; }
    public void close() { closed.countDown(); }
}"""


def test_a_cancelled_job_ends_its_inline_task_that_waits_for_a_store(
    spark_driver: SparkDriver, tmp_path: Path
) -> None:
    session, failures = spark_driver.new_session(), list[BaseException]()
    jvm: Any = session._jvm
    urls = session._sc._gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.net.URL(function_jar(tmp_path, "hung.jar", Hung=HUNG).as_uri())
    table = jvm.java.net.URLClassLoader(urls).loadClass("shop.Hung").newInstance()
    java = own_class(session, "freshtable.inline.SourceRows").of(
        session._jsparkSession, table, table.schema()
    )
    rows = {"hung": SourceRows(session=session, tasks=None, schema=columns_of(java.columns()), java=java)}

    def work() -> None:
        try:
            with spark_driver.run_tagged("hung", "statements", "a read that waits for its store"):
                InlinePlans().sql(
                    session, None, lambda names: f"SELECT count(*) AS n FROM {names['hung']}", rows
                )
        except MtError as error:
            failures.append(error)

    thread = Thread(target=work)
    thread.start()
    wait_until(lambda: spark_driver.progress("hung") == Progress(done=0, total=1), "the task is not shown")
    spark_driver.cancel("hung")
    thread.join(60)

    assert [type(failure) for failure in failures] == [Canceled]
    assert memory_taken(session) == 0


def test_tasks_that_begin_after_their_job_was_cancelled_end_at_once(spark_driver: SparkDriver) -> None:
    session = spark_driver.new_session()
    relations = Relations(session, 0, 3, 5)
    plan = plan_of(session, relations, "SELECT id FROM {o}")
    assert plan is not None

    def cancelled() -> None:
        with spark_driver.run_tagged("ended", "statements", "a job that is cancelled"):
            spark_driver.cancel("ended")
            plan.run(session, relations.rows)

    with pytest.raises(Canceled):
        cancelled()


@pytest.mark.slow
def test_tasks_that_are_cancelled_as_they_read_leave_their_jvm_alive(spark_driver: SparkDriver) -> None:
    session, plans, before = spark_driver.new_session(), InlinePlans(), spark_driver.pid
    session.sql(
        "CREATE TABLE lake.default.texts (s STRING) USING iceberg "
        "TBLPROPERTIES ('write.parquet.dict-size-bytes' = '1')"
    )
    session.sql("INSERT INTO lake.default.texts SELECT repeat(uuid(), 40) FROM range(0, 20000, 1, 1)")
    rows = {"t": rows_of(session, "lake.default.texts")}

    ended = list[str]()

    def work(job_id: str) -> None:
        try:
            with spark_driver.run_tagged(job_id, "statements", "a reading"):
                plans.sql(
                    session,
                    None,
                    lambda names: f"SELECT s FROM {names['t']} WHERE s NOT RLIKE '^[-0-9a-f]+$'",
                    rows,
                )
        except Canceled:
            ended.append(job_id)

    for number in range(12):
        thread = Thread(target=work, args=(f"read-{number}",))
        thread.start()
        tag = f"read-{number}"
        wait_until(lambda tag=tag: spark_driver.progress(tag) is not None, "the task is not shown")
        spark_driver.cancel(f"read-{number}")
        thread.join(60)
        assert not thread.is_alive()

    assert (spark_driver.pid, memory_taken(session), bool(ended)) == (before, 0, True)


@pytest.mark.slow
def test_thousands_of_runs_leave_jobs_as_they_were(session: SparkSession) -> None:
    relations = Relations(session, 0, 3, 5)
    plan = plan_of(session, relations, "SELECT id FROM {o}")
    assert plan is not None

    counts = {plan.run(session, relations.rows).count() for _ in range(1100)}

    assert counts == {3}
    assert (
        session.sql(
            "SELECT /*+ BROADCAST(b) */ count(*) FROM range(9) JOIN range(4) AS b USING (id)"
        ).collect()[0][0]
        == 4
    )


COUNTED = "implements UDF1<Long, Long> { private long calls; public Long call(Long any) { return ++calls; } }"


def test_each_run_has_an_object_of_its_own_of_a_users_class(
    spark_driver: SparkDriver, tmp_path: Path
) -> None:
    session = spark_driver.new_session()
    jar = str(function_jar(tmp_path, "counted.jar", Counted=COUNTED))
    session._jsc.sc().addFile(jar)  # type: ignore[union-attr]
    counted = users_functions(session).builder(
        *("counted", java_strings(session, ["counted.jar"]), "shop.Counted"),
        *(session._jsparkSession.parseDataType('"long"'), None, True),
    )
    state_of(session).functionRegistry().createOrReplaceTempFunction("counted", counted, "java_udf")
    relations = Relations(session, 0, 3, 5)
    plan = plan_of(session, relations, "SELECT counted(id) AS n FROM {o}")
    assert plan is not None

    runs = [listed(plan.run(session, relations.rows).rows) for _ in range(2)]

    assert runs[0] == runs[1] == ["{'n': 1}", "{'n': 2}", "{'n': 3}"]


def test_rows_that_a_task_read_in_vain_are_not_counted(
    spark_driver: SparkDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = spark_driver.new_session()
    session.sql("CREATE TABLE lake.default.again (a BIGINT) USING iceberg")
    session.sql("INSERT INTO lake.default.again SELECT id FROM range(100)")
    rows = {"t": rows_of(session, "lake.default.again")}
    monkeypatch.setattr(inline_plans, "MOST_LOCAL", 50)

    with spark_driver.run_tagged("again", "statements", "a reading"):
        inline = InlinePlans().sql(session, None, lambda names: f"SELECT a FROM {names['t']}", rows)
        session.sql("SELECT a FROM lake.default.again").toArrow()

    assert (inline, spark_driver.rows_read("again")) == (None, 100)


def test_after_a_run_that_gives_more_than_is_held_a_job_runs_unless_half_as_many_rows_are_given(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans, lineage = InlinePlans(), Kept()

    def run(rows: int) -> int | None:
        given = {"o": Relations(session, 0, rows, 5).rows["o"]}
        found = plans.sql(session, lineage, lambda names: f"SELECT id FROM {names['o']} WHERE id < 11", given)
        return None if found is None else found.count()

    few = run(10)
    monkeypatch.setattr(inline_plans, "MOST_LOCAL", 10)
    more = run(100)
    monkeypatch.undo()

    assert (few, more) == (10, None)
    assert (run(51), run(50), run(100), memory_taken(session)) == (None, 11, None, 0)


def test_the_plans_used_last_are_kept_as_far_as_the_bytes_go(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans, lineage, rows, made = InlinePlans(), Kept(), Relations(session, 0, 10, 5).rows, list[int]()

    def noted(*given: Any) -> InlinePlan | None:
        plan = plan_inline(*given)
        made.append(plan.size if plan is not None else 0)
        return plan

    def run(number: int) -> int:
        plans.sql(
            session,
            lineage,
            lambda names: f"SELECT id + {number} AS x FROM {names['o']}",
            rows,  # type: ignore[arg-type]
        )
        return len(made)

    monkeypatch.setattr(inline_plans, "plan_inline", noted)
    first = [run(1), run(2), run(1)]
    monkeypatch.setattr(inline_plans, "MOST_KEPT", made[0] + made[1])

    assert first == [1, 2, 2]
    assert [run(3), run(1), run(2)] == [3, 3, 4]


def test_a_plan_runs_in_many_threads_beside_jobs(session: SparkSession) -> None:
    relations = Relations(session, 0, 1000, 5)
    texts = [
        SHAPES[name] for name in ("aggregate", "left join", "window", "NOT IN", "broadcast join", "aggregate")
    ]
    plans = [plan_of(session, relations, text) for text in texts]
    expected = [listed(relations.by_job(text)) for text in texts]

    def same(number: int) -> bool:
        plan = plans[number % 5]
        assert plan is not None
        return listed(plan.run(session, relations.rows).rows) == expected[number % 5]

    with ThreadPoolExecutor(6) as threads:
        jobs = [threads.submit(lambda: listed(relations.by_job(texts[0])) == expected[0]) for _ in range(3)]
        runs = list(threads.map(same, range(120)))

    assert all(runs)
    assert all(job.result() for job in jobs)
    assert memory_taken(session) == 0


def test_one_plan_runs_in_the_threads_of_all_batches_of_a_stream(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relations, found, made, plans = (
        Relations(session, 0, 100, 5),
        list[list[str]](),
        list[int](),
        InlinePlans(),
    )

    def noted(*given: Any) -> InlinePlan | None:
        made.append(len(found))
        return plan_inline(*given)

    def batch(rows: DataFrame, number: int) -> None:
        result = plans.sql(
            rows.sparkSession, None, lambda names: SHAPES["aggregate"].format(**names), relations.rows
        )
        assert result is not None
        found.append(listed(result.rows))

    monkeypatch.setattr(inline_plans, "plan_inline", noted)
    source = session.readStream.format("rate").option("rowsPerSecond", 10).load()
    stream = source.writeStream.option("checkpointLocation", str(tmp_path)).foreachBatch(batch).start()
    try:
        wait_until(lambda: len(found) > 2, "no batches")
    finally:
        stream.stop()

    assert made == [0]
    assert found[:3] == 3 * [listed(relations.by_job(SHAPES["aggregate"]))]


class Kept:
    """What plans are kept for."""
