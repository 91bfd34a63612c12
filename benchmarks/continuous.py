"""How long after a commit does a table show it?

Compares a continuous refresh with a hand-written streaming job on the same source.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame

from benchmarks.embedded import Embedded, embedded_gateway
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, show, wait_out_of_step

COMMITS, ROWS_EACH, ROWS_BEFORE, GROUPS = 30, 100, 100_000, 1000
WARM_UP = 8
LONGEST_WAIT_S = 60.0
SOURCE = "lake.default.readings"
PROJECTION = f"SELECT id, device, value * 2 AS doubled FROM {SOURCE}"
AGGREGATE = f"SELECT device, count(*) AS n, sum(value) AS total FROM {SOURCE} GROUP BY device"
MOST_AT_1S = 0.5

Keeping = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query, and the MERGE of a streaming job for it.

    `counted` is an expression for the number of source rows that a table shows.
    """

    name: str
    text: str
    counted: str
    merge: str


QUERIES = (
    Query(
        name="projection",
        text=PROJECTION,
        counted="count(*)",
        merge="INSERT INTO {target} SELECT id, device, value * 2 AS doubled FROM {batch}",
    ),
    Query(
        name="aggregate",
        text=AGGREGATE,
        counted="sum(n)",
        merge="MERGE INTO {target} AS t USING "
        "(SELECT device, count(*) AS n, sum(value) AS total FROM {batch} GROUP BY device) AS s "
        "ON t.device <=> s.device WHEN MATCHED THEN UPDATE SET n = t.n + s.n, total = t.total + s.total "
        "WHEN NOT MATCHED THEN INSERT *",
    ),
)


def measure() -> Iterator[Finding]:
    """Yield the table of lags."""
    with embedded_gateway() as gateway, TemporaryDirectory(prefix="freshtable-bench-") as folder:
        _make_source(gateway)
        rows, targets = [], []
        for query in QUERIES:
            keepers: dict[str, Keeping] = {
                "continuous, freshness 1 s": partial(_continuous, gateway, query),
                "streaming job, trigger 1 s": partial(_streaming, gateway, query, folder, "1 second"),
                "streaming job, trigger 0 s": partial(_streaming, gateway, query, folder, "0 seconds"),
            }
            lags = {
                name: _lags(gateway, query, f"{query.name}_{number}", kept)
                for number, (name, kept) in enumerate(keepers.items())
            }
            ours, slow, fast = lags.values()
            rows += [
                [query.name, name, show(taken.median), show(taken.percentile(99))]
                for name, taken in lags.items()
            ]
            targets.append(
                Target(
                    asked=(
                        f"p50 at most {MOST_AT_1S} of the job with trigger 1 s, and p99 not above it; "
                        "p50 not above that of the job with trigger 0 s"
                    ),
                    measured=(
                        f"{query.name}: {ours.median / slow.median:.2f} and "
                        f"{ours.percentile(99) / slow.percentile(99):.2f}; {ours.median / fast.median:.2f}"
                    ),
                    met=ours.median <= MOST_AT_1S * slow.median
                    and ours.percentile(99) <= slow.percentile(99)
                    and ours.median <= fast.median,
                )
            )
        yield Finding(
            title=f"Commit to visible row: {ROWS_EACH} rows every 1 to 2 s into {ROWS_BEFORE:,}",
            columns=["query", "kept fresh by", "p50", "p99"],
            rows=rows,
            targets=targets,
            notes=[
                "From the commit of the source to that of the first version of the table that shows it, "
                f"as both logs have them; {COMMITS} commits each after {WARM_UP} others, "
                "one keeper at a time, all in one JVM.",
                (
                    "The streaming job is foreachBatch with INSERT or MERGE; "
                    "p99 of so few commits is the greatest."
                ),
            ],
        )


def lags_of_projection(gateway: Embedded) -> Samples:
    """Return how long the rows of a continuous table took to appear."""
    _make_source(gateway)
    query = QUERIES[0]
    return _lags(gateway, query, query.name, partial(_continuous, gateway, query))


def _make_source(gateway: Embedded) -> None:
    gateway.spark.sql(
        f"CREATE TABLE {SOURCE} USING iceberg AS SELECT id, pmod(id, {GROUPS}) AS device, id AS value "
        f"FROM range({ROWS_BEFORE})"
    )


@contextmanager
def _continuous(gateway: Embedded, query: Query, target: str) -> Iterator[None]:
    clauses = "WITH ('refresh.strategy' = 'incremental') FRESHNESS = INTERVAL '1' SECOND"
    gateway.sql(f"CREATE MATERIALIZED TABLE {target} {clauses} AS {query.text}")
    yield
    gateway.sql(f"ALTER MATERIALIZED TABLE {target} SUSPEND")


@contextmanager
def _streaming(gateway: Embedded, query: Query, folder: str, trigger: str, target: str) -> Iterator[None]:
    spark = gateway.spark
    spark.sql(f"CREATE TABLE {target} USING iceberg AS {query.text}")
    start = spark.sql(
        f"SELECT max_by(snapshot_id, committed_at), max(committed_at) FROM {SOURCE}.snapshots"
    ).head()
    assert start is not None

    def write(batch: DataFrame, number: int) -> None:
        name = f"batch_{number}"
        batch.createOrReplaceTempView(name)
        batch.sparkSession.sql(query.merge.format(target=target, batch=name))

    stream = (
        spark.readStream.option("stream-from-timestamp", int(start[1].timestamp() * 1000) + 1)
        .table(SOURCE)
        .writeStream.foreachBatch(write)
        .trigger(processingTime=trigger)
        .option("checkpointLocation", f"{folder}/{target}")
        .start()
    )
    yield
    stream.stop()


def _lags(gateway: Embedded, query: Query, name: str, kept: Keeping) -> Samples:
    """Return how long each commit took to appear in the table that *kept* maintains during its block."""
    target = f"lake.default.{name}"
    with kept(target):
        time.sleep(2)
        for number in range(WARM_UP + COMMITS):
            begun = time.monotonic()
            gateway.spark.sql(
                f"INSERT INTO {SOURCE} SELECT {ROWS_BEFORE} + id, pmod(id * 7, {GROUPS}), id "
                f"FROM range({ROWS_EACH})"
            )
            wait_out_of_step(begun, number)
        wanted = _shown(gateway, SOURCE, "count(*)")[-1][1]
        deadline = time.monotonic() + LONGEST_WAIT_S
        counting = f"SELECT {query.counted} FROM {target}"
        while gateway.spark.sql(counting).head()[0] < wanted:  # type: ignore[index]
            assert time.monotonic() < deadline, f"{target} does not show all rows"
            time.sleep(0.5)
    commits = _shown(gateway, SOURCE, "count(*)")[-COMMITS:]
    shown = _shown(gateway, target, query.counted)
    return Samples(
        [next(at for at, rows in shown if rows >= count) - committed for committed, count in commits]
    )


def _shown(gateway: Embedded, table: str, counted: str) -> Sequence[tuple[float, int]]:
    """Return when each version of a table became current (in seconds), with its number of source rows."""
    counting = f"SELECT {counted} FROM {table} VERSION AS OF {{}}"
    log = gateway.spark.sql(f"SELECT made_current_at, snapshot_id FROM {table}.history ORDER BY 1").collect()
    return [
        (at.timestamp(), gateway.spark.sql(counting.format(snapshot)).head()[0] or 0)
        for at, snapshot in log[-2 * (WARM_UP + COMMITS) :]
    ]
