"""Connects registry, engine, scheduler and clock with the manager and the refresh workers."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from mt_core.clock import Clock
from mt_core.keepers.change import ChangeKeeper
from mt_core.keepers.kinds import KeeperKind, Keepers
from mt_core.keepers.scheduler_watch import SchedulerWatch
from mt_core.keepers.workflow import WorkflowKeeper
from mt_core.streaming.table_keeper import StreamKeeper
from mt_core.tables.continuous.workers import ContinuousWorkers
from mt_core.tables.engine import RefreshEngine
from mt_core.tables.events import Events
from mt_core.tables.intents import Intents
from mt_core.tables.manager import TableManager
from mt_core.tables.overview.hours import HoursRecord
from mt_core.tables.overview.overview import Overview
from mt_core.tables.refresh.refresh_log import RefreshLog
from mt_core.tables.refresh.workers import Watch, Workers
from mt_core.tables.registry import Registry
from mt_core.tables.runs.ledger import Ledger
from mt_core.tables.services import TableServices
from mt_core.tables.settings import ManagerSettings
from mt_core.tables.signal import Signal
from mt_core.tables.workflows.served import ServedWorkflows
from mt_core.workflow.scheduler import WorkflowScheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePorts:
    """The parts that tables need. `streams` is the keeper of tables that read streams.

    `refresh_threads` limits the number of concurrent runs, `continuous_threads` that of concurrent batches of
    CONTINUOUS tables.
    """

    registry: Registry
    engine: RefreshEngine
    scheduler: WorkflowScheduler
    streams: StreamKeeper
    settings: ManagerSettings
    clock: Clock
    refresh_threads: int
    continuous_threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWork:
    """The manager with its services, the workers, the scheduler watch, the served workflows and the record
    of freshness.

    `refresh_threads` is the number of threads of the workers.
    """

    services: TableServices
    manager: TableManager
    workers: Workers
    refresh_threads: int
    continuous: ContinuousWorkers
    scheduler_watch: SchedulerWatch
    published: ServedWorkflows
    hours: HoursRecord


def wire_table_work(ports: TablePorts, *, watch: Watch | None = None) -> TableWork:
    """Return the services of tables, not started. *watch* is called before each step of a refresh."""
    tables = wire_tables(ports.registry, ports.engine, ports.scheduler, ports.settings, ports.clock)
    assert isinstance(tables.keeper, Keepers)
    tables = replace(tables, keeper=tables.keeper.with_streams(ports.streams))
    tables.events.subscribe("the log of refreshes", RefreshLog(ports.registry, tables.errors))
    tables.events.subscribe("the overview", tables.overview.note)
    hours = HoursRecord(ports.registry, tables.overview)
    tables.events.subscribe("the hours of freshness", hours.hear)
    return TableWork(
        services=tables,
        manager=TableManager(tables),
        workers=Workers(tables, count=ports.refresh_threads, watch=watch),
        refresh_threads=ports.refresh_threads,
        continuous=ContinuousWorkers(tables, count=ports.continuous_threads, watch=watch),
        scheduler_watch=SchedulerWatch(ports.scheduler, ports.clock),
        published=ServedWorkflows(ports.registry, ports.scheduler.identifier),
        hours=hours,
    )


def _new_id() -> str:
    return str(uuid.uuid4())


def wire_tables(
    registry: Registry,
    engine: RefreshEngine,
    scheduler: WorkflowScheduler,
    settings: ManagerSettings,
    clock: Clock,
    new_id: Callable[[], str] = _new_id,
) -> TableServices:
    """Return the services of commands on materialized tables, which share one signal."""
    signal = Signal()
    fresh_at: dict[str, datetime] = {}
    # This rejects tables that read streams, until their keeper is added.
    change = ChangeKeeper()
    return TableServices(
        registry=registry,
        engine=engine,
        keeper=Keepers(
            {
                KeeperKind.STREAM: change,
                KeeperKind.WORKFLOW: WorkflowKeeper(scheduler),
                KeeperKind.CHANGE: change,
            }
        ),
        settings=settings,
        clock=clock,
        ledger=Ledger(registry, settings, new_id, clock),
        intents=Intents(registry, settings, signal),
        new_id=new_id,
        signal=signal,
        overview=Overview(registry, clock, fresh_at),
        events=Events(registry, clock),
        fresh_at=fresh_at,
    )
