"""Steps of the registry contract, each in its own transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from mt_core.errors import MtError
from mt_core.model.gateway import GatewayLease
from mt_core.model.run import RefreshRun
from mt_core.model.table import MaterializedTable
from mt_core.tables.registry import Registry
from mt_core.tables.upkeep.gateways import take_lease

THREADS = 8
LIFETIME = timedelta(days=10_000)


def at_once(act: Callable[[], object]) -> list[object]:
    """Call *act* in THREADS threads that start together. Return the result or the MtError of each."""
    barrier = threading.Barrier(THREADS)

    def together(_number: int) -> object:
        barrier.wait()
        try:
            return act()
        except MtError as error:
            return error

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(together, range(THREADS)))


def begin_process(registry: Registry, owner: str) -> None:
    """Make *owner* the only live gateway for the duration of a test. All earlier gateways have ended."""
    lease = GatewayLease(owner=owner)
    with registry.transaction() as transaction:
        take_lease(transaction, lease, length=LIFETIME, dead=lambda _other: True)


def insert_tables(registry: Registry, *tables: MaterializedTable) -> None:
    with registry.transaction() as transaction:
        for table in tables:
            transaction.tables.insert(table)


def insert_runs(registry: Registry, *runs: RefreshRun) -> None:
    with registry.transaction() as transaction:
        for run in runs:
            transaction.runs.insert(run)


def replace_run(registry: Registry, expected: RefreshRun, run: RefreshRun) -> None:
    with registry.transaction() as transaction:
        transaction.runs.replace(run, expected=expected)


def all_tables(registry: Registry) -> list[MaterializedTable]:
    with registry.transaction() as transaction:
        return list(transaction.tables.page())


def all_runs(registry: Registry) -> list[RefreshRun]:
    with registry.transaction() as transaction:
        return list(transaction.runs.newest())


def claimable(registry: Registry) -> RefreshRun | None:
    with registry.transaction() as transaction:
        return transaction.runs.next_claimable()


def keyed(registry: Registry) -> RefreshRun | None:
    with registry.transaction() as transaction:
        return transaction.runs.with_key("t-1", "k")
