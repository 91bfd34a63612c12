"""A gateway whose Spark is a fake, in a process of its own; started by the benchmark `scheduler`.

Everything else is as in production: HTTP server, manager, workers, registry on SQLite, reconciler, log, and the memory scheduler
inside the same process.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from pathlib import Path

from mt_core.app.logs import log_to
from mt_core.app.memory import spare_what_stays
from mt_core.app.wiring import Parts, Wiring
from mt_core.clock import SystemClock
from mt_core.gateway.application import build_app
from mt_core.gateway.server import GatewayServer, listen
from mt_core.registry.store import SqlRegistry
from mt_core.sessions.sessions import SessionManager
from mt_core.tables.reconcile import reconcile
from mt_core.tables.services import storage_spec
from mt_core.tables.settings import ManagerSettings
from mt_core.tables.shared_catalogs import SharedCatalogs
from mt_core.testing.fake_engine import FakeEngine
from mt_core.testing.fake_statements import FakeStatementEngine
from mt_core.workflow.loader import load_scheduler

SOURCE = "lake.default.orders"
WORKERS = 2
STATEMENT_THREADS = 64
# The least that Spark needs for a write; without it the workers would do in Python what no real gateway does.
WRITE_S = 0.1
RECONCILE_EVERY_S = 30.0
DRAIN_S = 2.0


class FakeSparkGateway:
    """Wired and started in the order of the application."""

    def __init__(self, registry_url: str) -> None:
        self._clock, self._stopping = SystemClock(), threading.Event()
        self._registry = SqlRegistry.open(registry_url)
        self._engine = FakeEngine()
        self._engine.on_write = lambda _write: time.sleep(WRITE_S)
        self._engine.create_source(SOURCE, [{"ds": "2026-03-01", "amount": 1}])
        self._scheduler = load_scheduler("memory")()
        statements = FakeStatementEngine()
        self._wiring = Wiring(
            Parts(
                registry=self._registry,
                engine=self._engine,
                statements=statements,
                scheduler=self._scheduler,
                catalogs=SharedCatalogs(self._registry),
                sessions=SessionManager(engine=statements, clock=self._clock),
                settings=ManagerSettings(owner=str(uuid.uuid4())),
                clock=self._clock,
                refresh_threads=WORKERS,
                statement_threads=STATEMENT_THREADS,
            )
        )
        self._tables, self._workers = self._wiring.tables, self._wiring.workers
        self._server = GatewayServer(build_app(self._wiring.endpoints), listen("127.0.0.1", 0))

    @property
    def url(self) -> str:
        return self._server.url

    def start(self) -> None:
        self._server.start()
        self._tables.ledger.recover()
        self._make_storage()
        self._scheduler.open(self._wiring.scheduler_context(self.url))
        reconcile(self._tables)
        self._workers.start()
        threading.Thread(target=self._reconcile, name="reconciler", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()
        self._scheduler.close()
        self._server.stop()
        self._workers.stop(DRAIN_S)
        self._registry.close()

    def _make_storage(self) -> None:
        """The storage of a real engine outlives the process; that of the fake is made again."""
        with self._registry.transaction() as tx:
            specs = [storage_spec(table) for table in tx.tables()]
        for spec in specs:
            self._engine.create_storage(spec)

    def _reconcile(self) -> None:
        while not self._stopping.wait(RECONCILE_EVERY_S):
            reconcile(self._tables)


def main(folder: Path) -> None:
    """Run on the registry in *folder* until standard input ends; tell the URL when started."""
    log_to(folder, verbose=False)
    gateway = FakeSparkGateway(f"sqlite:///{folder}/registry.db")
    gateway.start()
    spare_what_stays()
    sys.stdout.write(f"{gateway.url}\n")
    sys.stdout.flush()
    sys.stdin.read()
    gateway.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
