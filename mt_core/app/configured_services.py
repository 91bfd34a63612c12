"""The services of a gateway, configured and connected to each other, but not started."""

from __future__ import annotations

from dataclasses import replace

from mt_core.app.endpoint_wiring import wire_endpoints
from mt_core.app.metrics_wiring import MeasuredParts, wire_metrics
from mt_core.app.settings import job_hooks, manager_settings, session_defaults, stream_defaults
from mt_core.app.spark_parts import SparkParts
from mt_core.app.statement_wiring import StatementPorts, StatementServices, wire_statements
from mt_core.app.stream_wiring import StreamPorts, StreamServices, wire_streams
from mt_core.app.table_wiring import TablePorts, TableWork, wire_table_work
from mt_core.clock import Clock
from mt_core.config import Config
from mt_core.gateway.metrics import PATH as METRICS_PATH
from mt_core.jobs.store import JobStore
from mt_core.sessions.sessions import SessionManager
from mt_core.tables.refresh.workers import Watch
from mt_core.tables.registry import Registry
from mt_core.workflow.scheduler import WorkflowScheduler


class ConfiguredServices:
    """The services for requests, tables and jobs. *watch* is called before each step of a refresh."""

    def __init__(
        self,
        config: Config,
        registry: Registry,
        spark: SparkParts,
        scheduler: WorkflowScheduler,
        clock: Clock,
        *,
        watch: Watch | None,
    ) -> None:
        self._config, self._registry, self._spark, self._clock = config, registry, spark, clock
        self._settings = manager_settings(config)
        self.jobs = JobStore(
            registry,
            owner=self._settings.owner,
            clock=clock,
            history=config.duration("sql-gateway.job.history"),
            hooks=job_hooks(config),
        )
        self.sessions = SessionManager(
            engine=spark.statements,
            clock=clock,
            defaults=session_defaults(config),
            idle_timeout=config.duration("sql-gateway.session.idle-timeout"),
            max_sessions=config.integer("sql-gateway.session.max-num"),
            on_close=spark.plans.close_session,
        )
        self.streams = self._wire_streams()
        self.work = self._wire_table_work(scheduler, watch)
        self.statements = self._wire_statements()
        self.metrics = wire_metrics(
            MeasuredParts(
                tables=self.work,
                sessions=self.sessions,
                executor=self.statements.executor,
                engine=spark.statements,
                scheduler=scheduler.identifier,
            ),
            patterns=config.names("metrics.tables"),
            most=config.integer("metrics.max-tables"),
        )
        self.endpoints = replace(
            wire_endpoints(self.work, self.statements, self.sessions, spark.plans),
            libraries=spark.libraries,
            metrics=None if self.metrics is None else self.metrics.answer,
            on_request=None if self.metrics is None else self.metrics.work.request,
            public=frozenset({METRICS_PATH}) if config.boolean("metrics.public") else frozenset(),
        )

    def _wire_streams(self) -> StreamServices:
        config, spark = self._config, self._spark
        return wire_streams(
            StreamPorts(
                engine=spark.streams,
                statements=spark.statements,
                jobs=self.jobs,
                clock=self._clock,
                defaults=stream_defaults(config),
                # A stream that fails repeatedly becomes FAILED. Without user functions, streams wait instead
                # of failing.
                most_running=config.integer("sql-gateway.job.max-concurrent") if spark.has_code else 0,
            )
        )

    def _wire_table_work(self, scheduler: WorkflowScheduler, watch: Watch | None) -> TableWork:
        return wire_table_work(
            TablePorts(
                registry=self._registry,
                engine=self._spark.engine,
                scheduler=scheduler,
                streams=self.streams.keeper,
                settings=self._settings,
                clock=self._clock,
                refresh_threads=self._config.integer("materialized-table.refresh.max-concurrent"),
                continuous_threads=self._config.integer("materialized-table.continuous.max-concurrent"),
            ),
            watch=watch,
        )

    def _wire_statements(self) -> StatementServices:
        spark, manager = self._spark, self.work.manager
        return wire_statements(
            StatementPorts(
                engine=spark.statements,
                commands=manager,
                runs=manager.requests,
                clock=self._clock,
                cluster_info=spark.engine.state.cluster_info,
                catalogs=spark.catalogs,
                jobs=self.jobs,
                connector_tables=spark.connector_tables,
                functions=spark.functions,
                streams=self.streams.streams,
                plans=spark.plans,
                threads=self._config.integer("sql-gateway.worker.threads.max"),
            )
        )
