"""The Makefile's test targets: `python -m tests.run TARGET [ASKED ...]`.

Tests that need an Airflow mostly wait for its clock, so all other tests run in parallel to them. Those use
two processes, each with one Spark driver that its modules share. A module runs in one process as a whole, and
the longest modules (`tests/durations.json`) run first, so both processes finish at about the same time.

If one command of make has several targets (`make check test test-slow`), the last one runs the tests of all
of them. Each separate run would collect the tests, start its Spark drivers and leave a core idle at its end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import psutil

from tests.durations import RESULTS
from tests.installed_tools import not_run

PYTHON = sys.executable
BIN = Path(PYTHON).parent
AIRFLOW_PYTHON = ".venv-airflow/bin/python"
# The tests spend a quarter of their time waiting for processes, clocks and kills.
WORKERS = os.environ.get("WORKERS", "2")
# The fast tests wait for threads and pauses, but not for a JVM, so one more process uses the idle cores.
FAST_WORKERS = os.environ.get("FAST_WORKERS", "3")
FAST = "not spark and not postgres and not flink and not airflow and not processes and not slow and not kills"
# The mark expression of each target; `check` runs the fast tests among those of `test`.
SELECTED = {"test": "not slow and not kills", "test-slow": "slow and not kills", "test-kills": "kills"}
DEEP = (
    "random or generated or maintained or killed or dialect or model or many_refreshes or any_request "
    "or whatever_happens or engine_contract or histories or affected_rows or upserts or protection or "
    "tables_of_queries or sources_of_others or keyed_sinks or operator_policies or operator_types or "
    "connector_streams or postgres_catalog or chains or object_store or storage_races or releases "
    "or catalog_servers or served_catalog or browser_views or state_values"
)
PARALLEL = ["--dist", "loadfile", "--no-loadscope-reorder"]
# Importing them takes each process seconds; tests/architecture/test_marks.py checks that none is fast.
FAST_ONLY = ["--ignore", "tests/integration", "--ignore", "tests/airflow"]
# Airflow has timeouts, so the tests that run in parallel to it get a lower priority.
AFTER_AIRFLOW = ["nice", "-n", "5"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Commands that run one after the other, even if one fails."""

    name: str
    commands: Sequence[Sequence[str]]


def main(arguments: Sequence[str]) -> int:
    """Run the target *arguments[0]*; *arguments[1:]* are all targets of the command. Return an exit code."""
    target, asked = arguments[0], arguments[1:]
    if target == "test" and "test-slow" in asked:
        say("The tests of `test` run with those of `test-slow`.")
        return 0
    code = run(first(target)) or beside(*parts(target, asked))
    # The tests of `check` need Python only.
    if target != "check" and (line := not_run()):
        say(line)
    return code


def first(target: str) -> Part:
    """Return the commands that run before the parts of a target: cheap checks, and shared preparation."""
    if target == "check":
        ruff = [
            [f"{BIN}/ruff", "format", "--check", "--quiet", "."],
            [f"{BIN}/ruff", "check", "--quiet", "."],
        ]
        return Part(name="format and lint", commands=ruff)
    shared = ["tests.class_archive", "tests.integration.flink_client.jars"]
    if target != "test":
        shared += ["tests.integration.kafka_broker", "tests.iceberg_server", "tests.object_store"]
    return Part(name="fetching what the tests share", commands=[[PYTHON, "-m", module] for module in shared])


def parts(target: str, asked: Sequence[str]) -> list[Part]:
    """Return the parts of a target, which run in parallel."""
    match target:
        case "check":
            return [
                Part(name="fast tests", commands=[fast_tests()]),
                Part(name="types and imports", commands=types()),
            ]
        case "test-deep":
            deep = pytest(target, "(slow or kills or postgres or processes) and not airflow", "-k", DEEP)
            return [Part(name="deep tests", commands=[deep])]
    selected = selection(target, asked)
    without = pytest(target, f"not airflow and ({selected})", "-n", WORKERS, *PARALLEL)
    within = pytest(f"{target}-airflow", f"airflow and ({selected})")
    return [
        Part(name="tests without Airflow", commands=[[*AFTER_AIRFLOW, *without]]),
        Part(name="tests with Airflow", commands=[*(of_dags() if "not slow" in selected else []), within]),
    ]


def selection(target: str, asked: Sequence[str]) -> str:
    """Return the mark expression of a target.

    It includes the tests of `test` if the command has both targets, and excludes the fast tests if it has
    `check`.
    """
    both = target == "test-slow" and "test" in asked
    chosen = f"{SELECTED['test']} or {SELECTED[target]}" if both else SELECTED[target]
    return f"({chosen}) and not ({FAST})" if "check" in asked else chosen


def pytest(name: str, expression: str, *more: str) -> list[str]:
    """Return the command that runs the tests of a mark expression and writes their durations to *name*."""
    results = f"--junitxml={RESULTS / name}.xml"
    return [PYTHON, "-m", "pytest", "-q", "-m", expression, *more, results, "--durations", "20"]


def fast_tests() -> list[str]:
    return [PYTHON, "-m", "pytest", "-q", "-m", FAST, "-n", FAST_WORKERS, *PARALLEL, *FAST_ONLY]


def types() -> list[Sequence[str]]:
    return [
        [f"{BIN}/mypy"],
        ["env", "PYTHONPATH=dags", f"{BIN}/lint-imports", "--cache-dir", ".import_linter_cache"],
        [f"{BIN}/deptry", "mt_core", "scheduler_plugins"],
        ["env", "-C", "dags", str(BIN.absolute() / "deptry"), "freshtable_airflow"],
    ]


def of_dags() -> list[Sequence[str]]:
    mypy = [
        f"{BIN}/mypy",
        "--python-executable",
        AIRFLOW_PYTHON,
        "--allow-untyped-calls",
        "dags/freshtable_airflow",
    ]
    return [[AIRFLOW_PYTHON, "-m", "pytest", "-q", "dags/tests"], mypy]


def beside(*parts: Part) -> int:
    """Run the parts in parallel; the output of all but the first is printed at the end.

    Return 0 if none failed.
    """
    busy_before = _busy_s()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(parts)) as threads, _no_child_left():
        outputs = [None, *(Path(folder, part.name) for part in parts[1:])]
        codes = list(threads.map(run, parts, outputs))
        for output in filter(None, outputs):
            sys.stdout.write(output.read_text(encoding="utf-8", errors="replace"))
    say(f"The cores of this machine were busy for {(_busy_s() - busy_before) / 60:.1f} minutes.")
    return next(filter(None, codes), 0)


def run(part: Part, output: Path | None = None) -> int:
    """Run the commands of a part one after the other, even if one fails; write their duration to *output*."""
    start = time.monotonic()
    with output.open("w", encoding="utf-8") if output else nullcontext(sys.stdout) as said:
        codes = [
            subprocess.run(command, stdout=said, stderr=subprocess.STDOUT).returncode
            for command in part.commands
        ]
        say(f"{part.name} took {time.monotonic() - start:.0f} s", said)
    return next(filter(None, codes), 0)


def say(line: str, said: TextIO = sys.stdout) -> None:
    said.write(f"{line}\n")
    said.flush()


@contextmanager
def _no_child_left() -> Iterator[None]:
    """Terminate running commands when this process is terminated."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        for child in psutil.Process().children():
            child.terminate()


def _busy_s() -> float:
    """Return the total busy time of all cores of this machine, in seconds, including other programs."""
    times = psutil.cpu_times()
    return times.user + times.nice + times.system


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
