"""Query contexts: sessions of the engine's own in which queries are understood and run, so that no user's session leaks in."""

from __future__ import annotations

import threading
from collections import OrderedDict

from pyspark.sql import SparkSession

from mt_core.identifiers import Namespace, sql_name
from mt_core.spark.catalogs.catalog_sync import CatalogSync
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.jvm_objects import active_session
from mt_core.sql.flink.catalog_options import configured_catalogs
from mt_core.tables.ports import Query

CAPACITY = 32
_Key = tuple[int, str, Namespace, str, tuple[tuple[str, str], ...]]


class QueryContexts:
    """One session for each catalog, namespace, zone and settings; the least recently used ones are let go. Any thread."""

    def __init__(self, driver: SparkDriver, catalogs: CatalogSync) -> None:
        self._driver, self._catalogs = driver, catalogs
        self._lock = threading.Lock()
        self._sessions: OrderedDict[_Key, SparkSession] = OrderedDict()

    def session(self, query: Query) -> SparkSession:
        """Return the session in which *query* is to be understood."""
        key = (
            self._driver.generation,
            query.catalog,
            query.namespace,
            query.zone,
            tuple(sorted(query.settings.items())),
        )
        with self._lock:
            found = self._sessions.get(key)
            if found is None:
                found = self._sessions[key] = self._opened(query)
            self._sessions.move_to_end(key)
            while len(self._sessions) > CAPACITY:
                self._sessions.popitem(last=False)
        return self._told(found, query)

    def _told(self, session: SparkSession, query: Query) -> SparkSession:
        # A table of an earlier release has catalogs of its own among its frozen settings.
        return self._catalogs.apply(session, except_for=configured_catalogs(query.settings))

    def _opened(self, query: Query) -> SparkSession:
        session = self._told(self._driver.new_session(), query)
        for key, value in query.settings.items():
            if key.startswith("spark."):
                session.conf.set(key, value)
        session.conf.set("spark.sql.session.timeZone", query.zone)
        if query.catalog:
            with active_session(session):
                session.catalog.setCurrentCatalog(query.catalog)
        if query.namespace:
            # With its catalog in front: the first level may have the name of another catalog.
            levels = [*([query.catalog] if query.catalog else []), *query.namespace]
            session.sql(f"USE {sql_name(levels)}")
        return session
