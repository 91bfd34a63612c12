"""What does a small result cost through gateway and client, compared with `spark.sql(...)` in process?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from benchmarks.bare_session import bare_session
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, in_turns, show
from benchmarks.wire import gateway_process
from mt_core.client.http import GatewayClient, ResultPage

ROUNDS = 100
WARM_UP = 30
NAMESPACE = "lake.bench"
TABLE = f"{NAMESPACE}.thousand"
PREPARE = (
    f"CREATE NAMESPACE IF NOT EXISTS {NAMESPACE}",
    (
        f"CREATE TABLE {TABLE} USING iceberg AS SELECT id, id * 2 AS twice, CAST(id AS STRING) AS text "
        "FROM range(0, 1000, 1, 1)"
    ),
)
LOCAL_RATIO = 0.6
ROWS_MORE_S = 0.003


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A statement, and the target for its p50 relative to that of the bare statement."""

    name: str
    sql: str
    target: Callable[[str, Samples, Samples], Target]


def _at_most_of_bare(name: str, bare: Samples, ours: Samples) -> Target:
    ratio = ours.median / bare.median
    asked = f"p50 at most {LOCAL_RATIO} of bare"
    return Target(asked=asked, measured=f"{name}: {ratio:.2f}", met=ratio <= LOCAL_RATIO)


def _little_more(name: str, bare: Samples, ours: Samples) -> Target:
    more = ours.median - bare.median
    asked = f"p50 at most {show(ROWS_MORE_S)} more"
    return Target(asked=asked, measured=f"{name}: {show(more)}", met=more <= ROWS_MORE_S)


CASES = (
    Case(name="SELECT 1", sql="SELECT 1", target=_at_most_of_bare),
    Case(name="VALUES", sql="VALUES (1, 'a'), (2, 'b'), (3, 'c')", target=_at_most_of_bare),
    Case(name="SHOW CATALOGS", sql="SHOW CATALOGS", target=_at_most_of_bare),
    Case(name="SHOW TABLES", sql=f"SHOW TABLES IN {NAMESPACE}", target=_at_most_of_bare),
    Case(name="1,000 rows of a table", sql=f"SELECT * FROM {TABLE}", target=_little_more),
)


def measure() -> Iterator[Finding]:
    """Yield the table of statements."""
    with TemporaryDirectory(prefix="freshtable-bench-") as folder, gateway_process() as gateway:
        spark = bare_session(Path(folder))
        try:
            with GatewayClient(gateway.url) as client:
                for statement in PREPARE:
                    spark.sql(statement)
                    _run(client, statement)
                taken = [(case, _taken(client, spark, case.sql)) for case in CASES]
        finally:
            spark.stop()
    yield Finding(
        title="A small result through gateway and client, and in process",
        columns=["statement", "spark.sql(…).toArrow()", "gateway + client", "ratio", "difference of p50"],
        rows=[_row(case.name, each["bare"], each["ours"]) for case, each in taken],
        targets=[case.target(case.name, each["bare"], each["ours"]) for case, each in taken],
        notes=[
            f"Median (min to max) of {ROUNDS} rounds in turns. "
            "Through the gateway: POST the statement, GET its pages as JSON, DELETE the operation. "
            "The gateway and its JVM are processes of their own; bare Spark runs in the client's process.",
            (
                "Rows that Spark has once a statement is planned need no Spark job through the gateway; "
                "bare, toArrow() runs one."
            ),
            (
                f"{TABLE} is an Iceberg table of one file. "
                "SHOW TABLES through the gateway lists views too, as Flink's does."
            ),
        ],
    )


def _run(client: GatewayClient, statement: str) -> list[ResultPage]:
    operation = client.execute(statement)
    pages = list(client.pages(operation))
    client.close_operation(operation)
    return pages


def _taken(client: GatewayClient, spark: SparkSession, statement: str) -> dict[str, Samples]:
    return in_turns(
        {"bare": lambda: spark.sql(statement).toArrow(), "ours": lambda: _run(client, statement)},
        ROUNDS,
        warm_up=WARM_UP,
    )


def _row(name: str, bare: Samples, ours: Samples) -> list[str]:
    difference = show(ours.median - bare.median)
    return [name, bare.shown(), ours.shown(), f"{ours.median / bare.median:.2f}", difference]
