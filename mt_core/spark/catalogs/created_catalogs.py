"""Shared catalogs in Spark: each session is told of them when it is used, and of what has changed since."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from mt_core.spark.catalogs.lookup import active, state_of
from mt_core.spark.driver.conf import CATALOG

Settings = Mapping[str, Mapping[str, str]]
CatalogSource = Callable[[], Settings]
"""Gives Spark's settings of each shared catalog by its name: the same object until something changes. Safe from any thread."""

_NONE: Settings = {}


def no_catalogs() -> Settings:
    """A source without any catalog."""
    return _NONE


class SharedCatalogs:
    """Brings sessions up to date with a source. Raises Spark's errors as they are; safe from any thread."""

    def __init__(self, source: CatalogSource) -> None:
        self._source = source
        self._lock = threading.Lock()
        # By session: a session of a JVM that was lost knows of nothing, and its successor is another one.
        self._told: WeakKeyDictionary[SparkSession, Settings] = WeakKeyDictionary()

    def settings(self) -> dict[str, str]:
        """Return the settings of all shared catalogs together."""
        return {key: value for settings in self._source().values() for key, value in settings.items()}

    def tell(self, session: SparkSession, *, except_for: Collection[str] = ()) -> SparkSession:
        """Return *session*, which now knows the shared catalogs; those of names that it sets itself are left alone."""
        wanted = self._source()
        if self._told.get(session, _NONE) is not wanted:
            with self._lock:
                hidden = {name for name in wanted if name in except_for}
                visible = {name: wanted[name] for name in wanted if name not in hidden} if hidden else wanted
                _change(session, self._told.get(session, _NONE), visible)
                self._told[session] = visible
        return session


def _change(session: SparkSession, told: Settings, wanted: Settings) -> None:
    for name in {**told, **wanted}:
        if told.get(name) == wanted.get(name):
            continue
        if name in told:
            _forget(session, name, told[name])
        for key, value in wanted.get(name, {}).items():
            session.conf.set(key, value)


def _forget(session: SparkSession, name: str, settings: Mapping[str, str]) -> None:
    with active(session):
        manager: Any = state_of(session).catalogManager()
        # Spark keeps each catalog it has opened and has no call to let one go.
        field = manager.getClass().getDeclaredField("catalogs")
        field.setAccessible(True)
        opened = field.get(manager)
        if opened.contains(name) and manager.currentCatalog().name() == name:
            manager.setCurrentCatalog(CATALOG)
        opened.remove(name)
        for key in settings:
            session.conf.unset(key)
