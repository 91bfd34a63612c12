"""What do gateway and client add to a statement over the same `spark.sql(...)` in process?"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.embedded import Embedded, embedded_gateway
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, in_turns, show

TARGET_S = 0.010
ROUNDS = 100
WARM_UP = 30
STATEMENTS = {
    "SELECT 1": "SELECT 1",
    "1,000 rows": "SELECT id, id * 2 AS twice, CAST(id AS STRING) AS text FROM range(1000)",
}


def measure() -> Iterator[Finding]:
    """Yield the table of statements."""
    with embedded_gateway() as gateway:
        taken = {name: _taken(gateway, statement) for name, statement in STATEMENTS.items()}
    yield Finding(
        title="A statement through gateway and client, and in process",
        columns=["statement", "spark.sql(…).toArrow()", "gateway + client", "ratio", "difference of p50"],
        rows=[_row(name, each["bare"], each["ours"]) for name, each in taken.items()],
        targets=[_target(name, each["bare"], each["ours"]) for name, each in taken.items()],
        notes=[
            f"Median (min to max) of {ROUNDS} rounds in one JVM in turns. Through the gateway: POST the statement, GET its "
            "pages as JSON, DELETE the operation.",
            "Client and gateway share one Python process here, and with it the interpreter lock.",
        ],
    )


def _taken(gateway: Embedded, statement: str) -> dict[str, Samples]:
    return in_turns(
        {"bare": lambda: gateway.spark.sql(statement).toArrow(), "ours": lambda: gateway.sql(statement)},
        ROUNDS,
        warm_up=WARM_UP,
    )


def _row(name: str, bare: Samples, ours: Samples) -> list[str]:
    difference = show(ours.median - bare.median)
    return [name, bare.shown(), ours.shown(), f"{ours.median / bare.median:.2f}", difference]


def _target(name: str, bare: Samples, ours: Samples) -> Target:
    difference = ours.median - bare.median
    return Target(
        asked=f"p50 at most {show(TARGET_S)} more", measured=f"{name}: {show(difference)}", met=difference <= TARGET_S
    )
