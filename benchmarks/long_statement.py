"""What does the gateway add to an INSERT of one megabyte, and how long does it take to send it?"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

from benchmarks.embedded import embedded_gateway
from benchmarks.report import Finding, Target
from benchmarks.sampling import show

TARGET_S = 0.7
ROUNDS = 3
ROWS = 18_000
TABLE = "lake.default.long_statement"


def measure() -> Iterator[Finding]:
    """Yield the table of processor times."""
    values = ", ".join(
        f"({number}, 'name of number {number}', {number}.5, DATE '2024-01-01')" for number in range(ROWS)
    )
    insert = f"INSERT INTO {TABLE} VALUES {values}"
    with embedded_gateway() as gateway:
        gateway.sql(f"CREATE TABLE {TABLE} (id INT, name STRING, share DECIMAL(8, 1), day DATE)")
        gateway.sql(insert)
        bare = [_processor_s(lambda: gateway.spark.sql(insert)) for _ in range(ROUNDS)]
        ours = [_processor_s(lambda: gateway.sql(insert)) for _ in range(ROUNDS)]
        posts = [_post_s(gateway.client.execute, insert) for _ in range(ROUNDS)]
    added = statistics.median(ours) - statistics.median(bare)
    yield Finding(
        title=f"An INSERT of {len(insert) / 1e6:.2f} MB: processor time of this process, without the JVM",
        columns=["way", "processor time"],
        rows=[
            ["spark.sql(…)", show(statistics.median(bare))],
            ["gateway + client", show(statistics.median(ours))],
            ["its POST alone, from start to answer", show(statistics.median(posts))],
        ],
        targets=[
            Target(
                asked=f"at most {show(TARGET_S)} beyond Spark's", measured=show(added), met=added <= TARGET_S
            ),
        ],
        notes=[f"Medians of {ROUNDS} rounds; client and gateway are in the process that is measured."],
    )


def _processor_s(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def _post_s(execute: Callable[[str], str], statement: str) -> float:
    before = time.perf_counter()
    execute(statement)
    return time.perf_counter() - before
