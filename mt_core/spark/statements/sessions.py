"""Spark sessions, one for each session of the gateway."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from mt_core.errors import QueryFailed
from mt_core.sessions.ports import SessionContext
from mt_core.spark.catalogs.catalog_sync import CatalogSync
from mt_core.spark.driver.conf import LARGE_VALUES
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.sql.flink.catalog_options import configured_catalogs

ZONE_KEY = "table.local-time-zone"
SPARK_ZONE_KEY = "spark.sql.session.timeZone"


@dataclass(slots=True, kw_only=True)
class _Entry:
    """A Spark session, the settings last applied to it, and what each of them was before."""

    generation: int
    session: SparkSession
    lock: threading.Lock = field(default_factory=threading.Lock)
    applied: dict[str, str] = field(default_factory=dict)
    before: dict[str, str | None] = field(default_factory=dict)


class SparkSessions:
    """Finds the Spark session of a gateway session, made when it is first needed and again after a lost JVM."""

    def __init__(self, driver: SparkDriver, catalogs: CatalogSync) -> None:
        self._driver, self._catalogs = driver, catalogs
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}

    def session(self, context: SessionContext) -> SparkSession:
        """Return the session with the shared catalogs and *context*'s properties applied.

        Raises EngineUnavailable, QueryFailed for a static setting.
        """
        entry = self._entry(context.session_id)
        with entry.lock:
            with self._driver.translating():
                self._catalogs.apply(entry.session, except_for=configured_catalogs(context.properties))
            _apply(self._driver, entry, spark_settings(context.properties))
        return entry.session

    def close(self, session_id: str) -> None:
        """Forget the session; harmless when there is none."""
        with self._lock:
            self._entries.pop(session_id, None)

    def _entry(self, session_id: str) -> _Entry:
        with self._lock:
            generation = self._driver.generation
            entry = self._entries.get(session_id)
            if entry is None or entry.generation != generation:
                entry = _Entry(generation=generation, session=self._driver.new_session())
                self._entries[session_id] = entry
            return entry


def spark_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Return what *properties* of a gateway session mean to Spark: its own keys, and the zone under its name."""
    settings = {key: value for key, value in properties.items() if key.startswith("spark.") and key != LARGE_VALUES}
    if ZONE_KEY in properties:
        settings[SPARK_ZONE_KEY] = properties[ZONE_KEY]
    return settings


def _apply(driver: SparkDriver, entry: _Entry, wanted: Mapping[str, str]) -> None:
    conf = entry.session.conf
    with driver.translating():
        for key in [key for key in entry.applied if key not in wanted]:
            earlier = entry.before.pop(key)
            # Spark's unset would fall back to Spark's default, not to what the driver was started with.
            if earlier is None:
                conf.unset(key)
            else:
                conf.set(key, earlier)
            del entry.applied[key]
    for key, value in wanted.items():
        if entry.applied.get(key) != value:
            _set(driver, entry, key, value)


def _set(driver: SparkDriver, entry: _Entry, key: str, value: str) -> None:
    conf = entry.session.conf
    try:
        with driver.translating():
            earlier = conf.get(key, None)
            conf.set(key, value)
    except QueryFailed as cause:
        raise QueryFailed(
            f"Session property {key} = {value!r} cannot be applied: {cause.message} RESET it to go on.",
            error_class=cause.error_class,
        ) from cause
    entry.before.setdefault(key, earlier)
    entry.applied[key] = value
