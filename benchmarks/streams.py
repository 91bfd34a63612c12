"""How long after a commit does the sink of a streaming INSERT show it, beside a hand-written streaming job on the same source?"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, show
from mt_core.model.stream import StreamDefinition, StreamMember
from mt_core.spark.driver.conf import DriverSettings
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.jars import default_jars_dir
from mt_core.spark.streams.engine import SparkStreams

COMMITS, ROWS_EACH, ROWS_BEFORE = 15, 100, 100_000
TURNS, WARM_UP = 2, 5
INTERVAL_MS = 1000
MOST = 1.2
START_S, LONGEST_WAIT_S = 180.0, 60.0
SOURCE = "lake.default.readings"
QUERY = f"SELECT id, device, value * 2 AS doubled FROM {SOURCE}"

Keeping = Callable[[str], AbstractContextManager[None]]


def measure() -> Iterator[Finding]:
    """Yield the table of lags."""
    with TemporaryDirectory(prefix="freshtable-bench-") as folder:
        driver = SparkDriver(
            DriverSettings(
                catalog_url=f"jdbc:sqlite:file:{folder}/catalog.db",
                warehouse=f"{folder}/warehouse",
                jars_dir=default_jars_dir(os.environ),
                log_dir=Path(folder) / "logs",
                environ=dict(os.environ),
            )
        )
        driver.start()
        driver.wait_ready(START_S)
        try:
            yield _measured(driver, folder)
        finally:
            driver.stop()


def _measured(driver: SparkDriver, folder: str) -> Finding:
    spark = driver.new_session()
    spark.sql(
        f"CREATE TABLE {SOURCE} USING iceberg AS SELECT id, pmod(id, 100) AS device, id AS value FROM range({ROWS_BEFORE})"
    )
    keepers: dict[str, Keeping] = {
        "streaming INSERT": partial(_ours, driver, spark, folder),
        "hand-written foreachBatch": partial(_by_hand, spark, folder),
    }
    lags = {name: list[float]() for name in keepers}
    # The turn before the first one warms the JVM up.
    for turn in range(-1, TURNS):
        for number, (name, kept) in enumerate(keepers.items()):
            taken = _lags(
                spark, f"lake.default.sink_{number}_{turn + 1}", kept, WARM_UP if turn < 0 else WARM_UP + COMMITS
            )
            lags[name] += taken if turn >= 0 else []
    ours, other = map(Samples, lags.values())
    return Finding(
        title=f"Commit to row in the sink of a stream: {ROWS_EACH} rows a second, trigger {INTERVAL_MS} ms",
        columns=["stream", "p50", "p99"],
        rows=[
            [name, show(taken.median), show(taken.percentile(99))]
            for name, taken in zip(keepers, (ours, other), strict=True)
        ],
        targets=[
            Target(
                asked=f"p50 and p99 at most {MOST} of the hand-written job",
                measured=f"{ours.median / other.median:.2f} and {ours.percentile(99) / other.percentile(99):.2f}",
                met=ours.median <= MOST * other.median and ours.percentile(99) <= MOST * other.percentile(99),
            )
        ],
        notes=[
            "From the commit of the source to the commit that makes its rows visible, as both logs have them; one stream at a "
            f"time, all in one JVM, {TURNS} turns of {COMMITS} commits each after {WARM_UP} others; p99 of so few is the greatest.",
            "The hand-written job appends each batch to the table, and would write one twice after a failure.",
        ],
    )


@contextmanager
def _ours(driver: SparkDriver, spark: SparkSession, folder: str, target: str) -> Iterator[None]:
    _create(spark, target)
    engine, job_id = SparkStreams(driver), uuid4().hex
    definition = StreamDefinition(
        members=(StreamMember(text=f"INSERT INTO {target} {QUERY}"),),
        catalog="lake",
        namespace=("default",),
        zone="UTC",
        checkpoint=f"{folder}/{job_id}",
        interval_ms=INTERVAL_MS,
    )
    definition = engine.prepare(definition, job_id)
    engine.start(job_id, definition, 1)
    yield
    engine.stop(job_id, definition)


@contextmanager
def _by_hand(spark: SparkSession, folder: str, target: str) -> Iterator[None]:
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
        .trigger(processingTime=f"{INTERVAL_MS} milliseconds")
        .option("checkpointLocation", f"{folder}/{target}")
        .start()
    )
    yield
    stream.stop()


def _create(spark: SparkSession, target: str) -> None:
    spark.sql(f"CREATE TABLE {target} (id BIGINT, device BIGINT, doubled BIGINT) USING iceberg")


def _lags(spark: SparkSession, target: str, kept: Keeping, commits: int) -> list[float]:
    """Return how long each commit but the first ones took to show, by whatever *kept* does while its block runs."""
    with kept(target):
        _wait(spark, target)
        for _ in range(commits):
            begun = time.monotonic()
            spark.sql(f"INSERT INTO {SOURCE} SELECT id, pmod(id, 100), id FROM range({ROWS_EACH})")
            time.sleep(max(0.0, 1 - (time.monotonic() - begun)))
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
    """Return when each version of a table became current (seconds), and how many rows it has."""
    log = spark.sql(
        f"SELECT h.made_current_at, coalesce(CAST(s.summary['total-records'] AS BIGINT), 0) FROM {table}.history AS h "
        f"JOIN {table}.snapshots AS s ON h.snapshot_id = s.snapshot_id ORDER BY 1"
    ).collect()
    return [(row[0].timestamp(), row[1]) for row in log] or [(0.0, 0)]
