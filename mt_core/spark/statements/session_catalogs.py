"""Catalogs as a session sees them: asked through the JVM, so that no Spark job is started."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.identifiers import Namespace, sql_name
from mt_core.rowset import Column
from mt_core.sessions.ports import SessionContext, SessionState
from mt_core.spark.catalogs.catalog_sync import CatalogSync
from mt_core.spark.catalogs.lookup import ICEBERG_INTERNAL
from mt_core.spark.driver.conf import SESSION_CATALOG
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.jvm_objects import active_session, java_items, jvm_of, scala_items, session_state
from mt_core.spark.queries.relations import base_relations
from mt_core.spark.results.types import result_columns
from mt_core.spark.statements.sessions import SPARK_ZONE_KEY, SparkSessions
from mt_core.sql.flink.catalog_options import configured_catalogs

JSON_MODE = "json"
# Spark's own opens no connection before it is asked for something.
_ASKS_LATE = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
_IN_MEMORY = {"type": "in-memory"}


class SessionCatalogs:
    """Answers what needs a session and its catalogs, but no job. Raises EngineUnavailable; safe from any thread."""

    def __init__(self, driver: SparkDriver, sessions: SparkSessions, shared: CatalogSync) -> None:
        self._driver, self._sessions, self._shared = driver, sessions, shared
        self._lock = threading.Lock()
        self._configured: tuple[int, Mapping[str, Mapping[str, str]]] = (0, {})

    def catalogs(self, context: SessionContext) -> dict[str, Mapping[str, str]]:
        """Return the catalogs with their options: the driver's, the shared ones, and those of the session."""
        others = configured_catalogs({**self._shared.settings(), **context.properties})
        return {SESSION_CATALOG: _IN_MEMORY, **self._of_the_driver(), **others}

    def current(self, context: SessionContext) -> tuple[str, Namespace]:
        """Return the current catalog and namespace."""
        with self._in(context) as session:
            manager = session_state(session).catalogManager()
            namespace = tuple(str(level) for level in manager.currentNamespace())
            return str(manager.currentCatalog().name()), namespace

    def state(self, context: SessionContext) -> SessionState:
        """Return the zone of the session's queries, and its temporary views and functions."""
        with self._in(context) as session:
            catalog = session_state(session).catalog()
            functions = catalog.listTemporaryFunctions()
            return SessionState(
                zone=str(session.conf.get(SPARK_ZONE_KEY)),
                relations=frozenset(str(name).lower() for name in scala_items(catalog.getTempViewNames())),
                functions=frozenset(str(name.funcName()).lower() for name in scala_items(functions)),
            )

    def columns(self, context: SessionContext, name: Sequence[str]) -> Sequence[Column]:
        """Return the columns of a table or view; raises QueryFailed if there is none of that name."""
        with self._in(context) as session:
            return result_columns(session.table(sql_name(name)).schema)

    def keys(self, context: SessionContext, name: Sequence[str]) -> Sequence[str]:
        """Return the identifier fields of an Iceberg table in the order of its columns; none of anything else."""
        with self._in(context) as session:
            frame = session.table(sql_name(name))
            plan = frame._jdf.queryExecution().analyzed()
            if str(plan.productPrefix()) == "SubqueryAlias":
                plan = plan.child()
            if str(plan.productPrefix()) != "DataSourceV2Relation":
                return ()
            [relation] = base_relations(plan)
            if relation.table is None:
                return ()
            keys = {str(key) for key in java_items(relation.table.schema().identifierFieldNames())}
            return tuple(column for column in frame.columns if column in keys)

    def explain(self, context: SessionContext, sql: str, mode: str) -> str:
        """Return the plan of a statement without running it; raises QueryFailed with line and position."""
        with self._in(context) as session:
            state, execution = session_state(session), jvm_of(session).org.apache.spark.sql.execution
            parsed = state.sqlParser().parsePlan(sql)
            if str(parsed.productPrefix()) == "UnresolvedExecuteImmediate":
                # Spark would run its text in order to analyse it.
                raise Unsupported("EXPLAIN EXECUTE IMMEDIATE is not supported; EXPLAIN the statement itself.")
            plan = state.executePlan(parsed, execution.CommandExecutionMode.SKIP())
            plan.assertAnalyzed()
            if mode == JSON_MODE:
                return str(plan.executedPlan().prettyJson())
            return str(plan.explainString(execution.ExplainMode.fromString(mode)))

    def add_jar(self, context: SessionContext, path: str) -> str:
        """Give the classes of a jar to all of Spark and return its path; raises DefinitionInvalid if it is not there."""
        with self._in(context) as session:
            found = _checked(path)
            self._driver.added_jars.add(session, found)
            return found

    def open(self, name: str, settings: Mapping[str, str]) -> None:
        """Open a catalog in a session of its own; raises QueryFailed or EngineError if that is not possible."""
        session = self._driver.new_session()
        with self._driver.translating(), active_session(session):
            for key, value in settings.items():
                session.conf.set(key, value)
            plugin = session_state(session).catalogManager().catalog(name)
            if str(plugin.getClass().getName()) == _ASKS_LATE:
                plugin.listNamespaces()

    @contextmanager
    def _in(self, context: SessionContext) -> Iterator[SparkSession]:
        session = self._sessions.session(context)
        with self._driver.translating(), active_session(session):
            self._driver.added_jars.lend(session)
            yield session

    def _of_the_driver(self) -> Mapping[str, Mapping[str, str]]:
        generation, found = self._configured
        if generation != self._driver.generation:
            with self._lock, self._driver.translating():
                generation = self._driver.generation
                # The configuration of Spark, not of its first session, which knows the shared catalogs too.
                known = configured_catalogs(dict(self._driver.session.sparkContext.getConf().getAll()))
                found = {name: options for name, options in known.items() if name not in ICEBERG_INTERNAL}
                self._configured = generation, found
        return found


def _checked(path: str) -> str:
    """Return *path*, absolute if it is a file of this machine, which must be there."""
    url = urlsplit(path)
    if url.scheme not in {"", "file"}:
        return path
    file = Path(unquote(url.path) if url.scheme else path).absolute()
    if not file.is_file():
        raise DefinitionInvalid(
            f"ADD JAR: there is no file {file} on the gateway's machine; give the path of a jar there."
        )
    return str(file)
