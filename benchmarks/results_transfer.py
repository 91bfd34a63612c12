"""How fast are a million rows transferred over HTTP, as Arrow and as JSON?

And how much memory does a long result need?
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import psutil

from benchmarks.embedded import Embedded, embedded_gateway
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples

ROWS, LONG = 1_000_000, 10_000_000
ROUNDS, WARM_UP = 5, 2
PARTITIONS = 16
ARROW_TARGET, JSON_TARGET = 1_500_000, 400_000
QUERY = (
    "SELECT id, CAST(id % 1000 AS INT) AS small, id * 1.5D AS price, CONCAT('name_', id) AS name, "
    "TIMESTAMP_SECONDS(id) AS at FROM range(0, {rows}, 1, {partitions})"
)
ARROW = "application/vnd.apache.arrow.stream"
MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Resident bytes of the gateway's Python and of its JVM, before the transfer and at its maximum.

    `seconds` is the duration of the transfer.
    """

    before: tuple[int, int]
    most: tuple[int, int]
    seconds: float


def measure() -> Iterator[Finding]:
    """Yield the table of rates, then the table of memory."""
    with embedded_gateway() as gateway:
        yield _rates(gateway)
        yield _memories(gateway)


# ------------------------------------------------------------------------------------------------------ rates


def _rates(gateway: Embedded) -> Finding:
    query = QUERY.format(rows=ROWS, partitions=PARTITIONS)
    contenders: Mapping[str, Callable[[], float]] = {
        "spark.sql(…).toArrow() in process": lambda: _bare(gateway, query),
        "Arrow through HTTP": lambda: _paged(gateway, query, ARROW),
        "JSON through HTTP": lambda: _paged(gateway, query, "application/json"),
    }
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(WARM_UP + ROUNDS):
        for name, contender in contenders.items():
            seconds = contender()
            if number >= WARM_UP:
                taken[name].append(seconds)
    samples = {name: Samples(seconds) for name, seconds in taken.items()}
    return Finding(
        title=f"{ROWS:,} rows of five columns (BIGINT, INT, DOUBLE, STRING, TIMESTAMP)",
        columns=["way", "time", "rows/s"],
        rows=[[name, each.shown(), f"{ROWS / each.median:,.0f}"] for name, each in samples.items()],
        targets=[
            _target("Arrow", samples["Arrow through HTTP"], ARROW_TARGET),
            _target("JSON", samples["JSON through HTTP"], JSON_TARGET),
        ],
        notes=[
            f"Median (min to max) of {ROUNDS} rounds in turns, from POST of the statement to the last page. "
            "The client is a process of its own that counts bytes and reads nothing but "
            "where the next page is.",
            (
                f"The query has {PARTITIONS} partitions; JSON pages have 5,000 rows, "
                "Arrow pages 262,144 at most."
            ),
        ],
    )


def _bare(gateway: Embedded, query: str) -> float:
    begun = time.perf_counter()
    gateway.spark.sql(query).toArrow()
    return time.perf_counter() - begun


def _paged(gateway: Embedded, query: str, accept: str) -> float:
    """Return how long another process takes to read a result page by page."""
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.results_transfer", gateway.client.url, accept, query],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(told.stdout)


def _target(name: str, samples: Samples, asked: int) -> Target:
    rate = ROWS / samples.median
    return Target(asked=f"{asked:,} rows/s", measured=f"{name}: {rate:,.0f} rows/s", met=rate >= asked)


# ----------------------------------------------------------------------------------------------------- memory


def _memories(gateway: Embedded) -> Finding:
    query = QUERY.format(rows=LONG, partitions=PARTITIONS * 10)
    found = {
        name: _memory(gateway, query, accept)
        for name, accept in (("Arrow", ARROW), ("JSON", "application/json"))
    }
    return Finding(
        title=f"Resident memory while {LONG:,} rows are paged",
        columns=["form", "Python before", "Python at most", "JVM before", "JVM at most", "rows/s"],
        rows=[_memory_row(name, each) for name, each in found.items()],
        notes=["Sampled ten times a second. As one table in memory the rows would be some 450 MB."],
    )


def _memory_row(name: str, memory: Memory) -> list[str]:
    python, jvm = zip(memory.before, memory.most, strict=True)
    sizes = [f"{size / MEBIBYTE:,.0f} MiB" for size in (*python, *jvm)]
    return [name, *sizes, f"{LONG / memory.seconds:,.0f}"]


def _memory(gateway: Embedded, query: str, accept: str) -> Memory:
    processes = psutil.Process(os.getpid()), psutil.Process(_jvm_pid(gateway))
    before = _resident(processes)
    with _watched(processes) as most:
        seconds = _paged(gateway, query, accept)
    return Memory(before=before, most=(max(most[0]), max(most[1])), seconds=seconds)


def _jvm_pid(gateway: Embedded) -> int:
    jvm = gateway.spark.sparkContext._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]


def _resident(processes: tuple[psutil.Process, psutil.Process]) -> tuple[int, int]:
    python, jvm = (process.memory_info().rss for process in processes)
    return python, jvm


@contextmanager
def _watched(processes: tuple[psutil.Process, psutil.Process]) -> Iterator[tuple[list[int], list[int]]]:
    done, samples = threading.Event(), ([0], [0])

    def watch() -> None:
        while not done.wait(0.1):
            for taken, size in zip(samples, _resident(processes), strict=True):
                taken.append(size)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield samples
    finally:
        done.set()
        watcher.join()


# ------------------------------------------------------------------------------------------------- the client


def read_all(url: str, accept: str, statement: str) -> float:
    """Run a statement, read all pages of its result without parsing them, and return how long that took."""
    with httpx.Client(base_url=url, timeout=600, headers={"Accept": accept}) as http:
        session = http.post("/v3/sessions", json={}).json()["sessionHandle"]
        begun = time.perf_counter()
        answer = http.post(
            f"/v3/sessions/{session}/statements", json={"statement": statement}
        ).raise_for_status()
        uri: str | None = f"/v3/sessions/{session}/operations/{answer.json()['operationHandle']}/result/0"
        while uri is not None:
            uri = _next(http.get(uri).raise_for_status())
        seconds = time.perf_counter() - begun
        http.delete(f"/v3/sessions/{session}")
    return seconds


def _next(page: httpx.Response) -> str | None:
    if page.headers["content-type"] == ARROW:
        return page.headers.get("freshtable-next-result-uri")
    # This is the last member of the page. Parsing the rows takes the client longer than writing them takes
    # the gateway.
    tail = page.content[-300:].decode("utf-8", "replace").rpartition('"nextResultUri":"')
    return tail[2].partition('"')[0] if tail[1] else None


if __name__ == "__main__":
    sys.stdout.write(f"{read_all(*sys.argv[1:4]):.6f}\n")
