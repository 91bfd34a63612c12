"""Source versions: the versions of tables, views and functions that a query reads, without a Spark job.

Two callers with different needs use this module. A run needs a complete source vector, read after the run
began, and waits for slow tables (`vector`). The source watcher polls all continuous tables every few
moments, and one slow catalog must not delay it. `source_fingerprints` therefore reads all their tables in
one parallel call, skips tables that another thread is reading, and reports them as unread.

Both use the cached lineage of a query. If the shape of a table differs from its lineage, the lineage is
outdated. It is dropped and read again, up to `ATTEMPTS` times. A pinned text is built only from a lineage
that agrees with the vector, so that a run never combines the versions of one definition with the text of
another.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from mt_core.base.identifiers import Namespace, display_name, sql_name
from mt_core.errors import EngineError, EngineUnavailable, MtError, SourcesChanged
from mt_core.incremental.changes import appends_nothing
from mt_core.model.storage import COLUMNS, COMMITTED, EMPTY, PIN, SCHEMA
from mt_core.spark.catalogs.columns import columns_of
from mt_core.spark.catalogs.storage_catalogs import SERVER_PLANNED
from mt_core.spark.driver.failures import SPARK_ERRORS, java_classes, translate
from mt_core.spark.driver.jvm_objects import active_session, own_class
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.queries.contexts import QueryContexts
from mt_core.spark.queries.lineage import Lineage, LineageReader, Source, shape_of, text_of
from mt_core.spark.queries.snapshot_cache import (
    LIMIT_MS,
    NO_ANSWER,
    READS,
    WAIT_MS,
    SnapshotCache,
    current_versions,
    refreshed,
    snapshot_of,
)
from mt_core.spark.queries.source_relations import is_query, relation_at
from mt_core.spark.queries.views import Names
from mt_core.tables.engine import Query, SourceVector, SourceVersion, UnreadSources

CAPACITY = 512
ATTEMPTS = 3
TABLE = "table"
VIEW = "view"
FUNCTION = "function"
UNVERSIONED = "unversioned"

_Key = tuple[int, str, str, Namespace, str, tuple[tuple[str, str], ...]]


class _Outdated(Exception):
    """Raised if a source has changed since its lineage was read."""


class SourceVersions:
    """Reads source vectors, and caches the lineages of queries.

    Thread-safe, except that only one thread may call `source_fingerprints`.
    """

    def __init__(self, driver: SparkDriver, contexts: QueryContexts) -> None:
        self._driver = driver
        self._contexts = contexts
        self._lock = threading.Lock()
        self._lineages: OrderedDict[_Key, Lineage] = OrderedDict()
        # Maps each lineage to whether its tables can be replaced by subqueries. Two threads may compute the
        # same entry.
        self._replaceable: WeakKeyDictionary[Lineage, bool] = WeakKeyDictionary()
        # Used only by the thread that calls `source_fingerprints`.
        self._snapshot_cache = SnapshotCache()

    def vector(self, query: Query) -> SourceVector:
        """Return the current versions of all sources of *query*.

        Analyses the query again if its sources have changed. Raises EngineError after `ATTEMPTS` attempts.
        """
        for _ in range(ATTEMPTS):
            lineage = self.lineage(query)
            try:
                with lineage.lock:
                    return self._vector(query, lineage)
            except _Outdated:
                pass
            except SPARK_ERRORS as cause:
                # The table may have been dropped or recreated. The next analysis reports this or uses the new
                # table.
                if not java_classes(cause):
                    raise translate(cause) from cause
            with self._lock:
                if self._lineages.get(self._key(query)) is lineage:
                    del self._lineages[self._key(query)]
        raise EngineError("The sources of the query change faster than they can be read; try again later.")

    def source_fingerprints(self, queries: Sequence[Query]) -> list[str | UnreadSources | None]:
        """Return, for each query, a string that changes when its sources, views or functions change.

        An item is None if a source has no version, and an UnreadSources if a source was not read. Only one
        thread may call this.
        """
        known = self._cached_snapshots(queries)
        # All locks share one deadline, which limits the total delay that other threads can cause.
        until = time.monotonic() + WAIT_MS / 1000
        return [self._fingerprint(query, known, until) for query in queries]

    def _cached_snapshots(self, queries: Sequence[Query]) -> dict[str, str | UnreadSources]:
        """Return the current versions of the sources in all cached lineages whose locks are free."""
        with self._lock:
            lineages = [
                lineage for query in queries if (lineage := self._lineages.get(self._key(query))) is not None
            ]
        tables, moving = dict[str, Any](), dict[str, Source]()
        with ExitStack() as stack:
            for lineage in lineages:
                new = [
                    source
                    for source in lineage.sources
                    if source.name not in tables and source.name not in moving
                ]
                if (
                    new
                    and all(source.table is not None for source in new)
                    and lineage.lock.acquire(blocking=False)
                ):
                    stack.callback(lineage.lock.release)
                    moving |= {source.name: source for source in new if source.name in lineage.moving}
                    tables |= {
                        source.name: source.table for source in new if source.name not in lineage.moving
                    }
            try:
                return self._snapshot_cache.snapshots(self._driver.session, tables) | self._moving_versions(
                    moving
                )
            except SPARK_ERRORS:
                # One table may have failed the whole call. Reading them one by one shows which table it was.
                return {}

    def _moving_versions(self, sources: Mapping[str, Source]) -> dict[str, str | UnreadSources]:
        """Return a version for each of *sources*, none of which is plain."""
        tables = [source.table for source in sources.values()]
        outcomes = refreshed(self._driver.session, tables, WAIT_MS) if tables else ()
        return {
            name: self._moving_version(source) if failed is None else failed
            for (name, source), failed in zip(sources.items(), outcomes, strict=True)
        }

    def _fingerprint(
        self, query: Query, known: dict[str, str | UnreadSources], until: float
    ) -> str | UnreadSources | None:
        """Return the fingerprint of one query's sources.

        Versions that are not in *known* are read and added to it.
        """
        try:
            lineage = self.lineage(query)
            if lineage.unstable or lineage.unnamed or any(source.table is None for source in lineage.sources):
                return None
            for source in lineage.sources:
                if source.name not in known:
                    known[source.name] = self._snapshot(source, lineage, until)
                if isinstance(unread := known[source.name], UnreadSources):
                    return self._unread(query, source.name, unread)
            has_definitions = lineage.views or lineage.functions
            definitions = self._add_definitions(query, lineage, known) if has_definitions else []
        except EngineUnavailable:
            raise
        except (MtError, *SPARK_ERRORS) as error:
            self._forget(query)
            return UnreadSources(reason=f"{type(error).__name__}: {error}")
        names = (*(source.name for source in lineage.sources), *definitions)
        return json.dumps({name: known[name] for name in names}, sort_keys=True)

    def _snapshot(self, source: Source, lineage: Lineage, until: float) -> str | UnreadSources:
        """Return the current version of a source, or why it was not read.

        Waits for the source's lock until *until*.
        """
        if not lineage.lock.acquire(timeout=max(0.0, until - time.monotonic())):
            return UnreadSources(reason="")
        try:
            (failed,) = refreshed(self._driver.session, [source.table], WAIT_MS)
            if failed is not None:
                return failed
            if source.name in lineage.moving:
                return self._moving_version(source)
            return snapshot_of(self._driver.session, source.table)
        finally:
            lineage.lock.release()

    def _unread(self, query: Query, source: str, unread: UnreadSources) -> UnreadSources:
        """Return *unread* with the name of *source* added to its reason.

        After a failure, the lineage is dropped, because the source may have been recreated.
        """
        if not unread.reason:
            return unread
        if NO_ANSWER not in unread.reason:
            self._forget(query)
        return UnreadSources(reason=f"{source}: {unread.reason}")

    def _forget(self, query: Query) -> None:
        with self._lock:
            self._lineages.pop(self._key(query), None)

    def _add_definitions(
        self, query: Query, lineage: Lineage, known: dict[str, str | UnreadSources]
    ) -> list[str]:
        """Add the hashes of the query's views and functions to *known* and return their names."""
        session = self._contexts.session(query)
        with active_session(session):
            names = Names(session)
            for view in lineage.views:
                if display_name(view.parts) not in known:
                    current = names.view(view.parts)
                    known[display_name(view.parts)] = "" if current is None else current.digest
            for parts in lineage.functions:
                known[display_name(parts)] = names.function_digest(parts)
        return [
            display_name(parts) for parts in (*(view.parts for view in lineage.views), *lineage.functions)
        ]

    def pinned_text(self, query: Query, vector: SourceVector) -> str:
        """Return the query pinned to the versions of *vector*, or the user's text if it cannot be pinned.

        Raises SourcesChanged if definitions or columns changed after the vector was read.
        """
        if vector.unpinnable is not None:
            return query.text
        lineage = self.lineage(query)
        versions = {source.name: source.version or {} for source in vector.sources}
        if not agrees(lineage, versions):
            # The text must use the definitions of the vector, which have changed since.
            raise SourcesChanged(
                "A view, function or table of the query changed while the refresh was starting; run it again."
            )
        session, relations = self._contexts.session(query), dict[str, str]()
        try:
            with lineage.lock:
                for source in lineage.sources:
                    pin = pin_of(versions.get(source.name, {}))
                    if source.table is not None and pin is not None:
                        relations[source.name] = self._relation(session, lineage, source, pin)
        except SPARK_ERRORS as cause:
            raise translate(cause) from cause
        if any(map(is_query, relations.values())) and not self._can_replace(session, lineage):
            raise SourcesChanged(
                "The columns of a table of the query changed while the refresh was starting; run it again."
            )
        return text_of(lineage.pieces, relations)

    def _relation(self, session: Any, lineage: Lineage, source: Source, pin: str) -> str:
        relation = relation_at(session, lineage, source, pin)
        if relation is None:
            raise SourcesChanged(
                f"The columns of {source.name} changed while the refresh was starting; run it again."
            )
        return relation

    def _can_replace(self, session: Any, lineage: Lineage) -> bool:
        """Return whether the query still has the same columns if its tables are replaced by subqueries.

        Qualified column names may then fail to resolve.
        """
        replaceable = self._replaceable.get(lineage)
        if replaceable is None:
            tables = [source for source in lineage.sources if source.travel is None]
            queries = {source.name: f"(SELECT * FROM {sql_name(source.parts)})" for source in tables}
            try:
                with active_session(session):
                    frames = (session.sql(text_of(lineage.pieces, each)) for each in ({}, queries))
                    before, after = (columns_of(frame._jdf.schema()) for frame in frames)
                replaceable = before == after
            except SPARK_ERRORS as cause:
                if not java_classes(cause):
                    raise
                replaceable = False
            self._replaceable[lineage] = replaceable
        return replaceable

    def lost(self, query: Query, vector: SourceVector) -> str | None:
        """Return a source that was dropped or whose pinned version has expired, or None if there is none.

        Sources without a pinned version are ignored.
        """
        versions = {source.name: source.version or {} for source in vector.sources}
        lineage = self.lineage(query)
        try:
            with lineage.lock:
                for source in lineage.sources:
                    version = versions.get(source.name, {})
                    pin = pin_of(version)
                    if (
                        source.table is not None
                        and pin is not None
                        and _is_lost(source, version["uuid"], pin)
                    ):
                        return source.name
        except SPARK_ERRORS as cause:
            raise translate(cause) from cause
        return None

    def lineage(self, query: Query) -> Lineage:
        """Return the lineage of *query*, from the cache if possible."""
        key = self._key(query)
        with self._lock:
            lineage = self._lineages.get(key)
            if lineage is not None:
                self._lineages.move_to_end(key)
                return lineage
        session = self._contexts.session(query)
        with active_session(session):
            lineage = LineageReader(session).read(query)
        with self._lock:
            self._lineages[key] = lineage
            while len(self._lineages) > CAPACITY:
                self._lineages.popitem(last=False)
        return lineage

    def _key(self, query: Query) -> _Key:
        settings = tuple(sorted(query.settings.items()))
        return (self._driver.generation, query.text, query.catalog, query.namespace, query.zone, settings)

    def _refresh(self, lineage: Lineage) -> dict[str, dict[str, Any]]:
        """Refresh the metadata of all sources and return their current versions by source name.

        Raises EngineError if a source does not answer, and _Outdated if reading it fails.
        """
        sources = [source for source in lineage.sources if source.table is not None]
        tables = [source.table for source in sources]
        # Versions that an earlier poll has cached would miss later commits.
        outcomes = current_versions(self._driver.session, tables, LIMIT_MS) if tables else ()
        current = dict[str, dict[str, Any]]()
        for source, outcome in zip(sources, outcomes, strict=True):
            if isinstance(outcome, UnreadSources):
                if outcome.reason and NO_ANSWER not in outcome.reason:
                    raise _Outdated
                raise EngineError(
                    f"Table {source.name} has not answered for {LIMIT_MS // 1000} seconds; "
                    "check the database of its catalog, and the store of its files.",
                    table=source.name,
                )
            current[source.name] = json.loads(outcome)
        return current

    def _vector(self, query: Query, lineage: Lineage) -> SourceVector:
        current = self._refresh(lineage)
        sources, obstacles, session = [], [lineage.unpinnable], self._contexts.session(query)
        for source in lineage.sources:
            version, obstacle = self._table_version(source, current.get(source.name), lineage, session)
            obstacles.append(obstacle)
            kind = UNVERSIONED if version is None else TABLE
            sources.append(SourceVersion(name=source.name, kind=kind, version=version, path=source.path))
        sources += [SourceVersion(name=name, kind=UNVERSIONED, version=None) for name in lineage.unnamed]
        sources += self._definition_versions(query, lineage)
        return SourceVector(
            sources=tuple(sources), unstable=lineage.unstable, unpinnable=next(filter(None, obstacles), None)
        )

    def _table_version(
        self, source: Source, current: dict[str, Any] | None, lineage: Lineage, session: SparkSession
    ) -> tuple[dict[str, Any] | None, str | None]:
        """Return the version of a source, or None, and the reason why it cannot be pinned, or None."""
        if current is None:
            return None, None
        shape = current["uuid"], current["schema"]
        if lineage.shapes[source.name] != shape:
            raise _Outdated
        version: dict[str, Any] = {
            "uuid": shape[0],
            "snapshot": None,
            SCHEMA: shape[1],
            COLUMNS: lineage.columns[source.name],
        }
        if source.travel is not None and source.travel.isdigit():
            return {**version, "snapshot": source.travel}, None
        if source.name in lineage.moving:
            return {**version, "snapshot": self._moving_version(source)}, not_plain_reason(source)
        snapshot = current["snapshot"]
        if snapshot is None:
            return version, None if self._can_replace(session, lineage) else f"source {source.name} is empty"
        changed = _last_row_change(session, source.table, snapshot)
        version |= {"snapshot": str(changed["snapshot-id"]), PIN: str(snapshot["snapshot-id"])}
        version[COMMITTED] = datetime.fromtimestamp(changed["timestamp-ms"] / 1000, UTC).isoformat(
            timespec="milliseconds"
        )
        if snapshot.get("schema-id") == version[SCHEMA]:
            return version, None
        relation = relation_at(session, lineage, source, version[PIN])
        if relation is None or (is_query(relation) and not self._can_replace(session, lineage)):
            return version, f"the columns of {source.name} changed after its last commit"
        return version, None

    def _moving_version(self, source: Source) -> str:
        """Return a version of a source that is not plain, which changes whenever its rows change.

        It is read from loaded metadata.
        """
        if source.travel is not None and source.travel.isdigit():
            return source.travel
        # The location of the metadata changes with every commit to any branch.
        return str(own_class(self._driver.session, READS).moving(source.table, source.travel))

    def _definition_versions(self, query: Query, lineage: Lineage) -> list[SourceVersion]:
        """Return the versions of views and functions, which are hashes of their definitions.

        Raises _Outdated if one of them differs from the lineage.
        """
        if not lineage.views and not lineage.functions:
            return []
        session = self._contexts.session(query)
        with active_session(session):
            names = Names(session)
            for view in lineage.views:
                current = names.view(view.parts)
                if current is None or current.digest != view.digest:
                    raise _Outdated
            digests = [(VIEW, view.parts, view.digest) for view in lineage.views]
            if any(names.function_digest(parts) != digest for parts, digest in lineage.functions.items()):
                raise _Outdated
            digests += [(FUNCTION, parts, digest) for parts, digest in lineage.functions.items()]
        return [
            SourceVersion(name=display_name(parts), kind=kind, version={"hash": digest})
            for kind, parts, digest in digests
        ]


def not_plain_reason(source: Source) -> str:
    """Return the reason why the versions of a source that is not plain cannot be pinned."""
    if source.travel is None and str(source.table.getClass().getName()) == SERVER_PLANNED:
        return f"the server of its catalog plans the scans of {source.name}"
    return f"{source.name} is not a table at one version"


def agrees(lineage: Lineage, versions: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether *lineage* has the same views, functions and table shapes as *versions*."""
    for view in lineage.views:
        if versions.get(display_name(view.parts), {}).get("hash") != view.digest:
            return False
    for parts, digest in lineage.functions.items():
        if versions.get(display_name(parts), {}).get("hash") != digest:
            return False
    for source in lineage.sources:
        version = versions.get(source.name, {})
        if source.table is not None and _read_of(version) != _read_of_lineage(lineage, source.name, version):
            return False
    return True


def _read_of(version: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the table UUID and the hash of the columns read, or the schema id if there is no hash."""
    return version.get("uuid"), version.get(COLUMNS, version.get(SCHEMA))


def _read_of_lineage(lineage: Lineage, name: str, version: Mapping[str, Any]) -> tuple[Any, Any]:
    uuid, schema = lineage.shapes[name]
    return uuid, lineage.columns[name] if COLUMNS in version else schema


def pin_of(version: Mapping[str, Any]) -> str | None:
    """Return the snapshot to which a source version is pinned, EMPTY for an empty table, or None."""
    if PIN in version:
        return str(version[PIN])
    return EMPTY if "uuid" in version and version["snapshot"] is None else None


def pins(vector: SourceVector) -> dict[str, str]:
    """Return the snapshots to which a vector is pinned, by source name; EMPTY for empty tables."""
    snapshots = {each.name: pin_of(each.version or {}) for each in vector.sources}
    return {name: pin for name, pin in snapshots.items() if pin is not None}


def _is_lost(source: Source, uuid: str, pin: str) -> bool:
    try:
        source.table.refresh()
        if shape_of(source.table)[0] != uuid:
            return True
        return pin != EMPTY and source.table.snapshot(int(pin)) is None
    except SPARK_ERRORS as cause:
        if not java_classes(cause):
            raise
        return True


def _keeps_rows(snapshot: Mapping[str, Any]) -> bool:
    summary = snapshot.get("summary", {})
    operation = summary.get("operation")
    return operation == "replace" or (operation == "append" and appends_nothing(summary))


def _last_row_change(session: SparkSession, table: Any, snapshot: dict[str, Any]) -> dict[str, Any]:
    """Return the newest snapshot that changed rows, at or before *snapshot*, in Iceberg's JSON form.

    Compactions and refreshes without new rows do not change rows.
    """
    while _keeps_rows(snapshot) and "parent-snapshot-id" in snapshot:
        parent = own_class(session, READS).stored(table, snapshot["parent-snapshot-id"])
        if parent is None:
            break
        snapshot = json.loads(parent)
    return snapshot
