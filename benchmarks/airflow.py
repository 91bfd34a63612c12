"""Measures a real Airflow with a thousand tables.

How soon does it show a change, what does it cost, and do ticks arrive on time?
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

from benchmarks.airflow_stage import TABLES, Stage, stage
from benchmarks.fake_gateway import Setup
from benchmarks.population import DAG_ID_PREFIX, Run
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, show, timed
from mt_core.client.http import GatewayClient
from mt_core.workflow.definitions import SHARDS

REFRESH_S = 3.0
WORKERS = 16
CREATES, ALTERS, DROPS, SHOWS = 20, 10, 10, 10
TICKING, CLIENTS, TICKS_FOR_S = 20, 4, 120
SHORTEST_S = 60
REFRESHES, WARM_UP = 200, 8
QUIET_S, PARSED_FILES = 60, 8
# The interval that docs/airflow.md recommends. Each file is parsed this often even without a change.
ROUND_S = 300
SOON_S, LONG_S = 60, 300
LOOK_EVERY_S = 0.5
CREATE_S, ALTER_S, BUSY, PER_FILE, STARTUP_S, TICK_S, SHOW_S = 2.0, 3.0, 0.05, 70, 0.1, 2.0, 1.0
FREELY = "FRESHNESS = INTERVAL '{}' {} REFRESH_MODE = FULL AS SELECT * FROM lake.default.orders"
RUNNING = {None, "queued", "scheduled", "running", "deferred", "up_for_retry", "restarting", "none"}


def measure() -> Iterator[Finding]:
    """Yield the tables for changes, for the cost of a thousand tables, and for ticks and refreshes."""
    with stage(Setup(write_s=REFRESH_S, workers=WORKERS, new_data=True)) as (both, shown_s):
        yield _changes(both)
        yield _cost(both, shown_s)
        yield from _refreshes(both)


# ---------------------------------------------------------------------------------------------------- changes


def _changes(both: Stage) -> Finding:
    created = [_timed(both, f"c{n:02}", _create, _is_scheduled) for n in range(CREATES)]
    altered = [_timed(both, f"c{n:02}", _alter, _is_altered) for n in range(ALTERS)]
    dropped = [_timed(both, f"c{n:02}", _drop, lambda dag: not dag) for n in range(DROPS)]
    shown = [timed(lambda: both.sql("SHOW MATERIALIZED TABLES")) for _ in range(SHOWS)]
    rows = {
        "CREATE MATERIALIZED TABLE": Samples(created),
        "ALTER … SET FRESHNESS": Samples(altered),
        "DROP MATERIALIZED TABLE": Samples(dropped),
        f"SHOW MATERIALIZED TABLES, all {TABLES:,}, read back from Airflow": Samples(shown),
    }
    create, alter, _, read = rows.values()
    return Finding(
        title=f"Statements with {TABLES:,} tables present, until Airflow shows what they did",
        columns=["", "p50 (min to max)", "p99"],
        rows=[[name, each.shown(), show(each.percentile(99))] for name, each in rows.items()],
        targets=[
            _under("CREATE until visible and scheduled, p50", CREATE_S, create.median),
            _under("a change of freshness visible, p50", ALTER_S, alter.median),
            _under("SHOW MATERIALIZED TABLES, p50", SHOW_S, read.median),
        ],
        notes=[
            "A statement returns when Airflow shows the change; Airflow was asked after each whether "
            f"that is so. {CREATES} CREATE, {ALTERS} ALTER and {DROPS} DROP, one after the other. "
            "Nothing is filled: no refresh is waited for.",
        ],
    )


def _timed(
    both: Stage, name: str, work: Callable[[Stage, str], object], right: Callable[[dict[str, object]], bool]
) -> float:
    seconds = timed(lambda: work(both, name))
    if not right(both.dag(name)):
        raise AssertionError(f"Airflow does not show what was done to {name}: {both.dag(name)}")
    return seconds


def _create(both: Stage, name: str) -> None:
    both.sql(f"CREATE MATERIALIZED TABLE lake.default.{name} {FREELY.format(90, 'DAY')}")


def _alter(both: Stage, name: str) -> None:
    both.sql(f"ALTER MATERIALIZED TABLE lake.default.{name} SET FRESHNESS = INTERVAL '91' DAY")


def _drop(both: Stage, name: str) -> None:
    both.sql(f"DROP MATERIALIZED TABLE lake.default.{name}")


def _is_scheduled(dag: dict[str, object]) -> bool:
    return bool(dag) and not dag["is_stale"] and bool(dag["next_dagrun_run_after"])


def _is_altered(dag: dict[str, object]) -> bool:
    return _is_scheduled(dag) and str(dag["timetable_summary"]).startswith("every 91 DAY")


# ------------------------------------------------------------------------------------------------------- cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What Airflow's dag-processor did in a period: its processor time, and how many files it parsed."""

    lasted_s: float
    busy_s: float
    parses: int


def _cost(both: Stage, shown_s: float) -> Finding:
    quiet = _window(both, [], QUIET_S)
    parsing = _window(both, list(both.parsed())[:PARSED_FILES])
    # Two windows give two equations for two unknowns. The number of parses in one minute varies by chance; in
    # the long run each file has its share.
    parse_s = (parsing.busy_s * quiet.lasted_s - quiet.busy_s * parsing.lasted_s) / (
        parsing.parses * quiet.lasted_s - quiet.parses * parsing.lasted_s
    )
    load = (quiet.busy_s - quiet.parses * parse_s) / quiet.lasted_s + SHARDS * parse_s / ROUND_S
    in_files = both.in_files()
    return Finding(
        title=f"What {TABLES:,} tables cost Airflow's dag-processor",
        columns=["", "value"],
        rows=[
            ["from the start of Airflow's processes until all DAGs were shown", show(shown_s)],
            [
                f"processor time in {quiet.lasted_s:.0f} s without changes, with {quiet.parses} parses",
                show(quiet.busy_s),
            ],
            ["processor time of the parse of a file", show(parse_s)],
            [
                f"processor time in the long run, each file parsed every {ROUND_S} s",
                f"{100 * load:.1f} % of a core",
            ],
            ["DAGs in a file, fewest to most", f"{in_files[0]} to {in_files[-1]}"],
        ],
        targets=[
            Target(
                asked=f"under {100 * BUSY:.0f} % of a core", measured=f"{100 * load:.1f} %", met=load < BUSY
            ),
            Target(
                asked=f"at most {PER_FILE} DAGs in a file",
                measured=f"{in_files[-1]}, in {len(in_files)} files",
                met=in_files[-1] <= PER_FILE,
            ),
        ],
        notes=["With the settings of docs/airflow.md. The processes that parse files are counted in."],
    )


def _window(both: Stage, asked: Sequence[str], longest_s: float = SOON_S) -> Window:
    """Watch the dag-processor for *longest_s*.

    If files are *asked* for, have them parsed one after the other, and stop as soon as that is done.
    """
    before, begun, known, left = both.processor_s(), time.monotonic(), both.parsed(), list(asked)
    waiting, parses = "", 0
    while time.monotonic() - begun < longest_s and (left or waiting or not asked):
        if left and not waiting:
            waiting = left.pop()
            both.airflow.rest.parse_file_of(waiting)
        time.sleep(LOOK_EVERY_S)
        now = both.parsed()
        changed = {name for name, at in now.items() if known.get(name) != at}
        parses, known = parses + len(changed), now
        waiting = "" if waiting in changed else waiting
    return Window(lasted_s=time.monotonic() - begun, busy_s=both.processor_s() - before, parses=parses)


# -------------------------------------------------------------------------------------------------- refreshes


def _refreshes(both: Stage) -> Iterator[Finding]:
    # The first tasks after Airflow's start are slow, because it loads modules and starts workers.
    _trigger(both, range(WARM_UP))
    _create_ticking(both)
    start = datetime.now(UTC)
    time.sleep(TICKS_FOR_S)
    runs = [run for run in both.population.runs(start) if run.point >= start]
    yield _ticks(runs)
    # Measure this before many tasks run together, because each of them would wait for the others.
    yield _startup(both)
    _pause_ticking(both)
    _trigger(both, range(WARM_UP, REFRESHES - len(runs)))
    yield _reliability(both)


def _create_ticking(both: Stage) -> None:
    """Create the tables that tick. Each has a period of its own, so that their ticks are spread."""

    def create(number: int) -> None:
        with GatewayClient(both.url, both.token) as client:
            freely = FREELY.format(SHORTEST_S + number, "SECOND")
            both.sql(f"CREATE MATERIALIZED TABLE lake.default.tick{number:02} {freely}", client)

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(create, range(TICKING)))


def _pause_ticking(both: Stage) -> None:
    for number in range(TICKING):
        both.airflow.rest.pause(f"{DAG_ID_PREFIX}lake.default.tick{number:02}", True)


def _ticks(runs: Sequence[Run]) -> Finding:
    late = Samples([run.lateness for run in runs])
    return Finding(
        title=f"Ticks of {TICKING} tables, each due about once a minute, for {TICKS_FOR_S} s",
        columns=["", "value"],
        rows=[
            ["ticks", str(len(runs))],
            ["from the tick to the refresh request, median", show(late.median)],
            ["from the tick to the refresh request, p99", show(late.percentile(99))],
            ["from the tick to the refresh request, worst", show(late.worst)],
        ],
        targets=[_under("tick to refresh request, p99", TICK_S, late.percentile(99))],
        notes=[
            f"Periods of {SHORTEST_S} to {SHORTEST_S + TICKING - 1} s spread the ticks. From the grid point "
            "to the instant at which the gateway's ledger has the run: Airflow's scheduler, its executor, "
            f"the start of the task's process, and ours. {os.cpu_count()} cores are shared by all.",
        ],
    )


def _trigger(both: Stage, numbers: Iterable[int]) -> None:
    """Trigger tables that have not run yet, all at the same time."""
    for number in numbers:
        both.airflow.rest.trigger(f"{DAG_ID_PREFIX}lake.default.t{number:05}")
    both.airflow.rest.wait(lambda: all(task.state not in RUNNING for task in both.tasks()), LONG_S)


def _reliability(both: Stage) -> Finding:
    tasks = both.tasks()
    failed = [task for task in tasks if task.state != "success" or task.tries > 1]
    starts = both.spark_starts()
    return Finding(
        title=f"Refreshes of {show(REFRESH_S)} each, by ticks and by hand",
        columns=["", "value"],
        rows=[
            ["tasks", str(len(tasks))],
            ["failed or tried again", str(len(failed))],
            ["refreshes that Spark began", str(starts)],
        ],
        targets=[
            Target(
                asked=f"no spurious failure in {REFRESHES} refreshes",
                measured=f"{len(failed)} of {len(tasks)} tasks failed or were tried again",
                met=not failed and len(tasks) >= REFRESHES,
            ),
            Target(
                asked="one Spark refresh a task",
                measured=f"{starts} for {len(tasks)} tasks",
                met=starts == len(tasks),
            ),
        ],
        notes=[
            f"{WORKERS} workers of the gateway, whose fake of Spark takes {show(REFRESH_S)} for a refresh."
        ],
    )


def _startup(both: Stage) -> Finding:
    startups = both.startups()
    parts = {
        "our bundle, which asks the gateway for the shard": Samples([each.bundle_s for each in startups]),
        "the file with the DAG": Samples([each.parse_s for each in startups]),
        "both": Samples([each.total_s for each in startups]),
    }
    total = parts["both"].median
    return Finding(
        title="What bundle and DAG factory add to the start of a task",
        columns=["", "p50 (min to max)", "p99"],
        rows=[[name, each.shown(), show(each.percentile(99))] for name, each in parts.items()],
        targets=[_under("bundle and factory, p50", STARTUP_S, total)],
        notes=[
            (
                f"As Airflow itself says in the logs of {len(startups)} tasks "
                "(bundle_prepare_ms, dag_file_parse_ms)."
            )
        ],
    )


def _under(what: str, limit_s: float, measured_s: float) -> Target:
    return Target(asked=f"{what} under {show(limit_s)}", measured=show(measured_s), met=measured_s < limit_s)
