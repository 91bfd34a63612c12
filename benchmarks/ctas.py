"""What does CREATE TABLE … AS cost compared with Spark's own?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.embedded import Embedded, embedded_gateway
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, timed

MOST = 1.1
ROUNDS = 7
WARM_UP = 2
ROWS = 5_000_000
_QUERY = f"SELECT id, id % 1000 AS city, id * 0.5 AS total, cast(id AS string) AS name FROM range({ROWS})"
_OURS, _BARE = "lake.default.ctas_ours", "lake.default.ctas_bare"


def measure() -> Iterator[Finding]:
    """Yield the table of durations."""
    with embedded_gateway() as gateway:
        rounds = [_round(gateway, number) for number in range(WARM_UP + ROUNDS)][WARM_UP:]
    ours, bare = (Samples([seconds[table] for seconds in rounds]) for table in (_OURS, _BARE))
    ratio = ours.median / bare.median
    yield Finding(
        title=f"CREATE TABLE … AS of {ROWS:,} rows into Iceberg",
        columns=["way", "duration"],
        rows=[["spark.sql(…)", bare.shown()], ["gateway + client", ours.shown()]],
        targets=[Target(asked=f"at most {MOST} of Spark's own", measured=f"{ratio:.2f}", met=ratio <= MOST)],
        notes=[
            (
                f"{ROUNDS} rounds after {WARM_UP}, in turns; who begins changes. "
                "The tables are dropped between the rounds."
            )
        ],
    )


def _round(gateway: Embedded, number: int) -> dict[str, float]:
    """Return how long the creation of each table took, in seconds."""
    ways: list[tuple[str, Callable[[str], object]]] = [(_OURS, gateway.sql), (_BARE, gateway.spark.sql)]
    seconds: dict[str, float] = {}
    for table, run in ways if number % 2 else reversed(ways):
        gateway.spark.sql(f"DROP TABLE IF EXISTS {table} PURGE")
        seconds[table] = timed(partial(run, f"CREATE TABLE {table} AS {_QUERY}"))
    return seconds
