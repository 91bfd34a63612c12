"""Source changes between two source vectors, read from snapshot logs without a Spark job.

Before a refresh reads any row, it must decide whether to apply a change or to recompute. This module collects
the facts for this decision from metadata: the shape of the query, the kind and size of each source's change,
and the size of all sources. An obstacle is a reason why a change cannot be read, such as a source without
versions, an unstable query, a recreated or replaced table, expired snapshots, or changed columns. Obstacles
are reported to users. If there is no obstacle, the rows of both versions can be read with the columns that
the query reads now. At most `MOST_COMMITS` commits of a log are read. If the old version is not among them,
the files of the two versions are compared instead.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from mt_core.incremental.changes import (
    ChangeKind,
    Commit,
    SourceChange,
    can_be_compared,
    change_between,
    first_change,
)
from mt_core.incremental.delta import numbered, readings
from mt_core.incremental.reading_scopes import combined_scopes, read_scopes
from mt_core.incremental.shape import QueryShape
from mt_core.incremental.stages.accumulators import obstacle_of_key
from mt_core.incremental.stages.blocks import Blocks, place_of
from mt_core.incremental.stages.compiler import compile_first_rows, compile_rows, compile_stages
from mt_core.incremental.stages.first_rows import Limit
from mt_core.incremental.stages.look_ups import SourceFacts
from mt_core.incremental.stages.stage_plan import StagePlan
from mt_core.model.storage import COLUMNS, EMPTY, PIN, SCHEMA
from mt_core.model.table import Column
from mt_core.spark.catalogs.columns import iceberg_columns, sql_type
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.conf import REFRESH_POOL
from mt_core.spark.driver.failures import SPARK_ERRORS, translate
from mt_core.spark.driver.jvm_objects import active_session, static_member
from mt_core.spark.queries.lineage import Lineage, Source
from mt_core.spark.queries.query_shapes import pieces_of, shape_of_query
from mt_core.spark.queries.source_relations import relation_at
from mt_core.spark.queries.source_versions import not_plain_reason, pin_of, pins
from mt_core.spark.queries.staged_query import StagedQuery, Tree
from mt_core.spark.readings.file_difference import files_between
from mt_core.spark.readings.reading_images import ReadingImages
from mt_core.spark.readings.source_facts import facts_of_source
from mt_core.tables.engine import ChangeReader, Query, ShapedQuery, SourceChanges, SourceVector

log = logging.getLogger(__name__)
MOST_COMMITS = 1000
_Understood = tuple[QueryShape, tuple[Column, ...]]
_PARSER = "org.apache.iceberg.SnapshotParser"


class SourceLogs(ChangeReader):
    """Reads the changes of sources, and caches the shape of each query. Thread-safe."""

    def __init__(self, spark: SparkContexts) -> None:
        self._spark = spark
        # An entry exists as long as its lineage. Two threads may compute the same entry, which is harmless.
        self._shapes: WeakKeyDictionary[Lineage, _Understood | str] = WeakKeyDictionary()

    def read_shape(self, query: Query) -> ShapedQuery | str:
        with self._spark.working():
            lineage = self._spark.versions.lineage(query)
            with lineage.lock:
                obstacle = _lasting_obstacle(lineage)
            shape = obstacle or self._shape(query, lineage)
        if isinstance(shape, str):
            return shape
        return ShapedQuery(shape=shape[0], columns=shape[1], readings=_sources_read(lineage))

    def changes_since(self, query: Query, since: SourceVector, vector: SourceVector) -> SourceChanges | str:
        obstacle = _obstacle(since, vector)
        if obstacle is not None:
            return obstacle
        old, new = pins(since), pins(vector)
        changes: dict[str, SourceChange] = {}
        facts: dict[str, SourceFacts] = {}
        with self._spark.working():
            lineage, session = self._spark.versions.lineage(query), self._spark.driver.session
            shape = self._shape(query, lineage)
            if isinstance(shape, str):
                return shape
            with lineage.lock:
                for source in lineage.sources:
                    if source.name in new:
                        read = _columns_read(shape[0], _sources_read(lineage), source.name)
                        changes[source.name] = self._change(
                            lineage, source, old[source.name], new[source.name], read
                        )
                        keys = _keys_of(shape[0], _sources_read(lineage), source.name)
                        facts[source.name] = facts_of_source(session, source.table, new[source.name], keys)
        return SourceChanges(
            shape=shape[0],
            columns=shape[1],
            readings=_sources_read(lineage),
            changes=changes,
            facts=facts,
        )

    def check_changes(
        self, job_id: str, query: Query, since: SourceVector, vector: SourceVector, changes: SourceChanges
    ) -> SourceChanges:
        if not any(change.kind.changes_rows for change in changes.changes.values()):
            return changes
        with self._spark.driver.run_tagged(job_id, REFRESH_POOL, "changed rows"):
            session = self._spark.queries.session(query)
            with active_session(session):
                images = ReadingImages(
                    session=session,
                    lineage=self._spark.versions.lineage(query),
                    changes=changes,
                    old=pins(since),
                    new=pins(vector),
                )
                return replace(changes, unaffected=images.unaffected())

    def source_bytes(self, query: Query, vector: SourceVector) -> int | None:
        if vector.unpinnable or vector.unversioned:
            return None
        versions = {each.name: each.version or {} for each in vector.sources}
        sizes: list[str | None] = []
        with self._spark.working():
            lineage = self._spark.versions.lineage(query)
            with lineage.lock:
                for source in lineage.sources:
                    version = versions.get(source.name, {})
                    # A source with time travel in the text has no pin, because its version is fixed.
                    at = version.get("snapshot") if (pin := pin_of(version)) is None else pin
                    snapshot = None if source.table is None or not at else source.table.snapshot(int(at))
                    size = "0" if pin == EMPTY else None
                    sizes.append(size if snapshot is None else snapshot.summary().get("total-files-size"))
        return None if None in sizes else sum(int(size or 0) for size in sizes)

    def _shape(self, query: Query, lineage: Lineage) -> _Understood | str:
        shape = self._shapes.get(lineage)
        if shape is None:
            session = self._spark.queries.session(query)
            try:
                with active_session(session):
                    shape = shape_of_query(session, numbered(pieces_of(lineage)))
            except SPARK_ERRORS:
                shape = "one of its relations cannot be replaced in the text"
            if not isinstance(shape, str):
                trees = _trees(session, lineage)
                stages, rows, first = _compiled(session, lineage, trees)
                scopes = combined_scopes(shape[0].scopes, read_scopes(trees))
                shape = (
                    replace(shape[0], stages=stages, rows=rows, first_rows=first, scopes=scopes),
                    shape[1],
                )
            self._shapes[lineage] = shape
        return shape

    def _change(
        self, lineage: Lineage, source: Source, old: str, new: str, read: frozenset[str] | None
    ) -> SourceChange:
        """Return the change of a source between two versions.

        *read* are the columns that the query reads, None for all.
        """
        if old == new:
            return SourceChange(kind=ChangeKind.NOTHING)
        if new == EMPTY:
            return _unknown(f"{source.name} was replaced by a table without rows")
        if old == EMPTY:
            return first_change(self._log(source.table, new, new), new)
        change = change_between(self._log(source.table, old, new), old, new)
        if (
            change.kind.changes_rows
            and change.base_live
            and relation_at(self._spark.driver.session, lineage, source, old) is None
        ):
            return _unknown(f"its columns in snapshot {old} are not known")
        if change.kind is ChangeKind.ROWS:
            change = self._row_change(change, source.table, old, new, read)
        return change

    def _row_change(
        self, change: SourceChange, table: Any, old: str, new: str, read: frozenset[str] | None
    ) -> SourceChange:
        """Return *change* with the row count and size of the files that differ between the two versions."""
        columns = iceberg_columns(self._spark.driver.session, table.schema())
        reason = next(
            (
                f"values of column {each.name} cannot be compared"
                for each in columns
                if (read is None or each.name in read) and not can_be_compared(each.type)
            ),
            None,
        )
        if reason is not None:
            return replace(change, kind=ChangeKind.UNKNOWN, rows=None, size=None, reason=reason)
        difference = files_between(self._spark.driver.session, table, old, new)
        kind = ChangeKind.ROWS if difference.files else ChangeKind.COMPACTION
        return replace(change, kind=kind, rows=difference.rows, size=difference.size)

    def _log(self, table: Any, old: str, new: str) -> dict[str, Commit]:
        """Return the commits from *new* back to *old*, including *old* if it has not expired."""
        to_json = static_member(self._spark.driver.session, f"{_PARSER}.toJson")
        log: dict[str, Commit] = {}
        current: str | None = new
        while current is not None and len(log) < MOST_COMMITS:
            snapshot = table.snapshot(int(current))
            if snapshot is None:
                break
            log[current] = _commit(json.loads(to_json(snapshot)))
            if current == old:
                return log
            current = log[current].parent_id
        base = table.snapshot(int(old))
        if base is not None:
            log[old] = _commit(json.loads(to_json(base)))
        return log


def _trees(session: SparkSession, lineage: Lineage) -> Sequence[Tree]:
    """Return the trees of a query in stages, or none if Spark cannot simplify its plan."""
    try:
        return StagedQuery.of_lineage(session, lineage).trees()
    except SPARK_ERRORS as error:
        log.info("a query has no stages: %s", translate(error), extra={"action": "stages_unknown"})
        return ()


def _compiled(
    session: SparkSession, lineage: Lineage, trees: Sequence[Tree]
) -> tuple[StagePlan | str, Blocks | str, tuple[Blocks, Limit] | None]:
    """Return the stages of a query and its rows as a block, or why it has none of either.

    The third item are the rows below a LIMIT, if it has one.
    """
    if not trees:
        return (why := "Spark cannot simplify its plan"), why, None
    sources = _sources_read(lineage)
    try:
        is_ansi = session.conf.get("spark.sql.ansi.enabled") == "true"
        stages = compile_stages(
            trees, sources=sources, version=session.version, obstacle=None if is_ansi else _WITHOUT_ANSI
        )
        if not isinstance(stages, str):
            stages = _obstacle_of_values(session, lineage, stages) or stages
        rows = compile_rows(trees, sources=sources)
        return stages, rows, compile_first_rows(trees, sources=sources)
    except (LookupError, TypeError, ValueError):
        # A plan of a form that the compiler has not seen must not stop refreshes that need no stages.
        log.exception("the stages of a query are not known", extra={"action": "stages_unknown"})
        return (why := "its plan has a form that is not known"), why, None


_WITHOUT_ANSI = "spark.sql.ansi.enabled is off, so that sums may overflow to NULL"


def _obstacle_of_values(session: SparkSession, lineage: Lineage, plan: StagePlan) -> str | None:
    """Return why the value of a scalar subquery cannot be kept, or None if all can."""
    query = StagedQuery.of_lineage(session, lineage)
    for value in plan.values:
        (column,) = query.columns(place_of(value.tree))
        if obstacle_of_key(sql_type(column.dataType)) is not None:
            return f"the value of a scalar subquery has type {sql_type(column.dataType)}"
    return None


def _commit(snapshot: Mapping[str, Any]) -> Commit:
    parent = snapshot.get("parent-snapshot-id")
    summary = dict(snapshot.get("summary") or {})
    return Commit(
        snapshot_id=str(snapshot["snapshot-id"]),
        parent_id=None if parent is None else str(parent),
        operation=str(summary.pop("operation", "")),
        summary=summary,
        at=datetime.fromtimestamp(snapshot["timestamp-ms"] / 1000, UTC)
        if "timestamp-ms" in snapshot
        else None,
    )


def _columns_read(shape: QueryShape, sources: Sequence[str], source: str) -> frozenset[str] | None:
    """Return the columns of a source that a query reads in all places, or None for all columns."""
    scopes = [shape.scopes.get(number) for number, name in enumerate(sources) if name == source]
    if None in scopes:
        return None
    return frozenset[str]().union(*(scope.columns for scope in scopes if scope is not None))


def _keys_of(shape: QueryShape, sources: Sequence[str], source: str) -> frozenset[str]:
    """Return the columns of a source by which the change of a state or of the rows is joined."""
    blocks = [] if isinstance(shape.stages, str) else shape.stages.blocks
    blocks += [] if isinstance(shape.rows, str) else [shape.rows]
    columns = (column for each in blocks for column in each.key_columns())
    return frozenset(each.column for each in columns if sources[each.reading] == source)


def _sources_read(lineage: Lineage) -> tuple[str, ...]:
    return tuple(reading.source for reading in readings(pieces_of(lineage)))


def _lasting_obstacle(lineage: Lineage) -> str | None:
    """Return why changes of the query's sources can never be applied, or None if they can."""
    if lineage.unstable:
        return _unstable(lineage.unstable)
    unversioned = [*(source.name for source in lineage.sources if source.table is None), *lineage.unnamed]
    if unversioned:
        return _unversioned(unversioned[0])
    moving = (
        each for each in lineage.sources if each.name in lineage.moving and not (each.travel or "").isdigit()
    )
    return lineage.unpinnable or next(map(not_plain_reason, moving), None)


def _unstable(reason: str) -> str:
    return f"the query is not stable: {reason}"


def _unversioned(source: str) -> str:
    return f"source {source} has no versions"


def _obstacle(since: SourceVector, vector: SourceVector) -> str | None:
    """Return why the changes between two vectors cannot be read, or None if they can."""
    if vector.unstable:
        return _unstable(vector.unstable)
    if vector.unpinnable or vector.unversioned:
        return vector.unpinnable or _unversioned(vector.unversioned[0])
    then = {each.name: each for each in since.sources}
    for each in vector.sources:
        before = then.pop(each.name, None)
        if before is None or before.kind != each.kind:
            return f"{each.name} is new"
        obstacle = _incomparable(each.name, before.version or {}, each.version or {})
        if obstacle is not None:
            return obstacle
    return f"{next(iter(then))} is no longer read" if then else None


def _incomparable(name: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Return why two versions of a source cannot be compared by their rows, or None if they can."""
    if "uuid" not in now:
        return None if then == now else f"{name} was replaced"
    if then.get("uuid") != now["uuid"]:
        return f"{name} was created again"
    # Without the hash of the columns read, the schema of the whole table decides.
    key = COLUMNS if COLUMNS in then and COLUMNS in now else SCHEMA
    if then.get(key) != now.get(key):
        return f"the query reads other columns of {name} than before"
    if pin_of(then) is None or pin_of(now) is None:
        return None if _at(then) == _at(now) else f"{name} is not a table at one version"
    return None


def _at(version: Mapping[str, Any]) -> Any:
    return version.get(PIN, version.get("snapshot"))


def _unknown(reason: str) -> SourceChange:
    return SourceChange(kind=ChangeKind.UNKNOWN, rows=None, size=None, base_live=False, reason=reason)
