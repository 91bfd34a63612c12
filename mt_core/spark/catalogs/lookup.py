"""Catalogs as Spark has them: found by name, and asked through the JVM."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from mt_core.errors import CatalogUnsupported, DefinitionInvalid, MtError, StorageMissing
from mt_core.model.table import TableIdentifier, quoted
from mt_core.spark.driver.conf import SESSION_CATALOG
from mt_core.spark.driver.failures import SPARK_ERRORS, java_classes, translate
from mt_core.spark.driver.spark_driver import SparkDriver

NO_SUCH_TABLE = "org.apache.iceberg.exceptions.NoSuchTableException"
ALREADY_EXISTS = "org.apache.iceberg.exceptions.AlreadyExistsException"

_ICEBERG_PLUGIN = "org.apache.iceberg.spark.SparkCatalog"
_COMPARE_AND_SET = "org.apache.iceberg.jdbc.JdbcCatalog"
_CACHING = "org.apache.iceberg.CachingCatalog"
_SESSIONS = "org.apache.spark.sql.classic.SparkSession"
# Iceberg puts these into the session for its reader and for the procedures that rewrite files.
ICEBERGS_OWN = frozenset({"default_iceberg", "default_cache_iceberg", "default_rewrite_catalog"})
_CATALOG_KEY = re.compile(r"spark\.sql\.catalog\.([^.]+)")

# A session has one state, of which it makes one when first asked.
_states: WeakKeyDictionary[SparkSession, Any] = WeakKeyDictionary()
# Static members by their path, for each JVM.
_statics: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


@contextmanager
def telling(errors: Mapping[str, Callable[[], MtError]]) -> Iterator[None]:
    """Raise the error of ours which *errors* names for the outermost Java class; any other is told by its nature."""
    try:
        yield
    except SPARK_ERRORS as cause:
        classes = java_classes(cause)
        make = errors.get(classes[0]) if classes else None
        raise (make() if make else translate(cause)) from cause


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Make *session* the one whose settings the JVM reads for this thread; parser and catalogs called directly need it."""
    set_active = static(session, f"{_SESSIONS}.setActiveSession")
    before = static(session, f"{_SESSIONS}.getActiveSession")()
    set_active(session._jsparkSession)
    try:
        yield
    finally:
        with suppress(*SPARK_ERRORS):
            if before.isDefined():
                set_active(before.get())
            else:
                static(session, f"{_SESSIONS}.clearActiveSession")()


def sql_name(parts: Sequence[str]) -> str:
    """Return a qualified name with every part in back quotes."""
    return ".".join(quoted(part) for part in parts)


def jvm_of(session: SparkSession) -> Any:
    return session._jvm


def static(session: SparkSession, path: str) -> Any:
    """Return the static member of a Java class at *path*; py4j asks the JVM for every part of it, so it is kept."""
    jvm = jvm_of(session)
    known = _statics.setdefault(jvm, {})
    if path not in known:
        known[path] = reduce(getattr, path.split("."), jvm)
    return known[path]


def java_items(collection: Any) -> list[Any]:
    """Return the items of a Java collection; at the end of py4j's own iterator stands an error that takes 70 calls to read."""
    items = collection.toArray()
    return [items[index] for index in range(len(items))]


def state_of(session: SparkSession) -> Any:
    """Return the session's state in the JVM: parser, catalog manager, session catalog."""
    found = _states.get(session)
    if found is None:
        found = _states[session] = session._jsparkSession.sessionState()
    return found


def java_strings(session: SparkSession, parts: Sequence[str]) -> Any:
    """Return a Java String[]."""
    gateway: Any = session.sparkContext._gateway
    array = gateway.new_array(static(session, "java.lang.String"), len(parts))
    for index, part in enumerate(parts):
        array[index] = part
    return array


def spark_identifier(session: SparkSession, parts: Sequence[str]) -> Any:
    """Return Spark's Identifier for a name without its catalog."""
    identifiers = jvm_of(session).org.apache.spark.sql.connector.catalog.Identifier
    return identifiers.of(java_strings(session, parts[:-1]), parts[-1])


def _as_it_is(session: SparkSession) -> SparkSession:
    return session


class Catalogs:
    """The catalogs of the driver's own session, which *tell* brings up to date."""

    def __init__(self, driver: SparkDriver, tell: Callable[[SparkSession], SparkSession] = _as_it_is) -> None:
        self._driver, self._tell = driver, tell

    @property
    def session(self) -> SparkSession:
        return self._tell(self._driver.session)

    def known(self) -> tuple[str, ...]:
        """Return the names of all configured catalogs."""
        keys = self.session.conf.getAll
        found = {match[1] for match in map(_CATALOG_KEY.fullmatch, keys) if match}
        return tuple(sorted((found | {SESSION_CATALOG}) - ICEBERGS_OWN))

    def plugin(self, name: str) -> Any:
        """Return Spark's catalog plug-in; raises DefinitionInvalid listing the known catalogs."""
        manager = state_of(self.session).catalogManager()
        if not manager.isCatalogRegistered(name):
            raise DefinitionInvalid(
                f"There is no catalog {name}; known catalogs: {', '.join(self.known())}.", catalog=name
            )
        return manager.catalog(name)

    def iceberg(self, name: str) -> Any:
        """Return Iceberg's own catalog behind *name*; raises CatalogUnsupported unless it swaps metadata by compare-and-set."""
        plugin = self.plugin(name)
        kind = str(plugin.getClass().getName())
        if kind == _ICEBERG_PLUGIN:
            core = plugin.icebergCatalog()
            kind = str(core.getClass().getName())
            if kind == _COMPARE_AND_SET:
                return core
        raise CatalogUnsupported(_refusal(name, kind), catalog=name)

    def core_name(self, identifier: TableIdentifier) -> Any:
        """Return Iceberg's TableIdentifier."""
        of = static(self.session, "org.apache.iceberg.catalog.TableIdentifier.of")
        return of(java_strings(self.session, identifier.parts[1:]))

    def load(self, identifier: TableIdentifier) -> Any:
        """Return the Iceberg table as it is now; raises StorageMissing."""
        core = self.iceberg(identifier.catalog)

        def missing() -> MtError:
            return StorageMissing(
                f"There is no storage table {identifier}; ALTER MATERIALIZED TABLE … RESUME makes it again.",
                table=str(identifier),
            )

        with telling({NO_SUCH_TABLE: missing}):
            return core.loadTable(self.core_name(identifier))

    def setting(self, name: str, key: str) -> str:
        """Return a setting of a catalog, or an empty text."""
        return self.session.conf.get(f"spark.sql.catalog.{name}.{key}", "") or ""


def _refusal(name: str, kind: str) -> str:
    if kind == _CACHING:
        return (
            f"Catalog {name} caches table metadata and cannot hold materialized tables; "
            f"set spark.sql.catalog.{name}.cache-enabled to false."
        )
    return (
        f"Catalog {name} ({kind.rsplit('.', 1)[-1]}) cannot hold materialized tables: it does not swap a table's metadata by "
        f"compare-and-set. Use an Iceberg catalog ({_ICEBERG_PLUGIN}) of type jdbc; sources may live in {name}."
    )
