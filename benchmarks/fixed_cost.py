"""What does a refresh of a small table cost compared with its query, and which parts cost most?"""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.embedded import Embedded, embedded_gateway
from benchmarks.full_refresh import create, overwrite, refresh
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, in_turns, show

ROUNDS = 15
WARM_UP = 5
FIXED_S = 0.08
QUERY = "SELECT id, id * 2 AS twice FROM lake.default.few"
# Maps each step of an attempt to the part to which it belongs.
PARTS = {
    "decide": "decide: versions of the sources, history",
    "write": "write: the query",
    "staged": "record what was staged",
    "publish: read": "publish: check, move main",
    "publish: commit": "publish: check, move main",
    "published": "publish: check, move main",
    "end": "end: ledger, answer",
}
CLAIM = "request, claim"


def measure() -> Iterator[Finding]:
    """Yield the table of the parts of a refresh."""
    with embedded_gateway() as gateway:
        gateway.spark.sql("CREATE TABLE lake.default.few USING iceberg AS SELECT id FROM range(100)")
        yield _tiny(gateway)


def _tiny(gateway: Embedded) -> Finding:
    create(gateway, "tiny", QUERY)
    parts: dict[str, list[float]] = {}
    counted: list[dict[str, float]] = []

    def timed_refresh() -> None:
        begun = time.perf_counter()
        run_id = refresh(gateway, "tiny")
        counted.append(_parts(gateway, run_id, begun, time.perf_counter()))

    taken = in_turns(
        {"bare": lambda: overwrite(gateway, "tiny", QUERY), "ours": timed_refresh}, ROUNDS, warm_up=WARM_UP
    )
    for sample in counted[WARM_UP:]:
        for part, seconds in sample.items():
            parts.setdefault(part, []).append(seconds)
    rows = [[part, Samples(seconds).shown()] for part, seconds in parts.items()]
    rows.append(["refresh, all of it", taken["ours"].shown()])
    rows.append(["bare INSERT OVERWRITE", taken["bare"].shown()])
    difference = taken["ours"].median - taken["bare"].median
    rows.append(["difference of the medians", show(difference)])
    return Finding(
        title="The fixed cost of a refresh: a table of 100 rows",
        columns=["part", "time"],
        rows=rows,
        targets=[
            Target(
                asked=f"at most bare + {show(FIXED_S)}",
                measured=f"bare + {show(difference)}",
                met=difference <= FIXED_S,
            )
        ],
        notes=[f"Median (min to max) of {ROUNDS} rounds in turns; medians of parts do not add up exactly."],
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
