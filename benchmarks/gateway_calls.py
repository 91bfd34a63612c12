"""How long do calls of the gateway take?

How many statements per second can it run, and how often must a client poll?
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from pyspark.sql import SparkSession

from benchmarks.bare_session import bare_session
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, in_turns, show, timed
from benchmarks.wire import Running, Wire, gateway_process

ROUNDS = 300
WARM_UP = 100
THREADS = 32
STATEMENTS = 200
SLOW_MS = 5000
CATALOGS = "SHOW CATALOGS"
SELECT = "SELECT 1"
SLOW = f"SELECT reflect('java.lang.Thread', 'sleep', CAST({SLOW_MS} AS BIGINT)), count(*) FROM range(1)"
OPEN_S, GET_S, CATALOGS_S, SELECT_S = 0.002, 0.001, 0.005, 0.010
RATE, POLLS = 600, 4.0


def measure() -> Iterator[Finding]:
    """Yield the tables of single calls, of many concurrent clients, and of a slow query."""
    with TemporaryDirectory(prefix="freshtable-bench-") as folder, gateway_process() as gateway:
        spark = bare_session(Path(folder))
        try:
            yield _calls(gateway, spark)
            yield _crowd(gateway)
            yield _polls(gateway)
        finally:
            spark.stop()


def _calls(gateway: Running, spark: SparkSession) -> Finding:
    wire, opened = Wire(gateway.url), []
    contenders = {
        "POST a session": lambda: opened.append(wire.open_session()),
        "GET a session": wire.show_session,
        f"{CATALOGS}: POST, fetch, close": lambda: wire.run(CATALOGS),
        f"{SELECT}: POST, fetch, close": lambda: wire.run(SELECT),
        f"{SELECT}: spark.sql(…).toArrow()": lambda: spark.sql(SELECT).toArrow(),
    }
    taken = in_turns(contenders, ROUNDS, warm_up=WARM_UP)
    for handle in opened:
        wire.ask("DELETE", f"/v4/sessions/{handle}")
    session, shown, catalogs, ours, bare = taken.values()
    over = ours.median - bare.median
    return Finding(
        title="Calls, one at a time",
        columns=["", "p50 (min to max)", "p99"],
        rows=[[name, each.shown(), show(each.percentile(99))] for name, each in taken.items()],
        targets=[
            _at_most("POST a session", OPEN_S, session),
            _at_most("GET a session", GET_S, shown),
            _at_most(CATALOGS, CATALOGS_S, catalogs),
            Target(
                asked=f"{SELECT} with p50 at most {show(SELECT_S)} over bare Spark",
                measured=f"{show(over)} ({ours.median / bare.median:.2f} times)",
                met=over <= SELECT_S,
            ),
        ],
        notes=[
            f"{ROUNDS} rounds in turns, on one connection. The gateway and its JVM are processes of their "
            "own; bare Spark runs in the client's process, with the same jars and catalog.",
        ],
    )


def _crowd(gateway: Running) -> Finding:
    process = psutil.Process(gateway.pid)
    ready = threading.Barrier(THREADS + 1)
    taken: list[float] = []

    def work() -> None:
        wire = Wire(gateway.url)
        ready.wait()
        for _ in range(STATEMENTS):
            taken.append(timed(lambda: wire.run(CATALOGS)))
        wire.close()

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    ready.wait()
    before, own, begun = _processor_s(process), time.process_time(), time.perf_counter()
    for thread in threads:
        thread.join()
    lasted, busy = time.perf_counter() - begun, _processor_s(process) - before
    rate, samples = len(taken) / lasted, Samples(taken)
    return Finding(
        title=f"{CATALOGS} from {THREADS} threads",
        columns=["", "value"],
        rows=[
            ["statements a second, three calls each", f"{rate:.0f}"],
            ["a statement: p50 / p99", f"{show(samples.median)} / {show(samples.percentile(99))}"],
            ["processor time of the gateway, a statement", show(busy / len(taken))],
            ["processor time of the client, a statement", show((time.process_time() - own) / len(taken))],
        ],
        targets=[
            Target(
                asked=f"{RATE} statements a second or more", measured=f"{rate:.0f} a second", met=rate >= RATE
            )
        ],
        notes=[
            (
                f"{len(taken):,} statements; the client is one process, and shares the machine's "
                "cores with the gateway."
            )
        ],
    )


def _polls(gateway: Running) -> Finding:
    wire = Wire(gateway.url)
    polls: list[int] = []
    lasted = timed(lambda: polls.append(wire.run(SLOW)))
    rate = polls[0] / lasted
    return Finding(
        title="A client that asks for a slow result again as soon as it is told that there is none yet",
        columns=["", "value"],
        rows=[["the query took", show(lasted)], ["pages that were not ready", str(polls[0])]],
        targets=[
            Target(asked=f"at most {POLLS:.0f} a second", measured=f"{rate:.1f} a second", met=rate <= POLLS)
        ],
        notes=["Flink's SQL client asks in the same way."],
    )


def _at_most(name: str, limit_s: float, samples: Samples) -> Target:
    return Target(
        asked=f"{name} with p50 under {show(limit_s)}",
        measured=show(samples.median),
        met=samples.median < limit_s,
    )


def _processor_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
