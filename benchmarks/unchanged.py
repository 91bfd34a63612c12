"""How fast is a refresh if no source has changed, and does it start any Spark job?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from benchmarks.embedded import Embedded, embedded_gateway
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, in_turns, show
from mt_core.client.http import Refresh

TARGET_S = 0.050
MOST_OF_BARE = 0.5
BARE_QUERY = "SELECT 1"
SKIP, BARE = "unchanged refresh", f"bare {BARE_QUERY}"
REQUESTS = 100
WARM_UP = 20
# Each query reads one source more than the previous query.
TABLES = {
    "one_source": "SELECT id FROM lake.default.source_0",
    "three_sources": "SELECT a.id FROM lake.default.source_0 a JOIN lake.default.source_1 b ON a.id = b.id "
    "JOIN lake.default.source_2 c ON a.id = c.id",
}


def measure() -> Iterator[Finding]:
    """Yield the table of unchanged refreshes."""
    with embedded_gateway() as gateway:
        for number in range(3):
            gateway.spark.sql(
                f"CREATE TABLE lake.default.source_{number} USING iceberg AS SELECT id FROM range(1000)"
            )
        rows, targets = [], []
        for name, query in TABLES.items():
            gateway.sql(
                f"CREATE MATERIALIZED TABLE {name} FRESHNESS = INTERVAL '7' DAY "
                f"REFRESH_MODE = FULL AS {query}"
            )
            samples, bare, jobs = _sampled(gateway, name)
            ratio = samples.median / bare.median
            rows.append(
                [name, samples.shown(), show(samples.percentile(99)), bare.shown(), f"{ratio:.2f}", str(jobs)]
            )
            targets.append(_target(name, samples, jobs))
            if name == "one_source":
                targets.append(_bare_target(name, ratio))
    yield Finding(
        title="Refresh with unchanged sources, through HTTP",
        columns=["table", "request to FINISHED", "p99", BARE, "ratio of medians", "Spark jobs"],
        rows=rows,
        targets=targets,
        notes=[
            (
                f"Median (min to max) of {REQUESTS} periodic requests: POST to the refresh endpoint, "
                "then its result, which waits."
            ),
            (
                f"In turns with them `{BARE_QUERY}` in the same Spark, its rows as Arrow. "
                "The jobs are of as many requests alone."
            ),
            "Client and gateway share one Python process here, and with it the interpreter lock.",
        ],
    )


def _sampled(gateway: Embedded, name: str) -> tuple[Samples, Samples, int]:
    """Return the durations of the requests and of the bare query, and the number of Spark jobs.

    The Spark jobs are those that an equal number of requests started before.
    """
    refresh = Refresh(
        identifier=f"lake.default.{name}",
        is_periodic=True,
        schedule_time=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
    )

    def skip() -> None:
        _, run = gateway.refresh(refresh)
        assert run["decision"] == "skip", run

    before = gateway.spark_jobs()
    for _ in range(REQUESTS):
        skip()
    jobs = gateway.spark_jobs() - before
    # The bare query starts jobs too, so those of the requests are counted before.
    taken = in_turns(
        {SKIP: skip, BARE: lambda: gateway.spark.sql(BARE_QUERY).toArrow()}, REQUESTS, warm_up=WARM_UP
    )
    return taken[SKIP], taken[BARE], jobs


def _target(name: str, samples: Samples, jobs: int) -> Target:
    return Target(
        asked=f"p50 under {show(TARGET_S)}, no Spark job",
        measured=f"{name}: {show(samples.median)}, {jobs} Spark jobs",
        met=samples.median < TARGET_S and jobs == 0,
    )


def _bare_target(name: str, ratio: float) -> Target:
    return Target(
        asked=f"at most {MOST_OF_BARE} of a {BARE}",
        measured=f"{name}: {ratio:.2f}",
        met=ratio <= MOST_OF_BARE,
    )
