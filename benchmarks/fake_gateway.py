"""A gateway with a fake Spark in a separate process, for the benchmarks `scheduler` and `airflow`.

Everything else is as in production: HTTP server, manager, workers, registry on SQLite, reconciler, log, and
scheduler.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mt_core.app.logs import log_to
from mt_core.app.serve import freeze_startup_objects, share_interpreter
from mt_core.clock import SystemClock
from mt_core.registry.store import SqlRegistry
from mt_core.tables.engine import Write
from mt_core.tables.services import storage_spec
from mt_core.tables.settings import InitialRefresh, ManagerSettings
from mt_core.tables.upkeep.reconcile import reconcile
from mt_core.workflow.loader import load_scheduler
from tests.support.fake_engine import FakeEngine
from tests.support.gateway.wired import FakeParts, WiredGateway

SOURCE = "lake.default.orders"
STATEMENT_THREADS = 64
# The minimum time that Spark needs for a write. Without it, the workers would spend time in Python that no
# real gateway does.
WRITE_S = 0.1
CHANGE_EVERY_S = 0.5
# This file has a line for each write of the fake engine, which would be the jobs of one refresh in Spark.
WRITES = "writes.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The options with which the gateway is started.

    If *new_data* is set, the source has new rows all the time, so that no refresh is skipped.
    """

    scheduler: str = "memory"
    options: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    token: str = ""
    write_s: float = WRITE_S
    workers: int = 2
    reconcile_every_s: float = 30.0
    new_data: bool = False


class FakeSparkGateway(WiredGateway):
    """A gateway wired, leased and started as the application does it, with a fake Spark."""

    def __init__(self, folder: Path, setup: Setup) -> None:
        self._setup, self._writes = setup, folder / WRITES
        self._stopping = threading.Event()
        self._engine = FakeEngine()
        self._engine.on_write = self._write
        self._engine.create_source(SOURCE, [{"ds": "2026-03-01", "amount": 1}])
        registry, scheduler = (
            SqlRegistry.open(f"sqlite:///{folder}/registry.db"),
            load_scheduler(setup.scheduler)(),
        )
        settings = ManagerSettings(
            owner=str(uuid.uuid4()), scheduler_type=setup.scheduler, initial_refresh=InitialRefresh.NONE
        )
        parts = FakeParts(
            registry=registry,
            engine=self._engine,
            scheduler=scheduler,
            settings=settings,
            clock=SystemClock(),
            refresh_threads=setup.workers,
            statement_threads=STATEMENT_THREADS,
        )
        super().__init__(parts, port=setup.port, tokens=setup.token)

    def run(self) -> None:
        """Start, and let the reconciler work and the source change, until the gateway is stopped."""
        self._create_storage()
        self.start(self._setup.options)
        threading.Thread(target=self._reconcile, name="reconciler", daemon=True).start()
        if self._setup.new_data:
            threading.Thread(target=self._change, name="source", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()
        super().stop()

    def _create_storage(self) -> None:
        """Create the storage of all tables, because the storage of a real engine outlives the process."""
        with self.registry.transaction() as tx:
            specs = [storage_spec(table) for table in tx.tables.page()]
        for spec in specs:
            self._engine.create_storage(spec)

    def _reconcile(self) -> None:
        while not self._stopping.wait(self._setup.reconcile_every_s):
            reconcile(self.tables)

    def _change(self) -> None:
        while not self._stopping.wait(CHANGE_EVERY_S):
            self._engine.commit(SOURCE, [{"ds": "2026-03-01", "amount": time.time_ns()}])

    def _write(self, write: Write) -> None:
        with self._writes.open("a") as writes:
            writes.write(f"{write.table}\n")
        time.sleep(self._setup.write_s)


@contextmanager
def started(folder: Path, setup: Setup) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run this gateway in a separate process during the block. Yield its URL and the process."""
    command = [sys.executable, "-m", __name__, str(folder), json.dumps(asdict(setup))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            raise ChildProcessError(
                "The gateway with a fake engine did not start; what it said stands above."
            )
        yield url, process
    finally:
        process.kill()
        process.communicate()


def main(folder: Path, setup: Setup) -> None:
    """Run on the registry in *folder* until standard input ends. Print the URL when started."""
    log_to(folder, verbose=False)
    share_interpreter()
    gateway = FakeSparkGateway(folder, setup)
    gateway.run()
    freeze_startup_objects()
    sys.stdout.write(f"{gateway.url}\n")
    sys.stdout.flush()
    sys.stdin.read()
    gateway.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Setup(**json.loads(sys.argv[2])))
