"""The environment of the benchmark `airflow`: a real Airflow, and a gateway with a fake Spark.

The gateway has a thousand tables.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import psutil

from benchmarks import fake_gateway
from benchmarks.fake_gateway import WRITES, Setup
from benchmarks.population import DAG_ID_PREFIX, Population
from mt_core.client.http import GatewayClient
from mt_core.demo.free_ports import free_port
from mt_core.workflow.definitions import SHARDS
from tests.airflow.settings import PASSWORD, USER, AirflowSettings
from tests.airflow.stack import ROOT, AirflowStack, running_airflow
from tests.postgres import start_postgres

TABLES = 1000
PARALLELISM = 16
TOKEN = "token-of-the-benchmark"
ALL_SHOWN_S = 240
PAGE = 100
# The reconciler must not run while Airflow starts, because it would only add noise.
NEVER_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """The seconds that a task's process needed to load our bundle, and to parse the file of its DAG."""

    bundle_s: float
    parse_s: float

    @property
    def total_s(self) -> float:
        return self.bundle_s + self.parse_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task instance after its end."""

    dag_id: str
    state: str
    tries: int


class Stage:
    """The running Airflow and gateway. `sql` runs a statement with a client."""

    def __init__(self, airflow: AirflowStack, population: Population, folder: Path, url: str) -> None:
        self.airflow, self.population, self.url = airflow, population, url
        self.token, self._folder = TOKEN, folder
        self.client = GatewayClient(url, TOKEN)

    def sql(self, statement: str, client: GatewayClient | None = None) -> Sequence[Sequence[Any]]:
        """Run a statement to its end and return its rows."""
        asking = client or self.client
        operation = asking.execute(statement)
        rows = [row for page in asking.pages(operation) for row in page.rows]
        asking.close_operation(operation)
        return rows

    def dag(self, name: str) -> dict[str, Any]:
        """Return the DAG of a table as Airflow shows it, or {} if it does not exist."""
        return self.airflow.rest.dag(f"{DAG_ID_PREFIX}lake.default.{name}")

    def parsed(self) -> dict[str, str]:
        """Return when each of our files was last parsed."""
        found = self.airflow.rest.get("/dags", tags="freshtable", limit=PAGE)
        return {dag["dag_id"]: dag["last_parsed_time"] for dag in found["dags"]}

    def in_files(self) -> list[int]:
        """Return the number of DAGs in each file, without its anchor."""
        counts: dict[str, int] = {}
        for dag in self._all("/dags", "dags", dag_id_prefix_pattern=DAG_ID_PREFIX):
            counts[dag["relative_fileloc"]] = counts.get(dag["relative_fileloc"], -1) + 1
        return sorted(counts.values())

    def tasks(self) -> list[Task]:
        """Return all task instances."""
        found = self._all("/dags/~/dagRuns/~/taskInstances", "task_instances")
        return [Task(dag_id=each["dag_id"], state=each["state"], tries=each["try_number"]) for each in found]

    def startups(self) -> list[Startup]:
        """Return what each task wrote into its log about its start."""
        logs = (self.airflow.settings.home / "logs").glob("dag_id=*/run_id=*/task_id=*/*.log")
        lines = [
            json.loads(line)
            for log in logs
            for line in log.read_text().splitlines()
            if "bundle_prepare_ms" in line
        ]
        return [
            Startup(bundle_s=line["bundle_prepare_ms"] / 1000, parse_s=line["dag_file_parse_ms"] / 1000)
            for line in lines
        ]

    def spark_starts(self) -> int:
        """Return how often the fake engine was asked to write."""
        path = self._folder / WRITES
        return len(path.read_text().splitlines()) if path.exists() else 0

    def processor_s(self) -> float:
        """Return the processor time of Airflow's dag-processor, including its parsers."""
        process = psutil.Process(self.airflow.pid("dag-processor"))
        own = process.cpu_times()
        alive = sum(_busy_s(child) for child in process.children(recursive=True))
        return float(own.user + own.system + own.children_user + own.children_system) + alive

    def _all(self, path: str, key: str, **query: Any) -> Iterator[dict[str, Any]]:
        offset = 0
        while page := self.airflow.rest.get(path, limit=PAGE, offset=offset, **query)[key]:
            yield from page
            offset += len(page)


@contextmanager
def stage(setup: Setup) -> Iterator[tuple[Stage, float]]:
    """Yield the stage when Airflow shows all tables, and the seconds since Airflow's start."""
    with ExitStack() as stack:
        folder, port = Path(stack.enter_context(TemporaryDirectory(prefix="freshtable-bench-"))), free_port()
        population = Population(folder)
        population.create_quiet(TABLES)
        settings = _settings(folder / "airflow", f"http://127.0.0.1:{port}", stack.enter_context(_database()))
        options = {"endpoint": settings.url, "user-name": USER, "password": PASSWORD}
        setup = replace(setup, scheduler="airflow", options=options, port=port, token=TOKEN)
        with fake_gateway.started(folder, replace(setup, reconcile_every_s=NEVER_S)):
            begun = time.monotonic()
            airflow = stack.enter_context(running_airflow(settings))
            _wait_shown(airflow, TABLES + SHARDS)
            shown_s = time.monotonic() - begun
        url, _ = stack.enter_context(fake_gateway.started(folder, setup))
        yield Stage(airflow, population, folder, url), shown_s


@contextmanager
def _database() -> Iterator[str]:
    """Yield the URL of a new PostgreSQL server.

    SQLite would let only one of Airflow's processes write at a time.
    """
    # The folder is not inside another temporary folder, which the account of the server could not enter.
    folder = Path(mkdtemp(prefix="freshtable-bench-postgres-"))
    try:
        with start_postgres(folder) as url:
            yield url.replace("postgresql://", "postgresql+psycopg2://")
    finally:
        shutil.rmtree(folder)


def _settings(home: Path, gateway_url: str, database_url: str) -> AirflowSettings:
    more = {
        "AIRFLOW__CORE__PARALLELISM": str(PARALLELISM),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_MAX_OVERFLOW": "10",
        "PYTHONPATH": str(ROOT / "dags"),
    }
    return AirflowSettings(
        home=home,
        port=free_port(),
        gateway_url=gateway_url,
        token=TOKEN,
        database_url=database_url,
        more=more,
    )


def _wait_shown(airflow: AirflowStack, count: int) -> None:
    def shown() -> bool:
        found = airflow.rest.get("/dags", dag_id_prefix_pattern=DAG_ID_PREFIX, limit=1)
        return int(found["total_entries"]) >= count

    airflow.rest.wait(shown, ALL_SHOWN_S)


def _busy_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)
