"""SQL statements on Spark: the engine behind the sessions of the gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from mt_core.identifiers import Namespace
from mt_core.rowset import Column, RowSet
from mt_core.sessions.ports import ResultRows, SessionContext, SessionState, StatementEngine, StatementResult
from mt_core.spark.catalogs.catalog_sync import CatalogSource, CatalogSync, no_catalogs
from mt_core.spark.driver.conf import INTERACTIVE_POOL
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.results.arrow import ResultForm
from mt_core.spark.results.batches import QueryJob
from mt_core.spark.results.local_rows import COMMAND_RESULT, command_rows, row_batches
from mt_core.spark.results.row_stream import fetch
from mt_core.spark.results.spool import Spools
from mt_core.spark.statements.protection import NoTables, TableDirectory, run_protected
from mt_core.spark.statements.session_catalogs import SessionCatalogs
from mt_core.spark.statements.sessions import SparkSessions
from mt_core.tables.ports import Progress

DESCRIPTION_LENGTH = 200
# Writes whose rows are those that were asked for; an UPDATE or DELETE also writes others again.
_COUNTED = frozenset({"AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic"})
# What commands show needs no encoding when it is of these types.
_SIMPLE = (spark.StringType, spark.BooleanType, spark.IntegerType, spark.LongType)


class SparkStatements(StatementEngine):
    """Runs statements of gateway sessions, each in a Spark session of its own, all in one driver."""

    def __init__(
        self,
        driver: SparkDriver,
        spools: Spools | None = None,
        *,
        catalogs: CatalogSource = no_catalogs,
        tables: TableDirectory | None = None,
    ) -> None:
        self._tables = tables or NoTables()
        self._driver, self._spools, shared = driver, spools or Spools(), CatalogSync(catalogs)
        self._sessions = SparkSessions(driver, shared)
        self._catalogs = SessionCatalogs(driver, self._sessions, shared)

    def wait_ready(self, timeout_s: float) -> bool:
        ready = self._driver.wait_ready(timeout_s)
        if not ready:
            self._driver.check_cluster()
        return ready

    def execute(self, context: SessionContext, sql: str, *, job_id: str) -> StatementResult:
        session = self._sessions.session(context)
        job = QueryJob(job_id=job_id, pool=INTERACTIVE_POOL, description=sql[:DESCRIPTION_LENGTH])
        with self._driver.run_tagged(job.job_id, job.pool, job.description):
            # A command has run when this returns; a query runs when it is fetched.
            frame = run_protected(session, sql, self._tables)
            if not frame.schema.fields:
                return StatementResult(is_query=False, rows=None, affected_rows=_affected_rows(frame))
            found = command_rows(frame)
            if found is not None and _is_simple(frame):
                return StatementResult(is_query=False, rows=_shown(frame, found))
            return StatementResult(is_query=found is None, rows=fetch(self._driver, frame, job, self._spools))

    def current_catalog(self, context: SessionContext) -> str:
        return self._catalogs.current(context)[0]

    def current_namespace(self, context: SessionContext) -> Namespace:
        return self._catalogs.current(context)[1]

    def session_state(self, context: SessionContext) -> SessionState:
        return self._catalogs.state(context)

    def catalogs(self, context: SessionContext) -> Mapping[str, Mapping[str, str]]:
        return self._catalogs.catalogs(context)

    def columns(self, context: SessionContext, name: Sequence[str]) -> Sequence[Column]:
        return self._catalogs.columns(context, name)

    def keys(self, context: SessionContext, name: Sequence[str]) -> Sequence[str]:
        return self._catalogs.keys(context, name)

    def explain(self, context: SessionContext, sql: str, mode: str) -> str:
        return self._catalogs.explain(context, sql, mode)

    def add_jar(self, context: SessionContext, path: str) -> str:
        return self._catalogs.add_jar(context, path)

    def open_catalog(self, name: str, settings: Mapping[str, str]) -> None:
        self._catalogs.open(name, settings)

    def close_session(self, session_id: str) -> None:
        self._sessions.close(session_id)

    def cancel(self, job_id: str) -> None:
        self._driver.cancel(job_id)

    def progress(self, job_id: str) -> Progress | None:
        return self._driver.progress(job_id)


def _affected_rows(frame: DataFrame) -> int | None:
    """Return how many rows an INSERT has written, as Spark counted them; None for any other statement."""
    execution: Any = frame._jdf.queryExecution()
    done = execution.commandExecuted()
    if done.nodeName() != COMMAND_RESULT or done.commandPhysicalPlan().nodeName() not in _COUNTED:
        return None
    written = done.commandPhysicalPlan().commitProgress()
    return int(written.get().numOutputRows()) if written.isDefined() else None


def _is_simple(frame: DataFrame) -> bool:
    return all(type(field.dataType) in _SIMPLE for field in frame.schema.fields)


def _shown(frame: DataFrame, found: Any) -> ResultRows:
    """Return the rows of a command, which are there already: Arrow would start a job for many of them."""
    form = ResultForm(frame.schema)
    local = row_batches(frame, found, form.schema)
    rows = [list(row) for row in frame.collect()] if local is None else form.rows(list(local))
    return RowSet(columns=form.columns, rows=rows)
