"""How many rows per second do our stream operators process, compared with Spark's?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from benchmarks.bare_driver import bare_driver
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples
from mt_core.plans.operators import RowKind
from mt_core.plans.policies import operator_policy
from mt_core.spark.connectors.changelog import ROW_KIND
from mt_core.spark.connectors.kafka.source import UPSERT_KEYS
from mt_core.spark.driver.jvm_objects import active_session, java_dataset
from mt_core.spark.streams.operators.rewriting import with_operators
from mt_core.spark.streams.operators.state_store import state_store_for
from mt_core.spark.streams.operators.state_ttls import StateTtls

ROWS, FILES, KEYS = 1_000_000, 5, 100_000
TTL = timedelta(hours=1)
TURNS = 3
LONGEST_RUN_S = 300.0
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SUMMED = "SELECT k, count(*) AS n, sum(v) AS s FROM numbers GROUP BY k"
FIRST = (
    "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p) AS rn "
    "FROM (SELECT *, now() AS p FROM numbers)) WHERE rn = 1"
)
JOINED_ROWS = 200_000
SIDE = f"FROM numbers WHERE v < {JOINED_ROWS}"
# Each row has one match, mostly in another batch.
JOINED = (
    f"SELECT a.k, b.v FROM (SELECT * {SIDE}) AS a "
    f"JOIN (SELECT pmod(v * 7919, {JOINED_ROWS}) AS w, v {SIDE}) AS b ON a.v = b.w"
)
LAST = FIRST.replace("ORDER BY p)", "ORDER BY p DESC)")
LIMITED = f"SELECT k, v FROM numbers LIMIT {ROWS // 2}"
SORTED = "SELECT k, v FROM numbers ORDER BY v DESC LIMIT 100"
DISTINCT = "SELECT DISTINCT k FROM numbers"
NORMALIZED = "SELECT k, v FROM upserts"
LOOKED_UP = f"SELECT region, n FROM ({SUMMED}) AS x JOIN regions AS r ON pmod(x.k, 100) = r.number"
TOP = (
    "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS rn "
    "FROM numbers) WHERE rn <= 3"
)


@dataclass(frozen=True, slots=True)
class Compared:
    """A statement that our operators run, and what Spark runs for the same result in its output mode.

    `least` is the smallest accepted ratio of our rows per second to Spark's, or 0 if there is no target.
    `native` is None if Spark cannot run the statement.
    """

    name: str
    ours: str
    native: Callable[[DataFrame], DataFrame] | None = None
    mode: str = "append"
    least: float = 0.0
    rows: int = ROWS

    @property
    def sides(self) -> tuple[str, ...]:
        return ("ours",) if self.native is None else ("ours", "native")


COMPARED = (
    Compared(
        "aggregate", SUMMED, lambda rows: rows.groupBy("k").agg({"*": "count", "v": "sum"}), "update", 0.6
    ),
    Compared("deduplicate", FIRST, lambda rows: rows.dropDuplicates(["k"]), "append", 0.8),
    Compared("join", JOINED, lambda rows: rows.sparkSession.sql(JOINED), "append", 0.8, 2 * JOINED_ROWS),
    Compared("last row", LAST),
    Compared("top 3", TOP),
    Compared("limit", LIMITED, lambda rows: rows.limit(ROWS // 2)),
    Compared("sort and limit", SORTED),
    Compared("distinct", DISTINCT, lambda rows: rows.select("k").dropDuplicates()),
    Compared("upserts to changes", NORMALIZED),
    Compared("lookup of counts", LOOKED_UP),
)


def measure() -> Iterator[Finding]:
    """Yield the table of throughputs."""
    with bare_driver() as (driver, folder):
        yield _measured(driver.new_session(), folder)


def _measured(spark: SparkSession, folder: Path) -> Finding:
    rows = spark.range(ROWS).selectExpr(f"pmod(hash(id), {KEYS}) AS k", "id AS v")
    rows.repartition(FILES).write.parquet(str(folder / "numbers"))
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    taken = {(each.name, side): list[float]() for each in COMPARED for side in each.sides}
    # The round before the first one warms up the JVM.
    for turn in range(-1, TURNS):
        for each in COMPARED:
            for side in each.sides:
                with _stream(spark, folder) as stream:
                    frame = (
                        _ours(spark, each) if side == "ours" or each.native is None else each.native(stream)
                    )
                    mode = "append" if side == "ours" else each.mode
                    seconds = _seconds(frame, mode, folder / f"{each.name}-{side}-{turn + 1}")
                taken[each.name, side] += [seconds] if turn >= 0 else []
    rates = {
        (each.name, side): each.rows / Samples(taken[each.name, side]).median
        for each in COMPARED
        for side in each.sides
    }
    compared = [each for each in COMPARED if each.native is not None]
    return Finding(
        title=f"Operators of streams: {ROWS:,} rows in {FILES} batches, {KEYS:,} keys",
        columns=["operator", "rows a second", "Spark's own", "part of Spark's own"],
        rows=[
            [
                each.name,
                f"{rates[each.name, 'ours']:,.0f}",
                *(
                    (f"{rates[each.name, 'native']:,.0f}", f"{_part(rates, each):.2f}")
                    if each in compared
                    else ("-", "-")
                ),
            ]
            for each in COMPARED
        ],
        targets=[
            Target(
                asked=f"{each.name}: at least {each.least} of Spark's own",
                measured=f"{_part(rates, each):.2f}",
                met=_part(rates, each) >= each.least,
            )
            for each in compared
            if each.least
        ],
        notes=[
            f"Medians of {TURNS} turns after one that warms up, from the start of the stream to its end, "
            "in one JVM. All state is in RocksDB. That of ours has a TTL of one hour, and Spark's has none.",
            f"The join has {JOINED_ROWS:,} rows on either side, each with a match of its own.",
            "Spark's aggregate is in update mode, and gives no row that takes back what it gave. "
            "It has no last row, no top 3, no sorted limit, no upserts and no lookup of rows that change. "
            "A tenth of the upserts removes the row of its key.",
        ],
    )


def _part(rates: dict[tuple[str, str], float], each: Compared) -> float:
    return rates[each.name, "ours"] / rates[each.name, "native"]


@contextmanager
def _stream(spark: SparkSession, folder: Path) -> Iterator[DataFrame]:
    source = spark.readStream.schema("k INT, v BIGINT").option("maxFilesPerTrigger", 1)
    stream = source.parquet(str(folder / "numbers"))
    stream.createOrReplaceTempView("numbers")
    kind = expr(f"CAST(IF(v % 10 = 0, {RowKind.DELETE.code}, {RowKind.INSERT.code}) AS TINYINT)")
    marked = stream.select("k", "v", kind.alias(ROW_KIND, metadata={UPSERT_KEYS: ["k"]}))
    marked.select("k", "v").createOrReplaceTempView("upserts")
    spark.range(100).selectExpr("id AS number", "CONCAT('region ', id) AS region").createOrReplaceTempView(
        "regions"
    )
    with active_session(spark):
        yield stream


def _ours(spark: SparkSession, compared: Compared) -> DataFrame:
    analysed: Any = spark.sql(compared.ours)._jdf.queryExecution().analyzed()
    return DataFrame(
        java_dataset(spark, with_operators(spark, analysed, StateTtls(operator_policy(TTL))).plan), spark
    )


def _seconds(rows: DataFrame, mode: str, checkpoint: Path) -> float:
    start = time.perf_counter()
    with state_store_for(rows):
        writer = rows.writeStream.format("noop").outputMode(mode).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(checkpoint)).start()
    assert query.awaitTermination(LONGEST_RUN_S)
    return time.perf_counter() - start
