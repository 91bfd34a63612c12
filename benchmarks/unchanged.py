"""How fast is a refresh answered when no source has changed, and does it leave Spark alone?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from benchmarks.embedded import Embedded, embedded_gateway
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, show, timed
from mt_core.client.http import Refresh

TARGET_S = 0.050
REQUESTS = 100
WARM_UP = 20
# Each query reads one source more than the one before.
TABLES = {
    "one_source": "SELECT id FROM lake.default.source_0",
    "three_sources": "SELECT a.id FROM lake.default.source_0 a JOIN lake.default.source_1 b ON a.id = b.id "
    "JOIN lake.default.source_2 c ON a.id = c.id",
}


def measure() -> Iterator[Finding]:
    """Yield the table of unchanged refreshes."""
    with embedded_gateway() as gateway:
        for number in range(3):
            gateway.spark.sql(f"CREATE TABLE lake.default.source_{number} USING iceberg AS SELECT id FROM range(1000)")
        rows, targets = [], []
        for name, query in TABLES.items():
            gateway.sql(f"CREATE MATERIALIZED TABLE {name} FRESHNESS = INTERVAL '7' DAY REFRESH_MODE = FULL AS {query}")
            samples, jobs = _sampled(gateway, name)
            rows.append([name, samples.shown(), show(samples.percentile(99)), str(jobs)])
            targets.append(_target(name, samples, jobs))
    yield Finding(
        title="Refresh with unchanged sources, through HTTP",
        columns=["table", "request to FINISHED", "p99", "Spark jobs"],
        rows=rows,
        targets=targets,
        notes=[
            f"Median (min to max) of {REQUESTS} periodic requests: POST to the refresh endpoint, then its result, which waits.",
            "Client and gateway share one Python process here, and with it the interpreter lock.",
        ],
    )


def _sampled(gateway: Embedded, name: str) -> tuple[Samples, int]:
    """Return the times of the requests and how many Spark jobs all of them started."""
    refresh = Refresh(
        identifier=f"lake.default.{name}",
        is_periodic=True,
        schedule_time=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
    )

    def skip() -> None:
        _, run = gateway.refresh(refresh)
        assert run["decision"] == "skip", run

    for _ in range(WARM_UP):
        skip()
    before = gateway.spark_jobs()
    samples = Samples([timed(skip) for _ in range(REQUESTS)])
    return samples, gateway.spark_jobs() - before


def _target(name: str, samples: Samples, jobs: int) -> Target:
    return Target(
        asked=f"p50 under {show(TARGET_S)}, no Spark job",
        measured=f"{name}: {show(samples.median)}, {jobs} Spark jobs",
        met=samples.median < TARGET_S and jobs == 0,
    )
