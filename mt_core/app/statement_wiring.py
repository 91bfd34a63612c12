"""Connects the engine, the stores and the manager with the statement executor and its handlers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mt_core.clock import Clock
from mt_core.jobs.installed import InstalledHooks
from mt_core.jobs.store import JobStore
from mt_core.sessions.batch_or_stream import BatchOrStream
from mt_core.sessions.catalog.catalog_commands import CatalogCommands
from mt_core.sessions.catalog.catalog_statements import CatalogStatements
from mt_core.sessions.catalog.connector_table_statements import ConnectorTableStatements
from mt_core.sessions.catalog.connector_tables import ConnectorTables
from mt_core.sessions.catalog.created_catalogs import CreatedCatalogs
from mt_core.sessions.catalog.created_functions import CreatedFunctions
from mt_core.sessions.catalog.function_commands import FunctionCommands
from mt_core.sessions.catalog.names import SessionNames
from mt_core.sessions.executor import StatementExecutor
from mt_core.sessions.operations.jobs import Jobs
from mt_core.sessions.ports import PlanFiles, Runs, StatementEngine, TableCommands
from mt_core.sessions.refreshes import ClusterInfo
from mt_core.sessions.session import Session
from mt_core.sessions.statements.catalog_requests import CatalogRequests
from mt_core.sessions.statements.handlers import StatementHandlers, one_table
from mt_core.sessions.statements.materialized_table_statements import MaterializedTableStatements
from mt_core.sessions.statements.property_statements import PropertyStatements
from mt_core.sessions.statements.refresh_wait import RefreshWait
from mt_core.sessions.statements.spark_work import SparkWork
from mt_core.sessions.statements.table_creations import TableCreationHook, TableCreations
from mt_core.sessions.streaming.job_statements import JobStatements
from mt_core.sessions.streaming.mode import StreamingMode
from mt_core.sessions.streaming.plan_statements import PlanStatements
from mt_core.sessions.streaming.streaming_statements import StreamingStatements, Streams

ENGINE_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementPorts:
    """The parts that statements need. Up to `threads` statements run at a time.

    `cluster_info` describes where jobs run, `streams` runs detached jobs, and `plans` has compiled plans.
    """

    engine: StatementEngine
    commands: TableCommands
    runs: Runs
    clock: Clock
    cluster_info: ClusterInfo
    catalogs: CreatedCatalogs
    jobs: JobStore
    connector_tables: ConnectorTables
    functions: CreatedFunctions
    streams: Streams
    plans: PlanFiles
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementServices:
    """The executor with its handlers, the jobs with their hooks, and the names that a session can see."""

    executor: StatementExecutor
    handlers: StatementHandlers
    jobs: Jobs
    hooks: InstalledHooks
    names: Callable[[Session], SessionNames]


def wire_statements(ports: StatementPorts) -> StatementServices:
    """Return the services of statements, not started."""
    engine = ports.engine
    jobs = Jobs(ports.clock, ports.runs, ports.jobs, streams=ports.streams.owner)
    creations = TableCreations(engine, ports.jobs, engine_timeout_s=ENGINE_TIMEOUT_S)
    ports.jobs.hooks.provide(TableCreationHook(creations))
    spark = SparkWork(engine=engine, jobs=jobs, creations=creations, engine_timeout_s=ENGINE_TIMEOUT_S)
    handlers = _handlers(ports, spark)
    executor = StatementExecutor(
        handlers=handlers,
        engine=engine,
        hooks=ports.jobs.hooks,
        refreshes=RefreshWait(runs=ports.runs, cluster_info=ports.cluster_info),
        clock=ports.clock,
        max_workers=ports.threads,
    )
    system_functions: list[str] = []
    return StatementServices(
        executor=executor,
        handlers=handlers,
        jobs=jobs,
        hooks=ports.jobs.hooks,
        names=lambda session: SessionNames(engine, session, ports.functions, system_functions),
    )


def _handlers(ports: StatementPorts, spark: SparkWork) -> StatementHandlers:
    """Return a single table with the handlers of all statements."""
    engine, requests = ports.engine, CatalogRequests(spark=spark)
    detached = StreamingStatements(
        streams=ports.streams, engine=engine, spark=spark, store=ports.jobs, clock=ports.clock
    )
    connector_tables = ConnectorTableStatements(engine=engine, tables=ports.connector_tables)
    functions = FunctionCommands(engine, ports.functions)
    catalogs = CatalogStatements(engine, spark.jobs, connector_tables, functions)
    mode = StreamingMode(engine=engine, spark=spark, detached=detached)
    of_spark = BatchOrStream(spark=spark, mode=mode, connector_tables=connector_tables, requests=requests)
    plans = PlanStatements(
        files=ports.plans, engine=engine, spark=spark, detached=detached, run_batch=of_spark.run_batch
    )
    tables = MaterializedTableStatements(
        commands=ports.commands, engine=engine, spark=spark, requests=requests, describe=catalogs.describe
    )
    return StatementHandlers(
        of_fact=one_table(
            of_spark.handlers,
            tables.handlers,
            plans.handlers,
            PropertyStatements(hooks=ports.jobs.hooks).handlers,
            JobStatements(jobs=spark.jobs).handlers(requests, detached),
            requests.handlers(catalogs.answers),
            requests.handlers(CatalogCommands(engine, ports.catalogs).answers),
            requests.handlers(functions.answers),
        ),
        run_set=of_spark.run,
    )
