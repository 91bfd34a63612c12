"""How much state do stream operators have after an hour, with a TTL and without one?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.bare_driver import bare_driver
from benchmarks.operators import ROCKSDB
from benchmarks.report import Finding
from mt_core.plans.durations import FOR_EVER, ttl_text
from mt_core.plans.policies import operator_policy
from mt_core.spark.driver.jvm_objects import active_session, java_dataset, scala_sequence, static_member
from mt_core.spark.streams.operators.rewriting import with_operators
from mt_core.spark.streams.operators.state_store import state_store_for
from mt_core.spark.streams.operators.state_ttls import StateTtls

MINUTE = timedelta(minutes=1)
MINUTES, ROWS_A_MINUTE = 60, 5_000
TTL = 10 * MINUTE
KEPT = {
    "deduplicate": "SELECT k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p) AS rn "
    "FROM (SELECT *, now() AS p FROM clicks)) WHERE rn = 1",
    "aggregate": "SELECT k, count(*) AS n FROM clicks GROUP BY k",
    "join": "SELECT l.k FROM clicks AS l JOIN clicks AS r ON l.k = r.k",
    "top 3": (
        "SELECT k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY k) AS rn "
        "FROM clicks) WHERE rn <= 3"
    ),
}
_STREAMING = "org.apache.spark.sql.execution.streaming"


def measure() -> Iterator[Finding]:
    """Yield the table of the states."""
    with bare_driver() as (driver, folder):
        spark = driver.new_session()
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        rows = [
            [
                name,
                "none" if ttl is FOR_EVER else ttl_text(ttl),
                *_kept(spark, text, ttl, folder / f"{name}{number}"),
            ]
            for name, text in KEPT.items()
            for number, ttl in enumerate((TTL, FOR_EVER))
        ]
        yield Finding(
            title=f"State after an hour of {ROWS_A_MINUTE:,} rows a minute, each with a key of its own",
            columns=[
                "operator",
                "TTL",
                "rows after 20 min",
                "rows after 60 min",
                "in memory and files after 60 min",
            ],
            rows=rows,
            notes=[
                f"{MINUTES} batches by a clock that goes on by a minute between two. "
                "A row of the join is kept on both sides. "
                "What has expired is removed by the batch after: of ten minutes eleven batches are there.",
                (
                    "In memory and files: what RocksDB says of its memory and its files, "
                    "which it compacts in its own time."
                ),
            ],
        )


def _kept(spark: SparkSession, text: str, ttl: timedelta, checkpoint: Path) -> Sequence[str]:
    """Return how much state the operators of a query have after a third of the hour and at its end."""
    option = static_member(spark, "scala.Option.empty")
    source = static_member(spark, f"{_STREAMING}.runtime.MemoryStream")(
        0, spark._jsparkSession, option(), static_member(spark, "org.apache.spark.sql.Encoders.STRING")()
    )
    clock = static_member(spark, "org.apache.spark.util.ManualClock")(0)
    minutes = DataFrame(source.toDF(), spark)
    minutes.selectExpr(
        f"explode(sequence(value * {ROWS_A_MINUTE}L, (value + 1) * {ROWS_A_MINUTE}L - 1)) AS k"
    ).createOrReplaceTempView("clicks")
    with active_session(spark):
        analysed: Any = spark.sql(text)._jdf.queryExecution().analyzed()
        plan = with_operators(spark, analysed, StateTtls(operator_policy(ttl))).plan
        query = _started(spark, DataFrame(java_dataset(spark, plan), spark), checkpoint, clock)
    counts = []
    for minute in range(MINUTES):
        source.addData(scala_sequence(spark, [str(minute)]))
        query.processAllAvailable()
        clock.advance(MINUTE // timedelta(milliseconds=1))
        counts.append(sum(int(each.numRowsTotal()) for each in query.lastProgress().stateOperators()))
    size = sum(
        int(each.memoryUsedBytes()) + int(each.customMetrics().get("rocksdbSstFileSize"))
        for each in query.lastProgress().stateOperators()
    )
    query.stop()
    return [f"{counts[MINUTES // 3 - 1]:,}", f"{counts[-1]:,}", f"{size / 2**20:,.1f} MiB"]


def _started(spark: SparkSession, rows: DataFrame, checkpoint: Path, clock: Any) -> Any:
    none = static_member(spark, "scala.Option.empty")()
    no_options = static_member(spark, "scala.collection.immutable.Map.from")(
        static_member(spark, "scala.jdk.javaapi.CollectionConverters.asScala")(spark._jvm.java.util.HashMap())
    )
    with state_store_for(rows):
        return spark._jsparkSession.streams().startQuery(
            none,
            static_member(spark, "scala.Option.apply")(str(checkpoint)),
            rows._jdf,
            no_options,
            static_member(spark, f"{_STREAMING}.sources.MemorySink")(),
            static_member(spark, "org.apache.spark.sql.streaming.OutputMode.Append")(),
            False,
            True,
            static_member(spark, "org.apache.spark.sql.streaming.Trigger.ProcessingTime")(0),
            clock,
            none,
            none,
        )
