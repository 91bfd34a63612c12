"""A complete gateway in this process.

Bare Spark statements can then run in the same JVM, alternating with the gateway's.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import SparkSession

from mt_core.app.gateway import Gateway
from mt_core.app.home import Home
from mt_core.app.logs import log_to
from mt_core.client.http import GatewayClient, Refresh, ResultPage
from mt_core.config import load_config
from mt_core.tables.runs.ledger import ClaimedRun

SETTINGS = ("sql-gateway.endpoint.rest.port=0", "table.local-time-zone=UTC")


class Steps:
    """When each step of each refresh began, as reported by the workers. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: dict[str, list[tuple[str, float]]] = {}

    def watch(self, claimed: ClaimedRun, step: str) -> None:
        with self._lock:
            self._begun.setdefault(claimed.run.run_id, []).append((step, time.perf_counter()))

    def of(self, run_id: str) -> list[tuple[str, float]]:
        """Return the steps of a run, each with the time at which it began."""
        with self._lock:
            return list(self._begun.get(run_id, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """A client of the gateway, a bare session in the gateway's own JVM, and the steps of its refreshes."""

    client: GatewayClient
    spark: SparkSession
    steps: Steps

    def sql(self, statement: str) -> list[ResultPage]:
        """Run a statement through the gateway to its end."""
        operation = self.client.execute(statement)
        pages = list(self.client.pages(operation))
        self.client.close_operation(operation)
        return pages

    def refresh(self, refresh: Refresh) -> tuple[str, Mapping[str, Any]]:
        """Refresh a table through the endpoint.

        Return the id of the run, and what the run reports about itself when it is FINISHED.
        """
        run_id = self.client.refresh(refresh)
        page = next(self.client.pages(run_id))
        return run_id, page.run or {}

    def spark_jobs(self) -> int:
        """Return the number of Spark jobs started so far."""
        context: Any = self.spark.sparkContext._jsc.sc()  # type: ignore[union-attr]
        return int(context.dagScheduler().numTotalJobs())


@contextmanager
def embedded_gateway(settings: Sequence[str] = ()) -> Iterator[Embedded]:
    """Run a gateway with a home of its own during the block."""
    with TemporaryDirectory(prefix="freshtable-bench-") as folder:
        config = load_config(None, os.environ, [*SETTINGS, *settings], Path(folder))
        home, steps = Home(config.home), Steps()
        home.take()
        log_to(home.logs, verbose=False)
        gateway = Gateway(config, home, os.environ, watch=steps.watch)
        try:
            gateway.start()
            gateway.wait_ready()
            spark = SparkSession.builder.getOrCreate().newSession()
            with GatewayClient(gateway.url) as client:
                yield Embedded(client=client, spark=spark, steps=steps)
        finally:
            gateway.stop()
            home.release()
