"""Does the memory scheduler keep 10,000 workflows on time while its gateway stays responsive?

This covers many ticks at the same instant, and a restart.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from benchmarks import fake_gateway
from benchmarks.fake_gateway import WRITE_S, Setup
from benchmarks.population import Population, Run
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, show, timed
from mt_core.client.http import GatewayClient
from scheduler_plugins.memory.scheduler import CATCH_UP_RATE

WORKFLOWS = 10_000
SPREAD_S = 60
HEAD_START_S = 12
STORM_LIMIT_S = 300
LATENESS_S, STORM_S, ANSWER_S, RESTART_S = 1.0, 60.0, 0.250, 10.0
CATCH_UP_S = 15
ASK_EVERY_S = 0.05
POLL_S = 0.25
MIB = 2**20
CAP = int(CATCH_UP_RATE.default or 0)
KINDS = ("GET session", "GET status of a refresh", "SHOW REFRESHES FOR one table")


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A gateway in a separate process."""

    url: str
    process: subprocess.Popen[str]
    begun: datetime

    def memory(self) -> str:
        """Return the resident memory of the process now."""
        return f"{psutil.Process(self.process.pid).memory_info().rss / MIB:.0f} MiB"

    def processor_s(self) -> float:
        """Return the processor time of the process so far, in seconds."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)


def measure() -> Iterator[Finding]:
    """Yield the tables of evenly spread ticks, of many ticks at one instant, and of a restart."""
    with TemporaryDirectory(prefix="freshtable-bench-") as folder:
        yield _even(Path(folder))
    with TemporaryDirectory(prefix="freshtable-bench-") as folder:
        yield from _storm_and_restart(Path(folder))


# ------------------------------------------------------------------------------------------------------- even


def _even(folder: Path) -> Finding:
    population = Population(folder)
    start = _soon()
    population.create(
        [start + timedelta(seconds=number * SPREAD_S // WORKFLOWS) for number in range(WORKFLOWS)]
    )
    with _gateway(folder) as gateway:
        _refuse_late(start)
        _sleep_until(start)
        before = gateway.processor_s()
        _wait_accepted(population, gateway.begun, WORKFLOWS)
        busy_s, memory = gateway.processor_s() - before, gateway.memory()
        runs = population.runs(gateway.begun)
    late = Samples([run.lateness for run in runs])
    return Finding(
        title=f"{WORKFLOWS:,} ticks spread evenly over a minute",
        columns=["", "value"],
        rows=[
            ["ticks accepted", f"{len(runs):,}"],
            ["lateness, median", show(late.median)],
            ["lateness, p99", show(late.percentile(99))],
            ["lateness, worst", show(late.worst)],
            ["processor time a tick, refreshes included", show(busy_s / len(runs))],
            ["memory of the gateway's process", memory],
        ],
        targets=[
            Target(
                asked=f"p99 lateness under {show(LATENESS_S)}",
                measured=show(late.percentile(99)),
                met=late.percentile(99) < LATENESS_S and len(runs) == WORKFLOWS,
            )
        ],
        notes=[
            "Lateness: from the grid point to the instant at which the ledger has the run. "
            f"Grids have whole seconds, so {WORKFLOWS // SPREAD_S} or {WORKFLOWS // SPREAD_S + 1} workflows "
            "are due together each second.",
            (
                "The gateway's two workers carry refreshes out meanwhile, "
                f"with a fake engine that takes {show(WRITE_S)} for a write."
            ),
        ],
    )


# ------------------------------------------------------------------------------------------ storm and restart


def _storm_and_restart(folder: Path) -> Iterator[Finding]:
    population = Population(folder)
    start = _soon()
    population.create([start] * WORKFLOWS)
    with _gateway(folder) as gateway:
        _refuse_late(start)
        with GatewayClient(gateway.url) as client, _asking(client, start) as answers:
            _wait_accepted(population, gateway.begun, WORKFLOWS)
        memory = gateway.memory()
        yield _storm(population.runs(gateway.begun), answers, memory)
        gateway.process.kill()
    missed = datetime.now(UTC).replace(microsecond=0)
    population.reschedule(missed)
    with _gateway(folder) as gateway:
        _wait_accepted(population, gateway.begun, 1)
        time.sleep(CATCH_UP_S)
        yield _restart(population.runs(gateway.begun), gateway)


def _storm(runs: Sequence[Run], answers: dict[str, list[float]], memory: str) -> Finding:
    last = max(run.lateness for run in runs)
    everything = Samples([seconds for each in answers.values() for seconds in each])
    rows = [
        ["ticks accepted", f"{len(runs):,}"],
        ["until the last was accepted", show(last)],
        ["ticks a second", f"{len(runs) / last:.0f}"],
    ]
    for kind, seconds in answers.items():
        shown = Samples(seconds)
        rows.append(
            [
                f"{kind}: p50 / p99 / worst",
                " / ".join(map(show, (shown.median, shown.percentile(99), shown.worst))),
            ]
        )
    rows.append(["memory of the gateway's process", memory])
    return Finding(
        title=f"All {WORKFLOWS:,} due at one instant",
        columns=["", "value"],
        rows=rows,
        targets=[
            Target(asked=f"accepted within {show(STORM_S)}", measured=show(last), met=last < STORM_S),
            Target(
                asked=f"other requests with p99 under {show(ANSWER_S)}",
                measured=f"{show(everything.percentile(99))} of {len(everything.seconds)}",
                met=everything.percentile(99) < ANSWER_S,
            ),
        ],
        notes=[
            "One request a tick, over HTTP, from the scheduler in the gateway's own process. The other "
            "client is a process of its own, with a request in flight all the time but for pauses of 50 ms.",
            "SHOW REFRESHES is a whole statement: three requests, timed as one.",
        ],
    )


def _restart(runs: Sequence[Run], gateway: Running) -> Finding:
    first = (runs[0].accepted_at - gateway.begun).total_seconds()
    seconds = Counter(int((run.accepted_at - runs[0].accepted_at).total_seconds()) for run in runs)
    counted = [seconds[number] for number in range(CATCH_UP_S - 1)]
    return Finding(
        title=f"Restart after kill -9, with a missed tick of each of {WORKFLOWS:,} workflows",
        columns=["", "value"],
        rows=[
            ["start of the process to the first tick accepted", show(first)],
            ["ticks a second after it, average", f"{sum(counted) / len(counted):.1f}"],
            ["ticks a second after it, most", str(max(counted))],
            ["memory of the gateway's process", gateway.memory()],
        ],
        targets=[
            Target(asked=f"first tick within {show(RESTART_S)}", measured=show(first), met=first < RESTART_S),
            Target(
                asked=f"no burst above the cap of {CAP} a second (`catch-up-rate`)",
                measured=f"at most {max(counted)} in a second",
                met=max(counted) <= 1.2 * CAP,
            ),
        ],
        notes=[
            (
                "A tick that waited for its turn in the registry may be counted with the next second's: "
                "20 % are allowed for."
            )
        ],
    )


# ---------------------------------------------------------------------------------------------------- helpers


def _soon() -> datetime:
    """Return a whole second before which a gateway will certainly have started, even on a busy machine."""
    head_start = timedelta(seconds=HEAD_START_S * (1 + os.getloadavg()[0] / 4))
    return (datetime.now(UTC) + head_start).replace(microsecond=0)


def _refuse_late(start: datetime) -> None:
    if datetime.now(UTC) >= start:
        raise TimeoutError(
            "The gateway with a fake engine started too late; the machine is too busy to measure."
        )


def _sleep_until(instant: datetime) -> None:
    time.sleep(max(0.0, (instant - datetime.now(UTC)).total_seconds()))


@contextmanager
def _gateway(folder: Path) -> Iterator[Running]:
    begun = datetime.now(UTC)
    with fake_gateway.started(folder, Setup()) as (url, process):
        yield Running(url=url, process=process, begun=begun)


def _wait_accepted(population: Population, since: datetime, count: int) -> None:
    deadline = time.monotonic() + STORM_LIMIT_S
    while population.accepted(since) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"Only {population.accepted(since)} of {count} ticks were accepted.")
        time.sleep(POLL_S)


@contextmanager
def _asking(client: GatewayClient, start: datetime) -> Iterator[dict[str, list[float]]]:
    """Send requests of several kinds to the gateway in turn, from *start* to the end of the block.

    Yield how long the responses take, by kind of request.
    """
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    ended = threading.Event()
    work = {
        KINDS[0]: client.properties,
        KINDS[1]: lambda: client.status(runs[0]),
        KINDS[2]: lambda: _show(client, "FOR lake.default.t00042"),
    }
    runs: list[str] = []

    def ask() -> None:
        _sleep_until(start + timedelta(seconds=1))
        runs.extend(_show(client))
        while not ended.is_set():
            for kind in KINDS:
                taken[kind].append(timed(work[kind]))
                ended.wait(ASK_EVERY_S)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield taken
    finally:
        ended.set()
        thread.join()


def _show(client: GatewayClient, of: str = "") -> list[str]:
    """Run a SHOW REFRESHES and return the ids of the runs, which are operation handles too."""
    operation = client.execute(f"SHOW REFRESHES {of} EXTENDED LIMIT 5")
    rows = [row for page in client.pages(operation) for row in page.rows]
    client.close_operation(operation)
    return [str(row[0]) for row in rows]
