"""The change plan of a run: how source changes are applied to the table's rows, or why all are recomputed.

A query with stages is maintained by the states of its stages, which must be those of the rows to which the
changes are applied. Main names them, by the publish that wrote them (`Snapshot.states`, and the property
STATES for tiny ones). If it names none, all rows are recomputed, and the same run may keep the states for the
next one. With 'incremental' every recomputation does. With 'auto' a recomputation keeps the states of a table
that has some, or whose last recomputation found that states would have served: a table that is computed once,
or whose changes cost more than a recomputation, has none.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
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
from mt_core.incremental.stages.stage_plan import StagePlan
from mt_core.incremental.strategy import STATES_FAILED, Strategy, Way, replaced_by_key
from mt_core.model.partition import Scope
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.storage import (
    BYTES_READ,
    STATES,
    UPSERT,
    Snapshot,
    StorageMetadata,
    tiny_states,
)
from mt_core.model.table import MaterializedTable, TableDefinition
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.definition.options import FULL, INCREMENTAL
from mt_core.tables.engine import (
    ChangeReader,
    Maintenance,
    Query,
    SourceChanges,
    SourceVector,
)
from mt_core.tables.refresh.forecast import (
    kept_stages,
    partitions_for,
    shaped_query,
    strategy_for,
    strategy_option,
)
from mt_core.tables.registry import Registry, Transaction, in_transaction
from mt_core.tables.runs.decide import Decision

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """How a run computes its rows.

    `maintenance` applies the changes of the sources to the rows of main; None for a recomputation. `reason`
    explains a choice to users; None if the definition requests recomputation, or if main does not have the
    rows of the definition. `stages` are the stages whose states the run keeps if it recomputes all rows.
    `wants_states` says that states would have served, but that the run does not keep them.
    """

    maintenance: Maintenance | None = None
    reason: str | None = None
    stages: StagePlan | None = None
    wants_states: bool = False


def plan_change(
    registry: Registry,
    until: ChangesUntil,
    table: MaterializedTable,
    metadata: StorageMetadata,
    *,
    decision: Decision,
) -> ChangePlan:
    """Return how a run carries out *decision* on a table with *metadata*."""
    base, definition, strategy = decision.base, table.definition, strategy_option(table.definition)
    if strategy == FULL or metadata.main is None or decision.scope is None or not decision.scope.whole:
        return ChangePlan()
    if table.doubt is not None:
        reason = None if base is None else f"{RECOMPUTED}: {table.doubt}; {_trusted_again(table)}"
        return ChangePlan(reason=reason)
    keeps = _keeps_states(until.vector, strategy, metadata, base)
    if base is None:
        return ChangePlan(stages=_stages_of(until, definition) if keeps else None)
    since = SourceVector.from_json(json.loads(base.sources or "[]"))
    changes = until.since(since)
    if isinstance(changes, str):
        stages = _stages_of(until, definition) if keeps else None
        return ChangePlan(reason=f"{RECOMPUTED}: {changes}", stages=stages)
    recomputed = ChangePlan(stages=kept_stages(changes, definition) if keeps else None)
    choice = strategy_for(changes, changes.by_reading(), definition)
    if choice.way is Way.RECOMPUTE:
        return replace(recomputed, reason=f"{RECOMPUTED}: {choice.reason}")
    sizes = _sizes(changes, choice, base, upsert=UPSERT in definition.options)
    without_states = ChangePlan(wants_states=recomputed.stages is not None)
    if strategy != INCREMENTAL and (failure := recently_failed(choice, sizes, base.in_vain)) is not None:
        return replace(without_states, reason=f"{RECOMPUTED}: {failure}")
    dear = None if strategy == INCREMENTAL else _dear(registry, table, choice, sizes)
    if dear is not None:
        others = _by_keys(changes, choice, definition)
        cheaper = next((each for each in others if _dear(registry, table, each, sizes) is None), None)
        if cheaper is None:
            return replace(without_states, reason=f"{RECOMPUTED}: {dear}")
        choice, recomputed = cheaper, without_states
    names = _names_of_states(metadata, base)
    if choice.stages is not None and not choice.stages.needed(changes.changed_readings) <= names:
        wants = recomputed.stages is None
        why = _FAILED_STATES if _states_failed(base) else _NO_STATES
        return replace(recomputed, reason=f"{RECOMPUTED}: {why}", wants_states=wants)
    most_keys = None if strategy == INCREMENTAL else sizes.most_keys
    limited = replace(choice, most_keys=most_keys, stages=_kept(choice.stages, names))
    maintenance = Maintenance(strategy=limited, changes=changes, since=since, base=metadata.main)
    maintenance = replace(maintenance, in_place=sizes.in_place, most_in_place=sizes.most_in_place)
    maintenance = replace(maintenance, small=sizes.small_table)
    return replace(recomputed, maintenance=maintenance, reason=choice.reason)


_NO_STATES = "main has no states of the query's stages"
_FAILED_STATES = "states of the query's stages could not be kept"


def _keeps_states(
    vector: SourceVector, strategy: str, metadata: StorageMetadata, base: Snapshot | None
) -> bool:
    """Return whether a recomputation keeps the states of a query that uses them."""
    if vector.unstable or vector.unpinnable or vector.unversioned:
        return False
    if base is not None and _states_failed(base):
        return False
    wanted = STATES in metadata.properties or (base is not None and base.wants_states)
    return wanted or strategy == INCREMENTAL


def _states_failed(base: Snapshot) -> bool:
    """Return whether one of the last runs could not keep the states, so that they are not tried again."""
    last = base.in_vain
    return last is not None and last.what == STATES_FAILED and last.recomputed < RETRIED_AFTER


def _stages_of(until: ChangesUntil, definition: TableDefinition) -> StagePlan | None:
    query = shaped_query(until.reader, definition)
    return None if isinstance(query, str) else kept_stages(query, definition)


def _names_of_states(metadata: StorageMetadata, base: Snapshot) -> frozenset[str]:
    """Return the names of the states that main has, as of the rows of *base*."""
    return frozenset([*tiny_states(metadata.properties, base), *base.states])


def _kept(stages: StagePlan | None, names: Collection[str]) -> StagePlan | None:
    """Return the stages whose states a run uses: all or none of them. *names* are those that main has."""
    return None if stages is None or not stages.names <= frozenset(names) else stages


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


def _by_keys(changes: SourceChanges, choice: Strategy, definition: TableDefinition) -> Iterator[Strategy]:
    """Yield the ways that replace more rows than *choice* but know less of them."""
    if choice.way is Way.STAGES and choice.division is not None and not choice.by_key:
        yield replaced_by_key(choice, [column.name for column in changes.columns])
    partitions = partitions_for(changes, changes.by_reading(), definition)
    if partitions is not None and partitions != choice:
        yield partitions


def _sizes(changes: SourceChanges, choice: Strategy, base: Snapshot, *, upsert: bool) -> Sizes:
    return Sizes(
        changed_bytes=sum(change.size or 0 for change in changes.affecting.values()),
        changed_rows=sum(change.rows or 0 for change in changes.affecting.values()),
        source_bytes=changes.source_bytes,
        table_bytes=base.total_bytes,
        table_rows=base.total_rows,
        upsert=upsert,
        joined_bytes=changes.joined_by(choice).size,
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
