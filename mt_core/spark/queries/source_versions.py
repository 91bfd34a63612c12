"""Source versions: what a query would read now, asked of the tables and views themselves without a Spark job."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from mt_core.errors import EngineError, SourcesChanged
from mt_core.identifiers import Namespace, display_name
from mt_core.spark.driver.failures import SPARK_ERRORS, java_classes, translate
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.jvm_objects import active_session, jvm_of
from mt_core.spark.queries.contexts import QueryContexts
from mt_core.spark.queries.lineage import Lineage, LineageReader, Shape, Source, shape_of
from mt_core.spark.queries.views import Names
from mt_core.tables.ports import Query, SourceVector, SourceVersion

CAPACITY = 512
ATTEMPTS = 3
TABLE = "table"
VIEW = "view"
FUNCTION = "function"
UNVERSIONED = "unversioned"
PIN = "at"

_PLAIN_TABLE = "org.apache.iceberg.BaseTable"
_Key = tuple[int, str, str, Namespace, str, tuple[tuple[str, str], ...]]


class _Outdated(Exception):
    """A source is no longer what the lineage was read from."""


class SourceVersions:
    """Reads source vectors; what does not change with versions is kept. Any thread."""

    def __init__(self, driver: SparkDriver, contexts: QueryContexts) -> None:
        self._driver = driver
        self._contexts = contexts
        self._lock = threading.Lock()
        self._lineages: OrderedDict[_Key, Lineage] = OrderedDict()

    def vector(self, query: Query) -> SourceVector:
        """Return what *query* would read now."""
        for _ in range(ATTEMPTS):
            lineage = self.lineage(query)
            try:
                with lineage.lock:
                    return self._vector(query, lineage)
            except _Outdated:
                self._forget(query, lineage)
            except SPARK_ERRORS as cause:
                # A dropped or re-created table shows itself by an error of its own; analysing again tells which.
                if not java_classes(cause):
                    raise translate(cause) from cause
                self._forget(query, lineage)
        raise EngineError("The sources of the query change faster than they can be read; try again later.")

    def pinned_text(self, query: Query, vector: SourceVector) -> str:
        """Return the query at exactly the versions of *vector*; the query as it is, if it cannot be pinned."""
        if vector.unpinnable is not None:
            return query.text
        lineage = self.lineage(query)
        found = {source.name: source.version or {} for source in vector.sources}
        if not self._reads(lineage, found):
            # A view or a schema changed after the vector was read: the text has to be that of the vector.
            raise SourcesChanged("A view or table of the query changed while the refresh was starting; run it again.")
        return lineage.text({name: str(version[PIN]) for name, version in found.items() if PIN in version})

    def has_lost(self, query: Query, vector: SourceVector) -> bool:
        """Return whether a version that *vector* pins cannot be read any more: its table was dropped, or it expired."""
        found = {source.name: source.version or {} for source in vector.sources}
        lineage = self.lineage(query)
        try:
            with lineage.lock:
                return any(_is_lost(source.table, found.get(source.name, {})) for source in lineage.sources)
        except SPARK_ERRORS as cause:
            if not java_classes(cause):
                raise translate(cause) from cause
            return True

    def lineage(self, query: Query) -> Lineage:
        """Return the lineage of *query*, read again only when it has to be."""
        key = self._key(query)
        with self._lock:
            found = self._lineages.get(key)
            if found is not None:
                self._lineages.move_to_end(key)
                return found
        session = self._contexts.session(query)
        with active_session(session):
            lineage = LineageReader(session).read(query)
        with self._lock:
            self._lineages[key] = lineage
            while len(self._lineages) > CAPACITY:
                self._lineages.popitem(last=False)
        return lineage

    def _forget(self, query: Query, lineage: Lineage) -> None:
        key = self._key(query)
        with self._lock:
            if self._lineages.get(key) is lineage:
                del self._lineages[key]

    def _key(self, query: Query) -> _Key:
        settings = tuple(sorted(query.settings.items()))
        return (self._driver.generation, query.text, query.catalog, query.namespace, query.zone, settings)

    def _vector(self, query: Query, lineage: Lineage) -> SourceVector:
        problems = [lineage.unpinnable]
        found = []
        for source in lineage.sources:
            version, problem = self._table_version(source, lineage.shapes)
            problems.append(problem)
            found.append(
                SourceVersion(name=source.name, kind=UNVERSIONED if version is None else TABLE, version=version)
            )
        found += [SourceVersion(name=name, kind=UNVERSIONED, version=None) for name in lineage.unnamed]
        return SourceVector(
            sources=(*found, *self._definitions(query, lineage)),
            unstable=lineage.unstable,
            unpinnable=next((problem for problem in problems if problem), None),
        )

    def _table_version(self, source: Source, shapes: Mapping[str, Shape]) -> tuple[dict[str, Any] | None, str | None]:
        """Return the version of a source (None: it has none), and why it cannot be pinned (None: it can)."""
        table = source.table
        if table is None:
            return None, None
        table.refresh()
        shape = shape_of(table)
        if shapes[source.name] != shape:
            raise _Outdated
        version: dict[str, Any] = {"uuid": shape[0], "snapshot": None, "schema": shape[1]}
        if source.travel is not None and source.travel.isdigit():
            return {**version, "snapshot": source.travel}, None
        if source.travel is not None or not _is_plain(source):
            return {
                **version,
                "snapshot": self._metadata_location(table),
            }, f"{source.name} is not a table at one version"
        return _current(table, source, version)

    def _metadata_location(self, table: Any) -> str:
        """Return what changes with every commit, whichever branch or metadata table *table* is."""
        return str(jvm_of(self._driver.session).org.apache.iceberg.TableUtil.metadataFileLocation(table))

    def _definitions(self, query: Query, lineage: Lineage) -> list[SourceVersion]:
        """Views and functions, whose text is their version."""
        if not lineage.views and not lineage.functions:
            return []
        session = self._contexts.session(query)
        with active_session(session):
            names = Names(session)
            for known in lineage.views:
                now = names.view(known.parts)
                if now is None or now.digest != known.digest:
                    raise _Outdated
            digests = [(VIEW, view.parts, view.digest) for view in lineage.views]
            digests += [(FUNCTION, parts, names.function_digest(parts)) for parts in lineage.functions]
        return [
            SourceVersion(name=display_name(parts), kind=kind, version={"hash": digest})
            for kind, parts, digest in digests
        ]

    def _reads(self, lineage: Lineage, found: Mapping[str, Mapping[str, Any]]) -> bool:
        views = {display_name(view.parts): view.digest for view in lineage.views}
        return all(found.get(name, {}).get("hash") == digest for name, digest in views.items()) and all(
            source.table is None or _shape_of(found.get(source.name, {})) == lineage.shapes.get(source.name)
            for source in lineage.sources
        )


def _shape_of(version: Mapping[str, Any]) -> Shape | None:
    return (version["uuid"], version["schema"]) if "uuid" in version else None


def _is_lost(table: Any, version: Mapping[str, Any]) -> bool:
    if table is None or PIN not in version:
        return False
    table.refresh()
    return shape_of(table)[0] != version["uuid"] or table.snapshot(int(version[PIN])) is None


def _current(table: Any, source: Source, version: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    snapshot = table.currentSnapshot()
    if snapshot is None:
        return version, f"source {source.name} is empty"
    found = {**version, "snapshot": _rows_since(table, snapshot), PIN: str(snapshot.snapshotId())}
    if snapshot.schemaId() != version["schema"]:
        return found, f"the columns of {source.name} changed after its last commit"
    return found, None


def _rows_since(table: Any, snapshot: Any) -> str:
    """Return the snapshot which last changed rows: compaction (`replace`) keeps them."""
    current = snapshot
    while current.operation() == "replace" and current.parentId() is not None:
        parent = table.snapshot(current.parentId())
        if parent is None:
            break
        current = parent
    return str(current.snapshotId())


def _is_plain(source: Source) -> bool:
    """Whether the name is the table's own: not one of its metadata tables, nor a branch written as a part of the name."""
    table = source.table
    return str(table.getClass().getName()) == _PLAIN_TABLE and str(table.name()).endswith(".".join(source.parts[1:]))
