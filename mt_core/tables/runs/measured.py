"""Measured runs: what the last refreshes of a table took, by how they got its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from mt_core.incremental.cost import RETRIED_AFTER, Measured
from mt_core.incremental.strategy import Way
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.table import MaterializedTable
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.registry import Registry, Transaction, in_transaction

# A stretch of continuous refresh is RUNNING for as long as an hour.
_WROTE = (RunStatus.SUCCEEDED, RunStatus.RUNNING)


def measured_runs(registry: Registry, table: MaterializedTable, way: Way) -> Sequence[Measured]:
    """Return what the last runs by *way*, and the last recomputations, of the present definition took, newest first."""

    def read(tx: Transaction) -> Iterable[RefreshRun]:
        for strategy in (way, Way.RECOMPUTE):
            yield from tx.runs.newest(table_id=table.table_id, statuses=_WROTE, strategy=strategy, limit=RETRIED_AFTER)

    runs = {run.run_id: run for run in in_transaction(registry, lambda tx: list(read(tx)))}
    fingerprint = fingerprint_of(table.definition)
    found = [each for run in runs.values() if run.fingerprint == fingerprint for each in _measured(run)]
    return [measured for _, measured in sorted(found, key=lambda each: each[0], reverse=True)]


def _measured(run: RefreshRun) -> Iterator[tuple[datetime, Measured]]:
    """Yield when each publish of a run began, and what it took."""
    for batch in run.recent:
        yield batch.began_at, Measured(way=Way(batch.strategy), seconds=batch.seconds, bytes_read=batch.bytes_read)
    # One whose process was lost took longer than its last attempt.
    if not run.recent and run.scope.whole and run.attempt == 1 and run.strategy and run.started_at and run.finished_at:
        seconds = (run.finished_at - run.started_at).total_seconds()
        yield run.started_at, Measured(way=Way(run.strategy), seconds=seconds, bytes_read=run.bytes_read)
