"""Facts of a source version, from metadata: its extent, and limits of the number of different values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import DateType, IntegerType, LongType, StructType

from mt_core.incremental.stages.look_ups import SourceFacts
from mt_core.model.storage import EMPTY
from mt_core.spark.driver.jvm_objects import text_map, texts
from mt_core.spark.iceberg.jvm_rows import stored_schema
from mt_core.spark.iceberg.scan_tasks import Extent, all_tasks, extent_of
from mt_core.spark.queries.lineage import Shape, shape_of
from mt_core.spark.readings.version_cache import VersionCache
from mt_core.spark.readings.version_files import value_spans

MOST_FILES = 10_000
"""The maximum number of files whose bounds are read."""
_facts: VersionCache[SourceFacts] = VersionCache(1000)
# For each table, the number of rows when its bounds were read, and the limits that these are for its columns:
# None for those without bounds.
_spans: VersionCache[tuple[int, Mapping[str, int | None]]] = VersionCache(1000)


def facts_of_source(
    session: SparkSession, table: Any, version: str, columns: Collection[str] = ()
) -> SourceFacts:
    """Return the facts of an Iceberg table at a snapshot, or at EMPTY. Starts no job.

    The number of rows includes rows that delete files delete. The numbers of different values are those of
    *columns*. They are read from the bounds of all files, once until the table has twice or half the rows.
    """
    shape = shape_of(table)
    facts = _facts.of(session, shape, version)
    if facts is None:
        extent, names = _extent(session, table, version), stored_schema(session, table).names
        keys = texts(session, table.schema().identifierFieldNames())
        facts = SourceFacts(
            rows=extent.rows,
            size=extent.size,
            files=extent.files,
            columns=len(names),
            values=dict.fromkeys(keys, extent.rows) if len(keys) == 1 else {},
        )
        _facts.store(facts, session, shape, version)
    if not columns or not 0 < facts.files <= MOST_FILES:
        return facts
    spans = _spans_of(session, table, shape, version, facts.rows, columns)
    known = {name: span for name, span in spans.items() if span is not None}
    return replace(facts, values={**known, **facts.values})


def _spans_of(
    session: SparkSession, table: Any, shape: Shape, version: str, rows: int, columns: Collection[str]
) -> Mapping[str, int | None]:
    """Return how many values are between the lowest and the highest one of columns with integers or dates."""
    before, spans = _spans.of(session, shape) or (rows, {})
    if not before / 2 <= rows <= before * 2:
        before, spans = rows, {}
    due = StructType(
        [
            each
            for each in stored_schema(session, table).fields
            if each.name in columns
            and each.name not in spans
            and isinstance(each.dataType, IntegerType | LongType | DateType)
        ]
    )
    if due.fields:
        read = value_spans(session, table, version, due)
        spans = {**spans, **{name: read.get(name) for name in due.names}}
        _spans.store((before, spans), session, shape)
    return spans


def _extent(session: SparkSession, table: Any, version: str) -> Extent:
    snapshot = None if version == EMPTY else table.snapshot(int(version))
    if snapshot is None:
        # A run that reads an expired snapshot fails, whatever its extent was.
        return Extent(files=0, size=0, rows=0)
    summary = text_map(session, snapshot.summary())
    counts = [summary.get(f"total-{what}") for what in ("data-files", "files-size", "records")]
    if None in counts:
        return extent_of(session, all_tasks(session, table, version))
    files, size, rows = (int(str(count)) for count in counts)
    return Extent(files=files, size=size, rows=rows)
