"""How soon does the sink of a streaming INSERT show a commit of its source?

How many rows per second does it process, compared with a hand-written streaming job, and what do idle jobs
cost?
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from uuid import uuid4

import psutil
from pyspark.sql import DataFrame, SparkSession

from benchmarks.bare_driver import bare_driver
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, show, wait_out_of_step
from mt_core.model.stream import StreamDefinition, StreamMember
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.streams.engine import SparkStreams

COMMITS, ROWS_EACH, ROWS_BEFORE = 15, 100, 100_000
TURNS, WARM_UP = 2, 5
INTERVAL_MS = 1000
MOST = 1.2
LARGE_ROWS, LARGE_COMMITS, LARGE_INTERVAL_MS, LEAST = 3_000_000, 4, 100, 0.85
IDLE_JOBS, IDLE_WITH_STATE, IDLE_S, MOST_IDLE = 50, 10, 20.0, 0.2
LONGEST_START_S, LONGEST_WAIT_S = 180.0, 60.0
SOURCE, STAGED, CLICKS = "lake.default.readings", "lake.default.staged", "lake.default.clicks"
QUERY = f"SELECT id, device, value * 2 AS doubled FROM {SOURCE}"

Keeping = Callable[[str], AbstractContextManager[None]]


def measure() -> Iterator[Finding]:
    """Yield the tables of lags, of throughput and of idle jobs."""
    with bare_driver() as (driver, folder):
        yield _measured(driver, str(folder))
        yield _throughput(driver, str(folder))
        yield _idle(driver, str(folder))


def _measured(driver: SparkDriver, folder: str) -> Finding:
    spark = driver.new_session()
    spark.sql(
        f"CREATE TABLE {SOURCE} USING iceberg AS SELECT id, pmod(id, 100) AS device, id AS value "
        f"FROM range({ROWS_BEFORE})"
    )
    keepers: dict[str, Keeping] = {
        "streaming INSERT": partial(_ours, driver, spark, folder),
        "hand-written foreachBatch": partial(_by_hand, spark, folder),
    }
    lags = {name: list[float]() for name in keepers}
    # The round before the first one warms up the JVM.
    for turn in range(-1, TURNS):
        for number, (name, kept) in enumerate(keepers.items()):
            taken = _lags(
                spark,
                f"lake.default.sink_{number}_{turn + 1}",
                kept,
                WARM_UP if turn < 0 else WARM_UP + COMMITS,
            )
            lags[name] += taken if turn >= 0 else []
    ours, other = map(Samples, lags.values())
    return Finding(
        title=(
            f"Commit to row in the sink of a stream: {ROWS_EACH} rows every 1 to 2 s, "
            f"trigger {INTERVAL_MS} ms"
        ),
        columns=["stream", "p50", "p99"],
        rows=[
            [name, show(taken.median), show(taken.percentile(99))]
            for name, taken in zip(keepers, (ours, other), strict=True)
        ],
        targets=[
            Target(
                asked=f"p50 and p99 at most {MOST} of the hand-written job",
                measured=(
                    f"{ours.median / other.median:.2f} and {ours.percentile(99) / other.percentile(99):.2f}"
                ),
                met=ours.median <= MOST * other.median and ours.percentile(99) <= MOST * other.percentile(99),
            )
        ],
        notes=[
            "From the commit of the source to the commit that makes its rows visible, "
            "as both logs have them; one stream at a time, all in one JVM, "
            f"{TURNS} turns of {COMMITS} commits each after {WARM_UP} others; p99 of so few is the greatest.",
            (
                "The hand-written job appends each batch to the table, "
                "and would write one twice after a failure."
            ),
        ],
    )


def _throughput(driver: SparkDriver, folder: str) -> Finding:
    spark = driver.new_session()
    spark.sql(
        f"CREATE TABLE {STAGED} USING iceberg AS SELECT id, pmod(id, 100) AS device, id AS value "
        f"FROM range({LARGE_ROWS})"
    )
    keepers: dict[str, Keeping] = {
        "streaming INSERT": partial(_ours, driver, spark, folder, interval_ms=LARGE_INTERVAL_MS),
        "hand-written foreachBatch": partial(_by_hand, spark, folder, interval_ms=LARGE_INTERVAL_MS),
    }
    taken = {name: list[float]() for name in keepers}
    for turn in range(-1, TURNS):
        for number, (name, kept) in enumerate(keepers.items()):
            lags = _large_lags(spark, f"lake.default.large_{number}_{turn + 1}", kept)
            taken[name] += lags if turn >= 0 else []
    ours, other = (LARGE_ROWS / Samples(lags).median for lags in taken.values())
    return Finding(
        title=(
            f"Rows a second of a stream that has fallen behind: commits of {LARGE_ROWS:,} rows, "
            f"trigger {LARGE_INTERVAL_MS} ms"
        ),
        columns=["stream", "rows a second"],
        rows=[[name, f"{rows:,.0f}"] for name, rows in zip(keepers, (ours, other), strict=True)],
        targets=[
            Target(
                asked=f"at least {LEAST} of the hand-written job",
                measured=f"{ours / other:.2f}",
                met=ours >= LEAST * other,
            )
        ],
        notes=[
            "From the commit of the source to the commit of the sink; the median of "
            f"{TURNS * LARGE_COMMITS} commits, one at a time, after {LARGE_COMMITS} that warm up.",
        ],
    )


def _large_lags(spark: SparkSession, target: str, kept: Keeping) -> list[float]:
    """Return how long each of some large commits took to appear in the sink."""
    spark.sql(f"DROP TABLE {SOURCE} PURGE")
    spark.sql(
        f"CREATE TABLE {SOURCE} USING iceberg AS "
        "SELECT id, pmod(id, 100) AS device, id AS value FROM range(1000)"
    )
    with kept(target):
        _wait(spark, target)
        for _ in range(LARGE_COMMITS):
            spark.sql(f"INSERT INTO {SOURCE} SELECT * FROM {STAGED}")
            _wait(spark, target)
    shown, commits = _shown(spark, target), _shown(spark, SOURCE)[-LARGE_COMMITS:]
    return [next(at for at, rows in shown if rows >= count) - committed for committed, count in commits]


def _idle(driver: SparkDriver, folder: str) -> Finding:
    spark, engine = driver.new_session(), SparkStreams(SparkContexts(driver))
    spark.sql(f"CREATE TABLE {CLICKS} (id BIGINT, at TIMESTAMP) USING iceberg")
    jobs = [_idle_job(spark, engine, folder, number) for number in range(IDLE_JOBS)]
    deadline = time.monotonic() + LONGEST_START_S
    while any(engine.progress(job_id).batch is None for job_id, _ in jobs):
        assert time.monotonic() < deadline, [str(engine.progress(job_id).error) for job_id, _ in jobs]
        # The first batch starts only when there are new rows.
        spark.sql(f"INSERT INTO {CLICKS} SELECT id, current_timestamp() FROM range(10)")
        time.sleep(5)
    time.sleep(IDLE_S)
    processes = [psutil.Process(os.getpid()), *psutil.Process(os.getpid()).children(recursive=True)]
    before, begun = _processor_s(processes), time.monotonic()
    time.sleep(IDLE_S)
    share = (_processor_s(processes) - before) / (time.monotonic() - begun)
    assert all(engine.progress(job_id).running for job_id, _ in jobs)
    for job_id, definition in jobs:
        engine.stop(job_id, definition)
    return Finding(
        title=(
            f"{IDLE_JOBS} streaming jobs, {IDLE_WITH_STATE} of them with state, whose source has nothing new"
        ),
        columns=["", "value"],
        rows=[["of a core", f"{share:.1%}"]],
        targets=[
            Target(asked=f"under {MOST_IDLE:.0%} of a core", measured=f"{share:.1%}", met=share < MOST_IDLE)
        ],
        notes=[
            (
                f"Processor time of Python and of its JVM in {IDLE_S:.0f} s; "
                f"trigger {INTERVAL_MS} ms, the default."
            )
        ],
    )


def _idle_job(
    spark: SparkSession, engine: SparkStreams, folder: str, number: int
) -> tuple[str, StreamDefinition]:
    target, source = f"lake.default.idle_{number}", CLICKS
    spark.sql(f"CREATE TABLE {target} (id BIGINT, at TIMESTAMP) USING iceberg")
    if number < IDLE_WITH_STATE:
        source = f"(SELECT DISTINCT id, at FROM {CLICKS} WATERMARK at DELAY OF INTERVAL 10 SECOND) AS clicks"
    return _started(engine, folder, f"INSERT INTO {target} SELECT id, at FROM {source}", INTERVAL_MS)


def _processor_s(processes: Sequence[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes if process.is_running()]
    return sum(each.user + each.system for each in times)


def _started(engine: SparkStreams, folder: str, text: str, interval_ms: int) -> tuple[str, StreamDefinition]:
    """Start a job, and return its id and its definition."""
    job_id = uuid4().hex
    definition = StreamDefinition(
        members=(StreamMember(text=text),),
        catalog="lake",
        namespace=("default",),
        zone="UTC",
        checkpoint=f"{folder}/{job_id}",
        interval_ms=interval_ms,
    )
    definition = engine.prepare(definition, job_id)
    engine.start(job_id, definition, 1)
    return job_id, definition


@contextmanager
def _ours(
    driver: SparkDriver, spark: SparkSession, folder: str, target: str, *, interval_ms: int = INTERVAL_MS
) -> Iterator[None]:
    _create(spark, target)
    engine = SparkStreams(SparkContexts(driver))
    job_id, definition = _started(engine, folder, f"INSERT INTO {target} {QUERY}", interval_ms)
    yield
    engine.stop(job_id, definition)


@contextmanager
def _by_hand(
    spark: SparkSession, folder: str, target: str, *, interval_ms: int = INTERVAL_MS
) -> Iterator[None]:
    _create(spark, target)
    spark.sql(f"INSERT INTO {target} {QUERY}")
    start = spark.sql(f"SELECT max(committed_at) FROM {SOURCE}.snapshots").head()
    assert start is not None

    def write(batch: DataFrame, number: int) -> None:
        batch.writeTo(target).option("snapshot-property.batch", str(number)).append()

    stream = (
        spark.readStream.option("stream-from-timestamp", int(start[0].timestamp() * 1000) + 1)
        .table(SOURCE)
        .selectExpr("id", "device", "value * 2 AS doubled")
        .writeStream.foreachBatch(write)
        .trigger(processingTime=f"{interval_ms} milliseconds")
        .option("checkpointLocation", f"{folder}/{target}")
        .start()
    )
    yield
    stream.stop()


def _create(spark: SparkSession, target: str) -> None:
    spark.sql(f"CREATE TABLE {target} (id BIGINT, device BIGINT, doubled BIGINT) USING iceberg")


def _lags(spark: SparkSession, target: str, kept: Keeping, commits: int) -> list[float]:
    """Return how long each commit, except the first ones, took to appear in the sink.

    *kept* maintains the sink during its block.
    """
    with kept(target):
        _wait(spark, target)
        for number in range(commits):
            begun = time.monotonic()
            spark.sql(f"INSERT INTO {SOURCE} SELECT id, pmod(id, 100), id FROM range({ROWS_EACH})")
            wait_out_of_step(begun, number)
        _wait(spark, target)
    shown = _shown(spark, target)
    measured = _shown(spark, SOURCE)[-(commits - WARM_UP) :] if commits > WARM_UP else []
    return [next(at for at, rows in shown if rows >= count) - committed for committed, count in measured]


def _wait(spark: SparkSession, target: str) -> None:
    """Wait until *target* has all rows."""
    wanted = _shown(spark, SOURCE)[-1][1]
    deadline = time.monotonic() + LONGEST_WAIT_S
    while _shown(spark, target)[-1][1] < wanted:
        assert time.monotonic() < deadline, f"{target} does not show all rows"
        time.sleep(0.5)


def _shown(spark: SparkSession, table: str) -> list[tuple[float, int]]:
    """Return when each version of a table became current (in seconds), and how many rows it has."""
    log = spark.sql(
        "SELECT h.made_current_at, coalesce(CAST(s.summary['total-records'] AS BIGINT), 0) "
        f"FROM {table}.history AS h JOIN {table}.snapshots AS s ON h.snapshot_id = s.snapshot_id ORDER BY 1"
    ).collect()
    return [(row[0].timestamp(), row[1]) for row in log] or [(0.0, 0)]
