"""Source versions: what a query would read now, as its tables and views report it without a Spark job."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

from mt_core.errors import EngineError, EngineUnavailable, MtError, SourcesChanged
from mt_core.identifiers import Namespace, display_name
from mt_core.maintenance.changes import ADDED_FILES, appends_nothing
from mt_core.model.storage import COMMITTED, PIN, RUN_ID
from mt_core.spark.driver.failures import SPARK_ERRORS, java_classes, translate
from mt_core.spark.driver.jvm_objects import active_session, static_member
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.queries.contexts import QueryContexts
from mt_core.spark.queries.glances import Glances
from mt_core.spark.queries.lineage import Lineage, LineageReader, Source, shape_of, text_of
from mt_core.spark.queries.views import Names
from mt_core.tables.engine import Query, SourceVector, SourceVersion

CAPACITY = 512
ATTEMPTS = 3
TABLE = "table"
VIEW = "view"
FUNCTION = "function"
UNVERSIONED = "unversioned"

_Key = tuple[int, str, str, Namespace, str, tuple[tuple[str, str], ...]]


class _Outdated(Exception):
    """A source changed since its lineage was read."""


class SourceVersions:
    """Reads source vectors; caches the lineage of each query, which versions do not change. Any thread."""

    def __init__(self, driver: SparkDriver, contexts: QueryContexts) -> None:
        self._driver = driver
        self._contexts = contexts
        self._lock = threading.Lock()
        self._lineages: OrderedDict[_Key, Lineage] = OrderedDict()
        # For the one thread that looks.
        self._glances = Glances()

    def vector(self, query: Query) -> SourceVector:
        """Return what *query* would read now."""
        for _ in range(ATTEMPTS):
            lineage = self.lineage(query)
            try:
                with lineage.lock:
                    return self._vector(query, lineage)
            except _Outdated:
                pass
            except SPARK_ERRORS as cause:
                # A dropped or re-created table gives an error of its own; the next analysis finds out which.
                if not java_classes(cause):
                    raise translate(cause) from cause
            with self._lock:
                if self._lineages.get(self._key(query)) is lineage:
                    del self._lineages[self._key(query)]
        raise EngineError("The sources of the query change faster than they can be read; try again later.")

    def look(self, queries: Sequence[Query]) -> list[str | None]:
        """Return for each query a text that changes when its sources or views do; None if they change without a version."""
        known = self._glance(queries)
        return [self._look(query, known) for query in queries]

    def _glance(self, queries: Sequence[Query]) -> dict[str, str]:
        """Return the snapshots of the sources of queries that were looked at before, as far as no other thread works on them."""
        with self._lock:
            lineages = [lineage for query in queries if (lineage := self._lineages.get(self._key(query))) is not None]
        tables: dict[str, Any] = {}
        with ExitStack() as stack:
            for lineage in lineages:
                new = {source.name: source.table for source in lineage.sources if source.name not in tables}
                if not lineage.moving and new and None not in new.values() and lineage.lock.acquire(blocking=False):
                    stack.callback(lineage.lock.release)
                    tables |= new
            try:
                return self._glances.snapshots(self._driver.session, tables)
            except SPARK_ERRORS:
                # A table was dropped, or is none that commits: to look at each by itself finds out which.
                return {}

    def _look(self, query: Query, known: dict[str, str]) -> str | None:
        """Return what one query would read, as far as it is not *known* from another query that reads it."""
        try:
            lineage = self.lineage(query)
            if lineage.unstable or lineage.unnamed or any(source.table is None for source in lineage.sources):
                return None
            for source in lineage.sources:
                if source.name not in known:
                    with lineage.lock:
                        source.table.refresh()
                        if source.name in lineage.moving:
                            known[source.name] = self._moving_version(source)
                        else:
                            snapshot = source.table.currentSnapshot()
                            known[source.name] = "" if snapshot is None else str(snapshot.snapshotId())
            has_definitions = lineage.views or lineage.functions
            definitions = self._look_at_definitions(query, lineage, known) if has_definitions else []
        except EngineUnavailable:
            raise
        except (MtError, *SPARK_ERRORS) as error:
            with self._lock:
                self._lineages.pop(self._key(query), None)
            return f"{type(error).__name__}: {error}"
        names = (*(source.name for source in lineage.sources), *definitions)
        return json.dumps({name: known[name] for name in names}, sort_keys=True)

    def _look_at_definitions(self, query: Query, lineage: Lineage, known: dict[str, str]) -> list[str]:
        """Return the names of the views and functions, whose hashes are *known* afterwards."""
        session = self._contexts.session(query)
        with active_session(session):
            names = Names(session)
            for view in lineage.views:
                if display_name(view.parts) not in known:
                    current = names.view(view.parts)
                    known[display_name(view.parts)] = "" if current is None else current.digest
            for parts in lineage.functions:
                known[display_name(parts)] = names.function_digest(parts)
        return [display_name(parts) for parts in (*(view.parts for view in lineage.views), *lineage.functions)]

    def pinned_text(self, query: Query, vector: SourceVector) -> str:
        """Return the query at exactly the versions of *vector*; the user's text if it cannot be pinned."""
        if vector.unpinnable is not None:
            return query.text
        lineage = self.lineage(query)
        versions = {source.name: source.version or {} for source in vector.sources}
        if not agrees(lineage, versions):
            # A view, a function or a schema changed after the vector was read: the text has to be that of the vector.
            raise SourcesChanged(
                "A view, function or table of the query changed while the refresh was starting; run it again."
            )
        return text_of(
            lineage.pieces, {name: str(version[PIN]) for name, version in versions.items() if PIN in version}
        )

    def lost(self, query: Query, vector: SourceVector) -> str | None:
        """Return a source of which the version that *vector* pins cannot be read any more: it was dropped, or the version expired.

        None: there is none.
        """
        versions = {source.name: source.version or {} for source in vector.sources}
        lineage = self.lineage(query)
        try:
            with lineage.lock:
                for source in lineage.sources:
                    version = versions.get(source.name, {})
                    if source.table is not None and PIN in version and _is_lost(source, version):
                        return source.name
        except SPARK_ERRORS as cause:
            raise translate(cause) from cause
        return None

    def lineage(self, query: Query) -> Lineage:
        """Return the lineage of *query*, from the cache if it is there."""
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

    def _vector(self, query: Query, lineage: Lineage) -> SourceVector:
        sources, obstacles = [], [lineage.unpinnable]
        for source in lineage.sources:
            version, obstacle = self._table_version(source, lineage)
            obstacles.append(obstacle)
            kind = UNVERSIONED if version is None else TABLE
            sources.append(SourceVersion(name=source.name, kind=kind, version=version, path=source.path))
        sources += [SourceVersion(name=name, kind=UNVERSIONED, version=None) for name in lineage.unnamed]
        sources += self._definition_versions(query, lineage)
        return SourceVector(
            sources=tuple(sources), unstable=lineage.unstable, unpinnable=next(filter(None, obstacles), None)
        )

    def _table_version(self, source: Source, lineage: Lineage) -> tuple[dict[str, Any] | None, str | None]:
        """Return the version of a source, None without one, and why it cannot be pinned, None if it can."""
        table = source.table
        if table is None:
            return None, None
        table.refresh()
        shape = shape_of(table)
        if lineage.shapes[source.name] != shape:
            raise _Outdated
        version: dict[str, Any] = {"uuid": shape[0], "snapshot": None, "schema": shape[1]}
        if source.travel is not None and source.travel.isdigit():
            return {**version, "snapshot": source.travel}, None
        if source.name in lineage.moving:
            return {**version, "snapshot": self._moving_version(source)}, not_plain(source)
        snapshot = table.currentSnapshot()
        if snapshot is None:
            return version, f"source {source.name} is empty"
        changed = _last_row_change(table, snapshot)
        version |= {"snapshot": str(changed.snapshotId()), PIN: str(snapshot.snapshotId())}
        version[COMMITTED] = datetime.fromtimestamp(changed.timestampMillis() / 1000, UTC).isoformat(
            timespec="milliseconds"
        )
        same_columns = snapshot.schemaId() == version["schema"]
        return version, None if same_columns else f"the columns of {source.name} changed after its last commit"

    def _moving_version(self, source: Source) -> str:
        """Return what changes with the rows of a source that is not plain, as of the table's last refresh."""
        if source.travel is not None and source.travel.isdigit():
            return source.travel
        branch_or_tag = None if source.travel is None else source.table.refs().get(source.travel)
        if branch_or_tag is not None:
            return str(branch_or_tag.snapshotId())
        # The location of the metadata changes with every commit to any branch.
        return str(
            static_member(self._driver.session, "org.apache.iceberg.TableUtil.metadataFileLocation")(source.table)
        )

    def _definition_versions(self, query: Query, lineage: Lineage) -> list[SourceVersion]:
        """Return the versions of views and functions, which are hashes of their texts."""
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


def not_plain(source: Source) -> str:
    """Return why the versions of a source that is not plain cannot be pinned."""
    return f"{source.name} is not a table at one version"


def agrees(lineage: Lineage, versions: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether *lineage* was read from the same views, functions and shapes of tables as *versions*."""
    for view in lineage.views:
        if versions.get(display_name(view.parts), {}).get("hash") != view.digest:
            return False
    for parts, digest in lineage.functions.items():
        if versions.get(display_name(parts), {}).get("hash") != digest:
            return False
    for source in lineage.sources:
        version = versions.get(source.name, {})
        shape = (version["uuid"], version["schema"]) if "uuid" in version else None
        if source.table is not None and shape != lineage.shapes.get(source.name):
            return False
    return True


def _is_lost(source: Source, version: Mapping[str, Any]) -> bool:
    try:
        source.table.refresh()
        return shape_of(source.table)[0] != version["uuid"] or source.table.snapshot(int(version[PIN])) is None
    except SPARK_ERRORS as cause:
        if not java_classes(cause):
            raise
        return True


def _keeps_rows(snapshot: Any) -> bool:
    operation = snapshot.operation()
    if operation != "append":
        return bool(operation == "replace")
    summary = snapshot.summary()
    return appends_nothing({key: "" for key in (RUN_ID, ADDED_FILES) if summary.containsKey(key)})


def _last_row_change(table: Any, snapshot: Any) -> Any:
    """Return the snapshot, up to *snapshot*, that last changed rows: compaction and a refresh without rows keep them."""
    while _keeps_rows(snapshot) and snapshot.parentId() is not None:
        parent = table.snapshot(snapshot.parentId())
        if parent is None:
            break
        snapshot = parent
    return snapshot
