"""Catalog sync: registers created catalogs and functions in Spark sessions, and updates them on change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from mt_core.spark.catalogs.plugins import plugins_of
from mt_core.spark.driver.conf import CATALOG, S3_OF_HADOOP, default_files
from mt_core.spark.driver.jvm_objects import active_session, state_of
from mt_core.spark.driver.session_functions import SessionFunctions

Settings = Mapping[str, Mapping[str, str]]
CatalogSource = Callable[[], Settings]
"""Returns the Spark settings of each created catalog, by catalog name. Thread-safe.

The same object is returned until a catalog changes.
"""

_NONE: Settings = {}


def no_catalogs() -> Settings:
    """A CatalogSource without catalogs."""
    return _NONE


class CatalogSync:
    """Registers the catalogs of *source* in sessions. Raises Spark's errors untranslated. Thread-safe."""

    def __init__(self, source: CatalogSource, functions: SessionFunctions) -> None:
        self._source, self._functions = source, functions
        self._lock = threading.Lock()
        # By session, because the sessions of a new JVM do not have these catalogs.
        self._applied: WeakKeyDictionary[SparkSession, Settings] = WeakKeyDictionary()

    def settings(self) -> dict[str, str]:
        """Return the settings of all created catalogs."""
        return {key: value for settings in self._source().values() for key, value in settings.items()}

    def apply(self, session: SparkSession, *, except_for: Collection[str] = ()) -> SparkSession:
        """Update the created functions and catalogs of *session* and return it.

        Catalogs in *except_for*, which the session has configured itself, are not changed.
        """
        self._functions.apply(session)
        target = self._source()
        if self._applied.get(session, _NONE) is target:
            return session
        with self._lock:
            if any(name in target for name in except_for):
                target = {name: settings for name, settings in target.items() if name not in except_for}
            current = self._applied.get(session, _NONE)
            for name in {**current, **target}:
                if current.get(name) == target.get(name):
                    continue
                if name in current:
                    _remove(session, name, current[name])
                for key, value in _with_files(session, target.get(name, {})).items():
                    session.conf.set(key, value)
            self._applied[session] = target
        return session


def _remove(session: SparkSession, name: str, settings: Mapping[str, str]) -> None:
    with active_session(session):
        manager, plugins = state_of(session).catalogManager(), plugins_of(session)
        if plugins.contains(name) and manager.currentCatalog().name() == name:
            manager.setCurrentCatalog(CATALOG)
        plugins.remove(name)
        for key in _with_files(session, settings):
            session.conf.unset(key)


def _with_files(session: SparkSession, settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return *settings* with the FileIO of each catalog that names none."""
    of_hadoop = session.conf.get(S3_OF_HADOOP, "") if settings else ""
    return {**settings, **default_files({**settings, **({S3_OF_HADOOP: of_hadoop} if of_hadoop else {})})}
