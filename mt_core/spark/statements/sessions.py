"""The Spark session of each gateway session."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from mt_core.errors import EngineUnavailable, QueryFailed
from mt_core.sessions.ports import SessionContext
from mt_core.spark.catalogs.catalog_sync import CatalogSync
from mt_core.spark.catalogs.plugins import close_plugins
from mt_core.spark.driver.conf import LARGE_VALUES
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.sql.connectors.catalog_options import configured_catalogs
from mt_core.tables.definition.table_definition import SPARK_ZONE_KEY
from mt_core.tables.settings import ZONE_KEY


@dataclass(slots=True, kw_only=True)
class _Entry:
    """A Spark session, the settings last applied to it, and the values that they had before."""

    generation: int
    session: SparkSession
    lock: threading.Lock = field(default_factory=threading.Lock)
    applied: dict[str, str] = field(default_factory=dict)
    before: dict[str, str | None] = field(default_factory=dict)


class SparkSessions:
    """Creates the Spark session of each gateway session at its first use, and again in each new JVM."""

    def __init__(self, driver: SparkDriver, sync: CatalogSync) -> None:
        self._driver, self._sync = driver, sync
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._jars: defaultdict[str, dict[str, str]] = defaultdict(dict)
        # The number of statements that use each session, and the sessions to close after the last of them.
        self._uses, self._closed = Counter[str](), set[str]()

    @contextmanager
    def use(self, context: SessionContext) -> Iterator[SparkSession]:
        """Yield the session after applying the created catalogs and the properties of *context*.

        Raises EngineUnavailable, and QueryFailed for a static setting.
        """
        with self.keeping(context.session_id):
            entry = self._entered(context.session_id)
            with entry.lock:
                with self._driver.translating():
                    self._sync.apply(entry.session, except_for=configured_catalogs(context.properties))
                self._apply(entry, context.properties)
            yield entry.session

    @contextmanager
    def keeping(self, session_id: str) -> Iterator[None]:
        """Delay a `close` of the session until the end of the block."""
        with self._lock:
            self._uses[session_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._uses[session_id] -= 1
                entry = self._removed(session_id) if session_id in self._closed else None
            self._end(entry)

    def close(self, session_id: str) -> None:
        """Remove the session and close its catalogs, as soon as no statement uses it."""
        with self._lock:
            self._closed.add(session_id)
            entry = self._removed(session_id)
        self._end(entry)

    def jars(self, session_id: str) -> dict[str, str]:
        """Return the copies of the session's jars, by path. They are forgotten when the session is closed."""
        with self._lock:
            return self._jars[session_id]

    def _entered(self, session_id: str) -> _Entry:
        with self._lock:
            generation = self._driver.generation
            entry = self._entries.get(session_id)
            if entry is None or entry.generation != generation:
                entry = _Entry(generation=generation, session=self._driver.new_session())
                self._entries[session_id] = entry
            return entry

    def _removed(self, session_id: str) -> _Entry | None:
        """Remove and return the entry of a closed session, or return None if a statement uses it."""
        if self._uses[session_id]:
            return None
        self._closed.discard(session_id)
        self._uses.pop(session_id, None)
        self._jars.pop(session_id, None)
        return self._entries.pop(session_id, None)

    def _end(self, entry: _Entry | None) -> None:
        """Close the catalogs of a removed session."""
        if entry is not None and entry.generation == self._driver.generation:
            with suppress(EngineUnavailable):
                close_plugins(entry.session, self._driver.session)

    def _apply(self, entry: _Entry, properties: Mapping[str, str]) -> None:
        settings = {
            key: value
            for key, value in properties.items()
            if key.startswith("spark.") and key != LARGE_VALUES
        }
        if ZONE_KEY in properties:
            settings[SPARK_ZONE_KEY] = properties[ZONE_KEY]
        with self._driver.translating():
            conf = entry.session.conf
            for key in [key for key in entry.applied if key not in settings]:
                earlier = entry.before.pop(key)
                # Spark's unset would restore Spark's default, and not the value with which the driver was
                # started.
                if earlier is None:
                    conf.unset(key)
                else:
                    conf.set(key, earlier)
                del entry.applied[key]
        for key, value in settings.items():
            if entry.applied.get(key) == value:
                continue
            try:
                with self._driver.translating():
                    earlier = conf.get(key, None)
                    conf.set(key, value)
            except QueryFailed as cause:
                raise cause.reworded(
                    f"Session property {key} = {value!r} cannot be applied: {cause.message} RESET it, "
                    "or open a session without it."
                ) from cause
            entry.before.setdefault(key, earlier)
            entry.applied[key] = value
