"""Query contexts: the engine's own sessions for queries, isolated from the user sessions."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping

from pyspark.sql import SparkSession

from mt_core.base.identifiers import Namespace, sql_name
from mt_core.spark.catalogs.catalog_sync import CatalogSync
from mt_core.spark.catalogs.plugins import share_plugins
from mt_core.spark.driver.conf import SESSION_CATALOG, catalog_names
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.sql.connectors.catalog_options import PREFIX, configured_catalogs
from mt_core.tables.engine import Query

CAPACITY = 32
_HADOOP = "spark.hadoop."
_Key = tuple[int, str, Namespace, str, tuple[tuple[str, str], ...]]


class QueryContexts:
    """An LRU cache of sessions by catalog, namespace, time zone and settings. Thread-safe.

    The sessions share the configured catalogs that the driver's session has opened, because connecting to a
    catalog is slow and connections are limited.
    """

    def __init__(self, driver: SparkDriver, sync: CatalogSync) -> None:
        self._driver, self._sync = driver, sync
        self._lock = threading.Lock()
        self._sessions: OrderedDict[_Key, SparkSession] = OrderedDict()

    def session(self, query: Query) -> SparkSession:
        """Return the session in which *query* is analysed and run."""
        settings = tuple(sorted(query.settings.items()))
        key = (self._driver.generation, query.catalog, query.namespace, query.zone, settings)
        # The session of the query may have configured catalogs.
        own_catalogs = configured_catalogs(query.settings)
        with self._lock:
            session = self._sessions.get(key)
            if session is None:
                session = self._sessions[key] = self.new_session(query)
            self._sessions.move_to_end(key)
            while len(self._sessions) > CAPACITY:
                self._sessions.popitem(last=False)
        return self._sync.apply(session, except_for=own_catalogs)

    def new_session(self, query: Query) -> SparkSession:
        """Return a new, uncached session for *query*."""
        own_catalogs = configured_catalogs(query.settings)
        session = self._driver.new_session()
        self.lend(session, query.settings)
        self._sync.apply(session, except_for=own_catalogs)
        _configure(session, query)
        return session

    def lend(self, session: SparkSession, settings: Mapping[str, str]) -> None:
        """Share the configured catalogs that the driver's session has opened with *session*.

        A catalog is not shared if *settings* configure it differently.
        """
        # Catalogs created by statements are not shared, because they may change during the session.
        configured = catalog_names(self._driver.settings) - {SESSION_CATALOG}
        share_plugins(
            self._driver.session, session, [name for name in configured if not _reconfigures(settings, name)]
        )


def _reconfigures(settings: Mapping[str, str], catalog: str) -> bool:
    """Return whether *settings* include options of *catalog* or of file systems."""
    own = f"{PREFIX}{catalog}"
    return any(key == own or key.startswith((f"{own}.", _HADOOP)) for key in settings)


def _configure(session: SparkSession, query: Query) -> None:
    for key, value in query.settings.items():
        if key.startswith("spark."):
            session.conf.set(key, value)
    session.conf.set("spark.sql.session.timeZone", query.zone)
    if query.catalog:
        with active_session(session):
            session.catalog.setCurrentCatalog(query.catalog)
    if query.namespace:
        # Qualify the namespace with the catalog, because its first level may be the name of another catalog.
        session.sql(f"USE {sql_name([*([query.catalog] if query.catalog else []), *query.namespace])}")
