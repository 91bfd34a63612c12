"""The change plan of a run: how source changes are applied to the table's rows, or why all are recomputed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from mt_core.incremental.cost import (
    RETRIED_AFTER,
    Measured,
    Sizes,
    reason_to_recompute,
    recently_failed,
    slower_than_recomputing,
)
from mt_core.incremental.strategy import Strategy, Way
from mt_core.model.partition import Scope
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.storage import BYTES_READ, UPSERT, Snapshot, StorageMetadata
from mt_core.model.table import MaterializedTable
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.definition.options import FULL, INCREMENTAL
from mt_core.tables.engine import (
    ChangeReader,
    Maintenance,
    Query,
    SourceChanges,
    SourceVector,
)
from mt_core.tables.refresh.forecast import partitions_for, strategy_for, strategy_option
from mt_core.tables.registry import Registry, Transaction, in_transaction

RECOMPUTED = "recomputed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesUntil:
    """The changes of the sources of a query up to `vector`; small ones are read as work of job `job_id`."""

    reader: ChangeReader
    job_id: str
    query: Query
    vector: SourceVector

    def since(self, vector: SourceVector) -> SourceChanges | str:
        """Return the changes since *vector* and the readings that they do not affect, or an obstacle."""
        changes = self.reader.changes_since(self.query, vector, self.vector)
        if isinstance(changes, str):
            return changes
        return self.reader.check_changes(self.job_id, self.query, vector, self.vector, changes)


def plan_change(
    registry: Registry,
    until: ChangesUntil,
    table: MaterializedTable,
    metadata: StorageMetadata,
    *,
    base: Snapshot | None,
) -> tuple[Maintenance | None, str | None]:
    """Return how a run applies the changes since *base*, or None and the reason for a recomputation.

    *base* is the snapshot whose rows main has. The reason is for users. It is None if the definition requests
    recomputation, or if there is no *base*.
    """
    definition, strategy = table.definition, strategy_option(table.definition)
    if strategy == FULL or base is None or metadata.main is None:
        return None, None
    if table.doubt is not None:
        return None, f"{RECOMPUTED}: {table.doubt}; {_trusted_again(table)}"
    since = SourceVector.from_json(json.loads(base.sources or "[]"))
    changes = until.since(since)
    if isinstance(changes, str):
        return None, f"{RECOMPUTED}: {changes}"
    choice = strategy_for(changes, changes.by_reading(), definition)
    if choice.way is Way.RECOMPUTE:
        return None, f"{RECOMPUTED}: {choice.reason}"
    sizes = _sizes(changes, base, upsert=UPSERT in definition.options)
    if strategy != INCREMENTAL and (failure := recently_failed(choice, sizes, base.in_vain)) is not None:
        return None, f"{RECOMPUTED}: {failure}"
    dear = None if strategy == INCREMENTAL else _dear(registry, table, choice, sizes)
    if dear is not None:
        partitions = partitions_for(changes, changes.by_reading(), definition)
        if (
            partitions is None
            or partitions == choice
            or _dear(registry, table, partitions, sizes) is not None
        ):
            return None, f"{RECOMPUTED}: {dear}"
        choice = partitions
    limited = replace(choice, most_keys=None if strategy == INCREMENTAL else sizes.most_keys)
    maintenance = Maintenance(strategy=limited, changes=changes, since=since, base=metadata.main)
    maintenance = replace(maintenance, in_place=sizes.in_place, most_in_place=sizes.most_in_place)
    return replace(maintenance, small=sizes.small_table), choice.reason


def read_summary(
    reader: ChangeReader, query: Query, vector: SourceVector, scope: Scope, maintenance: Maintenance | None
) -> dict[str, str]:
    """Return the snapshot summary entry for the bytes that a run reads, empty if their number is unknown."""
    size = None
    if maintenance is not None:
        size = maintenance.changes.changed_bytes
    elif scope.whole:
        size = reader.source_bytes(query, vector)
    return {} if size is None else {BYTES_READ: str(size)}


def _trusted_again(table: MaterializedTable) -> str:
    return f"ALTER MATERIALIZED TABLE {table.identifier} RESUME applies changes again"


def _dear(registry: Registry, table: MaterializedTable, choice: Strategy, sizes: Sizes) -> str | None:
    """Return why a recomputation costs less than *choice*, or None if it costs more."""
    dear = reason_to_recompute(choice, sizes)
    return dear or slower_than_recomputing(
        choice.way, sizes.changed_bytes, measured_runs(registry, table, choice.way)
    )


def _sizes(changes: SourceChanges, base: Snapshot, *, upsert: bool) -> Sizes:
    return Sizes(
        changed_bytes=sum(change.size or 0 for change in changes.affecting.values()),
        changed_rows=sum(change.rows or 0 for change in changes.affecting.values()),
        source_bytes=changes.source_bytes,
        table_bytes=base.total_bytes,
        table_rows=base.total_rows,
        upsert=upsert,
    )


# A continuous run is RUNNING for up to an hour while it publishes.
_PUBLISHING = (RunStatus.SUCCEEDED, RunStatus.RUNNING)


def measured_runs(registry: Registry, table: MaterializedTable, way: Way) -> Sequence[Measured]:
    """Return the measurements of the last runs by *way* and of the last recomputations, newest first.

    Runs of earlier definitions are excluded.
    """

    def read(tx: Transaction) -> Iterable[RefreshRun]:
        for strategy in (way, Way.RECOMPUTE):
            yield from tx.runs.newest(
                table_id=table.table_id, statuses=_PUBLISHING, strategy=strategy, limit=RETRIED_AFTER
            )

    runs = {run.run_id: run for run in in_transaction(registry, lambda tx: list(read(tx)))}
    fingerprint = fingerprint_of(table.definition)
    measurements = [
        each for run in runs.values() if run.fingerprint == fingerprint for each in _measured(run)
    ]
    return [measured for _, measured in sorted(measurements, key=lambda each: each[0], reverse=True)]


def _measured(run: RefreshRun) -> Iterator[tuple[datetime, Measured]]:
    """Yield the start and the measurement of each publish of a run."""
    for batch in run.recent:
        yield (
            batch.began_at,
            Measured(way=Way(batch.strategy), seconds=batch.seconds, bytes_read=batch.bytes_read),
        )
    # A run that lost a process took longer than its last attempt, so only first attempts count.
    if (
        not run.recent
        and run.scope.whole
        and run.attempt == 1
        and run.strategy
        and run.started_at
        and run.finished_at
    ):
        seconds = (run.finished_at - run.started_at).total_seconds()
        yield run.started_at, Measured(way=Way(run.strategy), seconds=seconds, bytes_read=run.bytes_read)
