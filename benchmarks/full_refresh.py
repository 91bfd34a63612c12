"""What does a full refresh cost compared with a bare INSERT OVERWRITE of the same query?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.embedded import Embedded, embedded_gateway
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, in_turns, show
from mt_core.client.http import Refresh

ROWS = 5_000_000
ROUNDS = 5
RATIO, FIXED_S = 1.15, 0.25
SOURCE = f"""CREATE TABLE lake.default.events USING iceberg AS
SELECT id, pmod(hash(id, 1), 20) AS region, pmod(hash(id, 2), 50) AS product, pmod(hash(id, 3), 12) AS month,
       pmod(hash(id, 4), 5) AS channel, pmod(hash(id, 5), 2) AS returned, pmod(xxhash64(id), 100000) AS amount
FROM range({ROWS})"""
QUERIES = {
    "group by 5 columns": """SELECT region, product, month, channel, returned,
        count(*) AS sales, sum(amount) AS amount, max(id) AS latest
        FROM lake.default.events GROUP BY region, product, month, channel, returned""",
    "every row": "SELECT id, region, product, month, amount FROM lake.default.events",
}


def measure() -> Iterator[Finding]:
    """Yield the table of large refreshes."""
    with embedded_gateway() as gateway:
        gateway.spark.sql(SOURCE)
        yield _large(gateway)


def _large(gateway: Embedded) -> Finding:
    rows, targets = [], []
    for number, (name, query) in enumerate(QUERIES.items()):
        create(gateway, f"large_{number}", query)
        taken = in_turns(
            {
                "bare": partial(overwrite, gateway, f"large_{number}", query),
                "ours": partial(refresh, gateway, f"large_{number}"),
            },
            ROUNDS,
        )
        rows.append(row(name, taken))
        targets.append(_target(name, taken["ours"], taken["bare"]))
    return Finding(
        title=f"Full refresh over {ROWS:,} rows",
        columns=["query", "INSERT OVERWRITE", "refresh", "ratio", "difference"],
        rows=rows,
        targets=targets,
        notes=[
            (
                f"Median (min to max) of {ROUNDS} rounds, both in one JVM in turns; "
                "the refresh goes through HTTP and the ledger."
            )
        ],
    )


def row(name: str, taken: dict[str, Samples]) -> list[str]:
    """Return the row of a work that was done by bare Spark and by a refresh."""
    ours, bare = taken["ours"], taken["bare"]
    difference = show(ours.median - bare.median)
    return [name, bare.shown(), ours.shown(), f"{ours.median / bare.median:.2f}", difference]


def _target(name: str, ours: Samples, bare: Samples) -> Target:
    allowed = RATIO * bare.median + FIXED_S
    return Target(
        asked=f"at most {RATIO} x + {FIXED_S} s, here {show(allowed)}",
        measured=f"{name}: {show(ours.median)}",
        met=ours.median <= allowed,
    )


def create(gateway: Embedded, name: str, query: str) -> None:
    """Create the materialized table and the table that the bare statement overwrites.

    Both have the same columns.
    """
    gateway.sql(
        f"CREATE MATERIALIZED TABLE {name} FRESHNESS = INTERVAL '7' DAY REFRESH_MODE = FULL AS {query}"
    )
    gateway.spark.sql(f"CREATE TABLE lake.default.bare_{name} USING iceberg AS {query}")


def overwrite(gateway: Embedded, name: str, query: str) -> None:
    gateway.spark.sql(f"INSERT OVERWRITE lake.default.bare_{name} {query}")


def refresh(gateway: Embedded, name: str) -> str:
    run_id, run = gateway.refresh(Refresh(identifier=f"lake.default.{name}"))
    assert run["decision"] == "refresh", run
    return run_id
