"""What every command on materialized tables works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from mt_core.clock import Clock
from mt_core.model.partition import WHOLE
from mt_core.model.run import RefreshRun, RunKind
from mt_core.model.table import MaterializedTable, TableDefinition
from mt_core.tables.changes import Signal
from mt_core.tables.intents import Intents
from mt_core.tables.name_locks import NameLocks
from mt_core.tables.observed_workflows import Sightings
from mt_core.tables.ports import Query, RefreshEngine, Registry, StorageSpec
from mt_core.tables.runs.ledger import Ledger
from mt_core.tables.settings import ManagerSettings
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import CreatePeriodicRefreshWorkflow, Schedule
from mt_core.workflow.scheduler import WorkflowScheduler

_STORAGE_OPTIONS = ("write.", "commit.", "history.", "read.", "format-version")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableServices:
    """Registry, engine, scheduler and clock, wired once by the application. `signal` tells workers that the ledger changed,
    `sightings` are what was seen of the workflows last, `names` keeps CREATE and DROP of one name apart."""

    registry: Registry
    engine: RefreshEngine
    scheduler: WorkflowScheduler
    settings: ManagerSettings
    clock: Clock
    ledger: Ledger
    intents: Intents
    new_id: Callable[[], str]
    signal: Signal
    sightings: Sightings = field(default_factory=Sightings)
    names: NameLocks = field(default_factory=NameLocks)

    def whole_run(
        self, table: MaterializedTable, kind: RunKind, now: datetime, *, requested_by: str | None
    ) -> RefreshRun:
        """Return a new run over the whole table; *requested_by* is the name of a token, None without one."""
        return RefreshRun(
            run_id=self.new_id(),
            table_id=table.table_id,
            kind=kind,
            scope=WHOLE,
            requested_at=now,
            requested_by=requested_by,
        )


def storage_spec(table: MaterializedTable) -> StorageSpec:
    """Return the storage table that *table* needs."""
    definition = table.definition
    return StorageSpec(
        identifier=table.identifier,
        table_id=table.table_id,
        columns=definition.columns,
        partition_keys=definition.partition_keys,
        comment=definition.comment,
        location=table.location,
        properties={key: value for key, value in definition.options.items() if key.startswith(_STORAGE_OPTIONS)},
    )


def workflow_of(table: MaterializedTable, *, paused: bool) -> CreatePeriodicRefreshWorkflow:
    """Return the workflow that keeps *table* fresh."""
    identifier, schedule = str(table.identifier), schedule_of(table)
    return CreatePeriodicRefreshWorkflow(
        workflow_id=table.table_id,
        identifier=identifier,
        description=schedule.description(identifier),
        schedule=schedule,
        dynamic_options=table.dynamic_options,
        paused=paused,
        token=table.token,
    )


def schedule_of(table: MaterializedTable) -> Schedule:
    """Return when the workflow of *table* ticks."""
    definition = table.definition
    return Schedule(freshness=definition.freshness, zone=definition.zone, since=table.created_at)


def query_of(definition: TableDefinition, text: str | None = None) -> Query:
    """Return the query of a definition, or *text* in its place, as the engine needs it."""
    return Query(
        text=text if text is not None else definition.expanded_query,
        catalog=definition.catalog,
        namespace=definition.namespace,
        zone=definition.zone,
        settings=definition.settings,
    )


def handler_of(table: MaterializedTable) -> RefreshHandler:
    """Return the refresh handler of *table*, or the one its workflow will have."""
    if table.handler is not None:
        return RefreshHandler.deserialize(table.handler)
    location = {"identifier": str(table.identifier)}
    return RefreshHandler(scheduler=table.scheduler, workflow_id=table.table_id, location=location)
