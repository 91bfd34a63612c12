"""The partition values of appended files, read from the source's manifests without a Spark job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from pyspark.sql import SparkSession

from mt_core.incremental.changes import ChangeKind
from mt_core.spark.driver.jvm_objects import java_class, java_items
from mt_core.spark.iceberg.scan_tasks import planned_tasks
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.queries.source_versions import pins
from mt_core.tables.engine import Maintenance, SourceVector

MOST_FILES = 1000
"""The maximum number of appended files whose partitions are read."""
# The types that Spark and Python convert to the same text.
_TYPES = frozenset({"string", "int", "long", "date"})
_EPOCH = date(1970, 1, 1)


def values_in_manifests(
    session: SparkSession,
    lineage: Lineage,
    vector: SourceVector,
    maintenance: Maintenance,
    columns: Mapping[int, Sequence[str] | None],
) -> frozenset[tuple[str | None, ...]] | None:
    """Return the keys of changed rows from the sources' manifests, or None if manifests do not contain them.

    They do if rows were only appended to sources that are partitioned by the key. *columns* has the changed
    readings, with their columns of the key, or None if they have none. After an update, a rewritten file also
    has rows that have not changed.
    """
    changes, old, new = maintenance.changes, pins(maintenance.since), pins(vector)
    tables = {source.name: source.table for source in lineage.sources}
    distinct = set[tuple[str | None, ...]]()
    for number, names in columns.items():
        source = changes.readings[number]
        change = changes.changes[source]
        if names is None or change.kind is not ChangeKind.APPENDS or change.from_nothing:
            return None
        with lineage.lock:
            values = appended_values(session, tables[source], old[source], new[source], names)
        if values is None:
            return None
        distinct |= values
    return frozenset(distinct)


def appended_values(
    session: SparkSession, table: Any, old: str, new: str, columns: Sequence[str]
) -> frozenset[tuple[str | None, ...]] | None:
    """Return the distinct values of *columns*, as text, in rows appended after snapshot *old* up to *new*.

    Return None if an appended file is not identity-partitioned by all *columns*, if a column's type has no
    common text form in Spark and Python, or if there are more than `MOST_FILES` files.
    """
    schema = table.schema()
    fields = [
        field for name in columns for field in java_items(schema.columns()) if str(field.name()) == name
    ]
    if len(fields) != len(columns) or not {str(field.type()) for field in fields} <= _TYPES:
        return None
    appends = table.newIncrementalAppendScan().fromSnapshotExclusive(int(old)).toSnapshot(int(new))
    files = [task.file() for task in planned_tasks(session, appends)]
    if len(files) > MOST_FILES:
        return None
    whole, places = java_class(session, "java.lang.Object"), dict[int, list[int | None]]()
    distinct = set()
    for file in files:
        number = int(file.specId())
        if number not in places:
            spec = java_items(table.specs().get(number).fields())
            places[number] = [_place(spec, int(field.fieldId())) for field in fields]
        if None in places[number]:
            return None
        values = [file.partition().get(place, whole) for place in places[number]]
        distinct.add(
            tuple(_text(value, str(field.type())) for value, field in zip(values, fields, strict=True))
        )
    return frozenset(distinct)


def _place(spec: Sequence[Any], column: int) -> int | None:
    """Return the column's position in the partition tuple, or None if *spec* has no identity field for it."""
    for place, field in enumerate(spec):
        if int(field.sourceId()) == column and field.transform().isIdentity():
            return place
    return None


def _text(value: Any, of_type: str) -> str | None:
    if value is None:
        return None
    return (_EPOCH + timedelta(days=value)).isoformat() if of_type == "date" else str(value)
