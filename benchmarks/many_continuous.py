"""What do many continuous tables cost while nothing changes?

And how many keep their freshness while all sources change?
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import psutil

from benchmarks.embedded import Embedded, embedded_gateway
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, show
from mt_core.client.http import GatewayClient

SOURCES, IDLE_TABLES, IDLE_S = 100, 200, 60.0
MOST_IDLE = 0.03
ACTIVE = ((20, 5), (50, 15))
"""Pairs of a number of active tables, each with a source of its own, and their freshness in seconds."""
PERIODS, WARM_UP = 6, 3
CREATORS = 4


def measure() -> Iterator[Finding]:
    """Yield the table of idle tables, and that of active tables."""
    with embedded_gateway() as gateway:
        _sources(gateway, range(SOURCES))
        _create(gateway, [(f"idle_{number}", number % SOURCES, 10) for number in range(IDLE_TABLES)])
        yield _idle(gateway)
    with embedded_gateway() as gateway:
        _sources(gateway, range(max(tables for tables, _ in ACTIVE)))
        rows, targets = [], []
        for tables, freshness_s in ACTIVE:
            lags = _lags(gateway, tables, freshness_s)
            rows.append(
                [
                    f"{tables} tables",
                    f"{freshness_s} s",
                    show(lags.median),
                    show(lags.percentile(99)),
                    show(lags.worst),
                ]
            )
            targets.append(
                Target(
                    asked=f"{tables} active tables keep a freshness of {freshness_s} s",
                    measured=f"{show(lags.percentile(99))} at p99",
                    met=lags.percentile(99) <= freshness_s,
                )
            )
        yield Finding(
            title="Continuous tables whose sources all change",
            columns=["tables", "freshness", "lag p50", "p99", "most"],
            rows=rows,
            targets=targets,
            notes=[
                "From each commit of 10 rows to that of the first version of the table that shows it; "
                "each source gets one a period of the freshness, from a writer in the same JVM; "
                f"the last {PERIODS} of {WARM_UP + PERIODS} count.",
            ],
        )


def _sources(gateway: Embedded, numbers: Sequence[int]) -> None:
    for number in numbers:
        gateway.spark.sql(
            f"CREATE TABLE lake.default.source_{number} USING iceberg AS SELECT id FROM range(100)"
        )


def _create(gateway: Embedded, tables: Sequence[tuple[str, int, int]]) -> None:
    """Create tables, given by name, number of the source and freshness in seconds, several at a time."""
    local = threading.local()

    def create(table: tuple[str, int, int]) -> None:
        name, source, freshness_s = table
        if not hasattr(local, "client"):
            local.client = GatewayClient(gateway.client.url)
        operation = local.client.execute(
            f"CREATE MATERIALIZED TABLE {name} FRESHNESS = INTERVAL '{freshness_s}' SECOND AS SELECT id "
            f"FROM source_{source}"
        )
        list(local.client.pages(operation))

    with ThreadPoolExecutor(CREATORS) as pool:
        list(pool.map(create, tables))


def _idle(gateway: Embedded) -> Finding:
    # Wait until the intervals after CREATE have ended, which they do after a minute without a change.
    time.sleep(90)
    processes = [psutil.Process(os.getpid()), *psutil.Process(os.getpid()).children(recursive=True)]
    before, begun = _processor_s(processes), time.monotonic()
    time.sleep(IDLE_S)
    share = (_processor_s(processes) - before) / (time.monotonic() - begun)
    return Finding(
        title=f"{IDLE_TABLES} continuous tables over {SOURCES} sources while nothing changes",
        columns=["", "value"],
        rows=[["of a core", f"{share:.1%}"]],
        targets=[
            Target(asked=f"under {MOST_IDLE:.0%} of a core", measured=f"{share:.1%}", met=share < MOST_IDLE),
        ],
        notes=[f"Processor time of the gateway and of its JVM in {IDLE_S:.0f} s; freshness 10 s."],
    )


def _processor_s(processes: Sequence[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes if process.is_running()]
    return sum(each.user + each.system for each in times)


def _lags(gateway: Embedded, tables: int, freshness_s: int) -> Samples:
    names = [f"active_{freshness_s}_{number}" for number in range(tables)]
    _create(gateway, [(name, number, freshness_s) for number, name in enumerate(names)])
    for _ in range(WARM_UP + PERIODS):
        for number in range(tables):
            begun = time.monotonic()
            gateway.spark.sql(f"INSERT INTO lake.default.source_{number} SELECT id FROM range(10)")
            time.sleep(max(0.0, freshness_s / tables - (time.monotonic() - begun)))
    time.sleep(2 * freshness_s)
    lags = [lag for number, name in enumerate(names) for lag in _lags_of(gateway, f"source_{number}", name)]
    for name in names:
        gateway.sql(f"DROP MATERIALIZED TABLE {name}")
    return Samples(lags)


def _lags_of(gateway: Embedded, source: str, table: str) -> list[float]:
    """Return how long each of the last commits of a source took to appear in a table.

    Commits are matched by the number of rows in both logs.
    """
    commits, shown = (_rows_after(gateway, name) for name in (source, table))
    return [
        min((at for at, rows in shown if rows >= count), default=time.time()) - committed
        for committed, count in commits[-PERIODS:]
    ]


def _rows_after(gateway: Embedded, table: str) -> list[tuple[float, int]]:
    """Return when each version of a table was committed (in seconds), and how many rows it has."""
    log = gateway.spark.sql(
        "SELECT committed_at, CAST(summary['total-records'] AS BIGINT) "
        f"FROM lake.default.{table}.snapshots ORDER BY 1"
    )
    return [(at.timestamp(), rows or 0) for at, rows in log.collect()]
