"""Gateways to look at: with no tables, with some in every state, with 10,000, with and without Spark.

They have everything of a gateway but Spark, and no workers, so what they show does not change by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from starlette.types import ASGIApp

from benchmarks.filled_registry import Filling, fill
from mt_core.clock import Clock, SystemClock
from mt_core.gateway.application import build_app
from mt_core.gateway.services import GatewayServices
from mt_core.registry.store import SqlRegistry
from mt_core.spark.driver.jars import default_jars_dir, places_of
from mt_core.spark.driver.web_jars import WebJarFiles
from mt_core.tables.registry import Transaction
from mt_core.tables.settings import InitialRefresh, ManagerSettings
from mt_core.testing.fake_clock import FakeClock
from mt_core.workflow.loader import load_scheduler
from tests.browser.ledgers import NOW, tell
from tests.support.fake_engine import FakeEngine
from tests.support.fake_statements import FakeStatementEngine
from tests.support.gateway.wired import FakeParts, WiredGateway

TOKENS = "ann:sql:geheim,bob:read:lesen,air:refresh:nur"
STARTING = "Spark is starting; statements wait until it is ready."
LOST = "Spark was lost 12 s ago and is being restarted: the JVM ended with exit code 137 (killed)."


def libraries() -> WebJarFiles:
    """Return the libraries of the page, from the jars that `make setup` fetches."""
    return WebJarFiles(partial(places_of, default_jars_dir(os.environ)))


def with_libraries(**changes: Any) -> Callable[[GatewayServices], ASGIApp]:
    """Return how a gateway's application is built with the page's libraries, and other *changes*."""
    return lambda services: build_app(replace(services, **{"libraries": libraries(), **changes}))


@contextmanager
def shown_gateway(
    folder: Path,
    facts: Callable[[Transaction], object] = tell,
    *,
    tables: int = 0,
    trouble: str = "",
    tokens: str = "",
    statements: FakeStatementEngine | None = None,
    **services: Any,
) -> Iterator[WiredGateway]:
    """Yield a gateway that shows *facts*, or so many *tables* that a benchmark invents.

    *trouble* is that of Spark, and *statements* answers SQL. *services* replace those of the application.
    """
    url = f"sqlite:///{folder}/registry.db"
    clock: Clock = FakeClock(NOW)
    if tables:
        fill(url, Filling(tables=tables, runs=2))
        clock = SystemClock()
    registry = SqlRegistry.open(url, clock)
    if not tables:
        with registry.transaction() as tx:
            facts(tx)
    settings = ManagerSettings(owner=str(uuid4()), initial_refresh=InitialRefresh.NONE)
    parts = FakeParts(
        registry=registry,
        engine=FakeEngine(),
        scheduler=load_scheduler("memory")(),
        settings=settings,
        clock=clock,
        statements=statements or FakeStatementEngine(),
        refresh_threads=0,
    )
    app = with_libraries(engine_trouble=lambda: trouble, **services)
    gateway = WiredGateway(parts, app=app, tokens=tokens)
    gateway.start()
    gateway.tables.overview.catch_up()
    try:
        yield gateway
    finally:
        gateway.stop()


def nothing(_tx: Transaction) -> None:
    """Tell of no tables at all."""
