"""SQL statements on Spark: the engine behind the sessions of the gateway."""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark.sql import DataFrame

from mt_core.sessions.ports import SessionContext, StatementEngine, StatementResult
from mt_core.spark.conf import INTERACTIVE_POOL
from mt_core.spark.driver import SparkDriver
from mt_core.spark.results import fetch
from mt_core.spark.sessions import SparkSessions
from mt_core.tables.ports import Progress

DESCRIPTION_LENGTH = 200
_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
_COMMAND_RESULT = "org.apache.spark.sql.catalyst.plans.logical.CommandResult"


class SparkStatements(StatementEngine):
    """Runs statements of gateway sessions, each in a Spark session of its own, all in one driver."""

    def __init__(self, driver: SparkDriver) -> None:
        self._driver = driver
        self._sessions = SparkSessions(driver)

    def wait_ready(self, timeout_s: float) -> bool:
        return self._driver.wait_ready(timeout_s)

    def execute(self, context: SessionContext, sql: str, *, job_id: str) -> StatementResult:
        session = self._sessions.session(context)
        with self._driver.run_tagged(job_id, INTERACTIVE_POOL, sql[:DESCRIPTION_LENGTH]):
            # A command has run when this returns; a query runs when it is fetched.
            frame = session.sql(sql)
            if not frame.schema.fields:
                return StatementResult(is_query=False, rows=None)
            return StatementResult(is_query=self._is_query(frame), rows=fetch(frame))

    def current_catalog(self, context: SessionContext) -> str:
        return self._text(context, "SELECT current_catalog()")

    def current_namespace(self, context: SessionContext) -> str:
        return self._text(context, "SELECT current_schema()")

    def close_session(self, session_id: str) -> None:
        self._sessions.close(session_id)

    def cancel(self, job_id: str) -> None:
        self._driver.cancel(job_id)

    def progress(self, job_id: str) -> Progress | None:
        return self._driver.progress(job_id)

    def _text(self, context: SessionContext, sql: str) -> str:
        # By SQL: session.catalog looks the default catalog up in the settings of another session.
        session = self._sessions.session(context)
        with self._driver.translating():
            return str(session.sql(sql).toArrow().column(0)[0])

    def _is_query(self, frame: DataFrame) -> bool:
        plan: Any = frame._jdf.queryExecution().analyzed()
        gateway = self._driver.gateway
        return not any(is_instance_of(gateway, plan, java_class) for java_class in (_COMMAND, _COMMAND_RESULT))
