"""What does a full refresh cost over the bare INSERT OVERWRITE of the same query, and where does the fixed part go?"""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.embedded import Embedded, embedded_gateway
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, in_turns, show
from mt_core.client.http import Refresh

ROWS = 5_000_000
ROUNDS = 5
TINY_ROUNDS = 15
TINY_WARM_UP = 5
RATIO, FIXED_S = 1.15, 0.25
SOURCE = f"""CREATE TABLE lake.default.events USING iceberg AS
SELECT id, pmod(hash(id, 1), 20) AS region, pmod(hash(id, 2), 50) AS product, pmod(hash(id, 3), 12) AS month,
       pmod(hash(id, 4), 5) AS channel, pmod(hash(id, 5), 2) AS returned, pmod(xxhash64(id), 100000) AS amount
FROM range({ROWS})"""
QUERIES = {
    "group by 5 columns": """SELECT region, product, month, channel, returned, count(*) AS sales, sum(amount) AS amount,
        max(id) AS latest FROM lake.default.events GROUP BY region, product, month, channel, returned""",
    "every row": "SELECT id, region, product, month, amount FROM lake.default.events",
}
TINY = "SELECT id, id * 2 AS twice FROM lake.default.few"
# Step of an attempt -> the part it belongs to.
PARTS = {
    "decide": "decide: versions of the sources, history",
    "open: read": "open: fence, branch",
    "open: commit": "open: fence, branch",
    "write": "write: the query, to the branch",
    "staged": "record what was staged",
    "publish: read": "publish: check, move main",
    "publish: commit": "publish: check, move main",
    "published": "publish: check, move main",
    "end": "end: ledger, answer",
}
CLAIM = "request, claim"


def measure() -> Iterator[Finding]:
    """Yield the table of large refreshes and that of the fixed cost."""
    with embedded_gateway() as gateway:
        gateway.spark.sql(SOURCE)
        yield _large(gateway)
        gateway.spark.sql("CREATE TABLE lake.default.few USING iceberg AS SELECT id FROM range(100)")
        yield _tiny(gateway)


def _large(gateway: Embedded) -> Finding:
    rows, targets = [], []
    for number, (name, query) in enumerate(QUERIES.items()):
        _create(gateway, f"large_{number}", query)
        taken = in_turns(
            {
                "bare": lambda number=number, query=query: _overwrite(gateway, f"large_{number}", query),  # type: ignore[misc]
                "ours": lambda number=number: _refresh(gateway, f"large_{number}"),  # type: ignore[misc]
            },
            ROUNDS,
        )
        rows.append(_row(name, taken))
        targets.append(_target(name, taken["ours"], taken["bare"]))
    return Finding(
        title=f"Full refresh over {ROWS:,} rows",
        columns=["query", "INSERT OVERWRITE", "refresh", "ratio", "difference"],
        rows=rows,
        targets=targets,
        notes=[
            f"Median (min to max) of {ROUNDS} rounds, both in one JVM in turns; the refresh goes through HTTP and the ledger."
        ],
    )


def _row(name: str, taken: dict[str, Samples]) -> list[str]:
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


def _tiny(gateway: Embedded) -> Finding:
    _create(gateway, "tiny", TINY)
    parts: dict[str, list[float]] = {}
    counted: list[dict[str, float]] = []

    def refresh() -> None:
        begun = time.perf_counter()
        run_id = _refresh(gateway, "tiny")
        counted.append(_parts(gateway, run_id, begun, time.perf_counter()))

    taken = in_turns(
        {"bare": lambda: _overwrite(gateway, "tiny", TINY), "ours": refresh}, TINY_ROUNDS, warm_up=TINY_WARM_UP
    )
    for sample in counted[TINY_WARM_UP:]:
        for part, seconds in sample.items():
            parts.setdefault(part, []).append(seconds)
    rows = [[part, Samples(seconds).shown()] for part, seconds in parts.items()]
    rows.append(["refresh, all of it", taken["ours"].shown()])
    rows.append(["bare INSERT OVERWRITE", taken["bare"].shown()])
    rows.append(["difference of the medians", show(taken["ours"].median - taken["bare"].median)])
    return Finding(
        title="The fixed cost of a refresh: a table of 100 rows",
        columns=["part", "time"],
        rows=rows,
        notes=[f"Median (min to max) of {TINY_ROUNDS} rounds in turns; medians of parts do not add up exactly."],
    )


def _parts(gateway: Embedded, run_id: str, begun: float, ended: float) -> dict[str, float]:
    """Return how long each part of a refresh took."""
    steps = gateway.steps.of(run_id)
    borders = [*(instant for _, instant in steps[1:]), ended]
    parts = {CLAIM: steps[0][1] - begun}
    for (step, start), stop in zip(steps, borders, strict=True):
        part = PARTS[step]
        parts[part] = parts.get(part, 0.0) + stop - start
    return parts


def _create(gateway: Embedded, name: str, query: str) -> None:
    """Make the materialized table and, with the same columns, the table which the bare statement overwrites."""
    gateway.sql(f"CREATE MATERIALIZED TABLE {name} FRESHNESS = INTERVAL '7' DAY REFRESH_MODE = FULL AS {query}")
    gateway.spark.sql(f"CREATE TABLE lake.default.bare_{name} USING iceberg AS {query}")


def _overwrite(gateway: Embedded, name: str, query: str) -> None:
    gateway.spark.sql(f"INSERT OVERWRITE lake.default.bare_{name} {query}")


def _refresh(gateway: Embedded, name: str) -> str:
    run_id, run = gateway.refresh(Refresh(identifier=f"lake.default.{name}"))
    assert run["decision"] == "refresh", run
    return run_id
