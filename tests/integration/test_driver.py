from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from mt_core.errors import Canceled, EngineError, EngineUnavailable, QueryFailed
from mt_core.model.progress import Progress
from mt_core.spark.catalogs.plugins import plugins_of
from mt_core.spark.driver import jobs, jvm_watch
from mt_core.spark.driver import spark_driver as driver_module
from mt_core.spark.driver.conf import INTERACTIVE_POOL, REFRESH_POOL
from mt_core.spark.driver.jvm_objects import static_member, static_value
from mt_core.spark.driver.spark_driver import DriverState, SparkDriver

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

# Less than what is slow takes when nobody ends it, and many times what its end takes.
ENDS_S = 30.0
SLOW = "SELECT count(*) FROM range(0, 12000000000, 1, 200) WHERE id % 7 = hash(id) % 11"
LOCAL_PROPERTIES = ("spark.scheduler.pool", "spark.jobGroup.id", "spark.job.description", "spark.job.tags")


def eventually(condition: Callable[[], bool], timeout_s: float = 100) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline:
        threading.Event().wait(0.02)
    return condition()


class Work:
    """A statement that runs as a job in a thread of its own."""

    def __init__(self, driver: SparkDriver, job_id: str, sql: str) -> None:
        self.error: BaseException | None = None
        self._driver, self._job_id, self._sql = driver, job_id, sql
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._driver.run_tagged(self._job_id, INTERACTIVE_POOL, "work"):
                self._driver.session.sql(self._sql).toArrow()
        except (Canceled, EngineUnavailable, QueryFailed) as error:
            self.error = error

    def ended(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()


def test_the_default_catalog_is_lake_with_a_default_namespace(spark_driver: SparkDriver) -> None:
    row = (
        spark_driver.new_session().sql("SELECT current_catalog(), current_schema()").toArrow().to_pylist()[0]
    )

    assert list(row.values()) == ["lake", "default"]


def test_a_job_shows_progress_while_it_runs_and_ends_when_it_is_cancelled(spark_driver: SparkDriver) -> None:
    work = Work(spark_driver, "slow", SLOW)

    seen = eventually(lambda: spark_driver.progress("slow") is not None)
    progress = spark_driver.progress("slow")
    spark_driver.cancel("slow")

    assert seen
    assert progress is not None
    assert progress.total == 200
    assert work.ended(ENDS_S)
    assert isinstance(work.error, Canceled)


def test_a_job_whose_stage_spark_forgets_while_it_is_read_has_no_progress_and_no_rows(
    spark_driver: SparkDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with spark_driver.run_tagged("forgotten", INTERACTIVE_POOL, "work"):
        spark_driver.session.sql("SELECT count(*) FROM range(0, 100, 1, 2)").toArrow()
    known = spark_driver.progress("forgotten"), spark_driver.rows_read("forgotten")
    monkeypatch.setattr(jobs, "handle_of", partial(forgetful, jobs.handle_of))

    forgotten = spark_driver.progress("forgotten"), spark_driver.rows_read("forgotten")

    assert known[0] is not None
    assert (known[0].rows_read, known[1]) == (100, 100)
    assert forgotten == (None, None)


def forgetful(handle_of: Callable[[SparkContext], jobs.Handle], context: SparkContext) -> jobs.Handle:
    """Return a handle whose tracker answers about a stage right before Spark forgets it,
    as it does with the oldest ones.
    """
    handle, gateway = handle_of(context), context._gateway
    spark = handle.spark
    assert gateway is not None
    tracker, store = spark.statusTracker(), spark.statusStore().store()
    stages = gateway.jvm.java.lang.Class.forName("org.apache.spark.status.StageDataWrapper")

    def info_before(stage_id: int) -> Any:
        info, key = tracker.getStageInfo(stage_id), gateway.new_array(gateway.jvm.int, 2)
        key[0], key[1] = stage_id, 0
        store.delete(stages, key)
        return info

    then_forgets = SimpleNamespace(
        getJobIdsForTag=tracker.getJobIdsForTag, getJobInfo=tracker.getJobInfo, getStageInfo=info_before
    )
    forgetting = SimpleNamespace(
        statusTracker=lambda: then_forgets, statusStore=spark.statusStore, listenerBus=spark.listenerBus
    )
    return replace(handle, spark=forgetting)


def test_progress_that_cannot_be_read_is_left_out(
    spark_driver: SparkDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(context: SparkContext, _job_id: str) -> Progress:
        context._jvm.java.util.Optional.empty().get()  # type: ignore[union-attr]
        raise AssertionError

    monkeypatch.setattr(jobs, "progress", failing)

    assert spark_driver.progress("any") is None


def test_cancel_ends_one_job_and_leaves_the_other(spark_driver: SparkDriver) -> None:
    cancelled, other = Work(spark_driver, "one", SLOW), Work(spark_driver, "other", SLOW)
    assert eventually(lambda: all(spark_driver.progress(job) is not None for job in ("one", "other")))

    spark_driver.cancel("one")

    assert cancelled.ended(ENDS_S)
    assert not other.ended(0.5)
    spark_driver.cancel("other")
    assert other.ended(ENDS_S)


def test_a_job_that_begins_after_its_cancel_is_refused(spark_driver: SparkDriver) -> None:
    spark_driver.cancel("early")

    work = Work(spark_driver, "early", "SELECT 1")

    assert work.ended(ENDS_S)
    assert isinstance(work.error, Canceled)


def test_a_cancel_between_two_steps_of_a_job_refuses_the_second_step(spark_driver: SparkDriver) -> None:
    session = spark_driver.new_session()
    count = session.sql("SELECT count(*) FROM range(100)")

    def two_steps() -> None:
        with spark_driver.run_tagged("steps", REFRESH_POOL, "two steps"):
            count.toArrow()
            spark_driver.cancel("steps")
            count.toArrow()

    with pytest.raises(Canceled):
        two_steps()

    assert count.toArrow().num_rows == 1


def test_a_cancel_while_a_query_is_planned_ends_its_first_shuffle_too(spark_driver: SparkDriver) -> None:
    planned, cancelled = threading.Event(), threading.Event()
    error: list[BaseException] = []

    def work() -> None:
        try:
            with spark_driver.run_tagged("planned", INTERACTIVE_POOL, "planned"):
                planned.set()
                cancelled.wait(30)
                spark_driver.session.sql(SLOW).toArrow()
        except Canceled as found:
            error.append(found)

    thread = threading.Thread(target=work)
    thread.start()
    planned.wait(30)
    spark_driver.cancel("planned")
    cancelled.set()
    thread.join(30)

    assert not thread.is_alive()
    assert len(error) == 1


def test_a_job_leaves_nothing_behind_in_its_thread(spark_driver: SparkDriver) -> None:
    context = spark_driver.session.sparkContext

    with spark_driver.run_tagged("tidy", REFRESH_POOL, "tidy"):
        within = [context.getLocalProperty(name) for name in LOCAL_PROPERTIES]
    after = [context.getLocalProperty(name) for name in LOCAL_PROPERTIES]

    assert within[:3] == [REFRESH_POOL, "tidy", "tidy"]
    assert after == [None] * 4


def test_interactive_statements_weigh_more_than_refreshes(spark_driver: SparkDriver) -> None:
    pools = spark_driver.session.sparkContext._jsc.sc().getAllPools()
    found = [pools.apply(index) for index in range(pools.size())]
    weights = {pool.name(): pool.weight() for pool in found}

    assert weights[INTERACTIVE_POOL] > weights[REFRESH_POOL]


@pytest.mark.kills
def test_a_killed_jvm_is_noticed_and_replaced_by_itself(spark_driver: SparkDriver) -> None:
    generation, pid = spark_driver.generation, spark_driver.pid
    works = [Work(spark_driver, job_id, SLOW) for job_id in ("doomed", "beside")]
    assert eventually(lambda: None not in [spark_driver.progress(job_id) for job_id in ("doomed", "beside")])

    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    for work in works:
        assert work.ended(ENDS_S)
        assert isinstance(work.error, EngineUnavailable)
        assert not work.error.alone
    assert eventually(lambda: spark_driver.state is not DriverState.READY)
    with pytest.raises(EngineUnavailable):
        spark_driver.new_session()
    assert spark_driver.wait_ready(60)
    assert (spark_driver.state, spark_driver.generation) == (DriverState.READY, generation + 1)
    assert spark_driver.pid != pid


@pytest.mark.slow
def test_a_stopped_spark_context_is_replaced_like_a_dead_jvm(spark_driver: SparkDriver) -> None:
    generation = spark_driver.generation
    spark_driver.session.sparkContext._jsc.sc().stop()

    with pytest.raises(EngineUnavailable) as lost, spark_driver.run_tagged("only", INTERACTIVE_POOL, "work"):
        spark_driver.session.sql("SELECT count(*) FROM range(10)").toArrow()

    assert lost.value.alone
    assert eventually(
        lambda: spark_driver.state is DriverState.READY and spark_driver.generation == generation + 1
    )


@pytest.mark.slow
def test_a_jvm_that_does_not_answer_is_said_to_be_silent_then_ended_and_replaced(
    spark_driver: SparkDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm_watch, "REPORTED_AFTER_S", jvm_watch.POLL_EVERY_S)
    monkeypatch.setattr(jvm_watch, "STALLED_AFTER_S", 2 * jvm_watch.POLL_EVERY_S)
    monkeypatch.setenv("FRESHTABLE_SQL_GATEWAY_SECURITY_TOKENS", "hunter2")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "needed")
    generation, pid, temporary = spark_driver.generation, spark_driver.pid, spark_driver.settings.temporary
    assert pid is not None
    assert temporary is not None
    spark_driver.session.sql("CREATE TABLE lake.default.survivor AS SELECT 1 AS a")
    left = {path.name for path in temporary.iterdir()}
    assert (spark_driver.trouble(), spark_driver.answers()) == ("", True)
    monkeypatch.setattr(driver_module, "ANSWER_S", 0.5)

    os.kill(pid, signal.SIGSTOP)
    work = Work(spark_driver, "unanswered", "SELECT 1")

    assert spark_driver.workload() is None
    assert eventually(lambda: spark_driver.trouble().startswith("Spark has not answered for 5 s"))
    assert not spark_driver.answers()
    assert work.ended(ENDS_S)
    assert isinstance(work.error, EngineUnavailable)
    assert work.error.message.startswith("Spark stopped answering and is being restarted")
    assert eventually(lambda: spark_driver.generation == generation + 1)
    assert (spark_driver.state, spark_driver.trouble()) == (DriverState.READY, "")
    assert eventually(lambda: spark_driver.workload() is not None)
    rows = spark_driver.new_session().sql("SELECT a FROM survivor").toArrow().to_pylist()
    assert rows == [{"a": 1}]
    assert any(name.startswith("blockmgr-") for name in left)
    assert left.isdisjoint(path.name for path in temporary.iterdir())
    # The new JVM's environment has what libraries read there, and nothing that is the gateway's alone.
    names = ("FRESHTABLE_SQL_GATEWAY_SECURITY_TOKENS", "AWS_ACCESS_KEY_ID")
    env = ", ".join(f"reflect('java.lang.System', 'getenv', '{name}') AS {name[:3]}" for name in names)
    [seen] = spark_driver.new_session().sql(f"SELECT {env}").toArrow().to_pylist()
    assert (seen["FRE"], seen["AWS"]) == ("null", "needed")


def test_the_workload_of_spark_is_known_while_a_job_runs_and_afterwards(spark_driver: SparkDriver) -> None:
    work = Work(spark_driver, "measured", SLOW)

    # Jobs that an earlier test has cancelled may still end.
    assert eventually(
        lambda: (now := spark_driver.workload()) is not None and now.jobs == 1 and now.tasks > 0
    )
    busy = spark_driver.workload()
    spark_driver.cancel("measured")

    assert work.ended(ENDS_S)
    assert busy is not None
    assert (busy.jobs, busy.executors, sorted(busy.memory)) == (1, 1, ["heap", "nonheap"])
    assert busy.memory["heap"] > 1_000_000
    assert eventually(lambda: (idle := spark_driver.workload()) is not None and idle.jobs == idle.tasks == 0)


def test_a_method_that_java_does_not_have_is_an_error_of_the_call_not_the_loss_of_spark(
    spark_driver: SparkDriver,
) -> None:
    with (
        pytest.raises(
            EngineError,
            match=r"Spark failed: org\.apache\.spark\.SparkContext\.missing does not exist in the JVM\.",
        ),
        spark_driver.translating(),
    ):
        static_member(spark_driver.session, "org.apache.spark.SparkContext.missing")


def test_a_static_method_is_found_whatever_methods_of_objects_have_its_name(
    spark_driver: SparkDriver,
) -> None:
    cache = static_value(spark_driver.session, "org.apache.iceberg.spark.SparkTableCache.get")

    assert cache.size() == 0


def test_a_thread_that_begins_to_ask_the_jvm_has_the_end_of_each_answer_at_once(
    spark_driver: SparkDriver,
) -> None:
    session = spark_driver.new_session()
    server = session.sparkContext._gateway.java_gateway_server
    connections = server.getClass().getSuperclass().getDeclaredField("connections")
    connections.setAccessible(True)

    def newest() -> bool:
        found = connections.get(server)
        return bool(found.get(found.size() - 1).getSocket().getTcpNoDelay())

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(newest).result()


def test_a_session_finds_the_rows_that_another_one_adds_to_files_after_it_has_read_them(
    spark_driver: SparkDriver,
) -> None:
    reader, writer = spark_driver.new_session(), spark_driver.new_session()
    # Nothing makes it the active one before its catalog is used.
    plugins_of(reader)
    writer.sql("CREATE TABLE spark_catalog.default.read_again (id INT) USING parquet")
    counted = "SELECT count(*) FROM spark_catalog.default.read_again"
    before = reader.sql(counted).collect()[0][0]

    writer.sql("INSERT INTO spark_catalog.default.read_again VALUES (1)")
    after = reader.sql(counted).collect()[0][0]

    writer.sql("DROP TABLE spark_catalog.default.read_again")
    assert (before, after) == (0, 1)


@pytest.mark.slow
def test_the_code_of_many_queries_is_compiled_once(spark_driver: SparkDriver) -> None:
    session = spark_driver.new_session()
    compilations = static_member(
        session, "org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME"
    )()

    def compile_all() -> int:
        """Have the code of some queries ready, and return how many times code was compiled for that."""
        before = compilations.getCount()
        for number in range(120):
            session.sql(f"SELECT id + {number} AS n FROM range(0, 1, 1, 1)")._jdf.queryExecution().toRdd()
        return int(compilations.getCount() - before)

    first = compile_all()
    again = compile_all()

    assert (first >= 120, again) == (True, 0)
