"""Row images: the rows that were removed from and added to a source between two versions.

The commit of an update, delete or merge does not record the rows that it changes. They are recovered from
the files in which the two versions differ (`file_difference`). Rows of old files count -1, rows of new
files count +1, and the sum per distinct row is the net change. Rows that a rewrite only copied cancel out.
The invariant is that removing and adding rows as often as their net count turns one version into the other,
duplicates included. Two values are the same here if no query could distinguish them: 0.0 and -0.0 differ,
and maps are equal if they have the same entries in the same order.

The driver reads a difference of up to `MOST_READ_ROWS` rows and `MOST_READ_BYTES` itself: only the rows at
the positions whose deletion differs, and of rewritten files only the rows whose hashes do not cancel out (the
Java class `freshtable.files.ChangedRows`). Where row lineage identifies rows, it is hashed instead of the
columns. A Spark job reads larger differences.

Only the columns that a query reads are read and compared, so updates of other columns cancel out. Rows that
the driver has read are kept for the other tables that read the source. They therefore have all columns that
any table has asked for. If a table asks for a further column, the rows are read again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import (
    any_value,
    broadcast,
    col,
    lit,
    map_entries,
    shiftright,
    shiftrightunsigned,
    struct,
    to_json,
    when,
    xxhash64,
)
from pyspark.sql.functions import sum as total
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructType

from mt_core.base.identifiers import display_name, quote, sql_name
from mt_core.errors import SourcesChanged
from mt_core.incremental.delta import NamedImages, appended_images, images_of, unused_name
from mt_core.incremental.local_limits import MOST_LOCAL
from mt_core.spark.catalogs.columns import sql_type
from mt_core.spark.driver.jvm_objects import own_class
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.iceberg.jvm_rows import columns_of, java_type
from mt_core.spark.iceberg.scan_tasks import extent_of, planned_tasks, source_rows, staged
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.queries.lineage import Lineage, Shape, Source, shape_of
from mt_core.spark.readings.file_difference import FileDifference, files_between
from mt_core.spark.readings.kept_rows import KeptRows, projection

log = logging.getLogger(__name__)

MOST_READ_ROWS = 32_000_000
"""The maximum number of rows in differing files that the driver reads itself. It keeps 8 bytes of each."""
MOST_READ_BYTES = 512 * 1024 * 1024
"""The maximum size, in bytes, of differing files that the driver reads itself."""
FEWEST_LINEAGE = 10
"""The minimum number of columns of a comparison by row lineage. Fewer columns are read as fast themselves."""
MOST_CHECKED = 16 * 1024 * 1024
"""The maximum size, in bytes, of files whose changed rows are read before the strategy is chosen."""
COPIES = "_freshtable_copies"
"""The column with a row's net count: its copies in the later version minus its copies in the earlier one."""
BUCKET_BITS = 20
"""The binary logarithm of the number of buckets of row hashes in a Spark job."""
_EXACT_JSON = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
# Rows, also those that a run reads to choose its strategy and again to write.
_APPENDED, _NET = KeptRows(kind="appended"), KeptRows(kind="net")


@dataclass(frozen=True, kw_only=True)
class ImageViews:
    """The row images of a reading as SQL relations over `net`, the net change between two versions.

    If rows were `only_added`, `net` has no COPIES. The images have the columns of the table, `stored`.
    Those that are not in `read` are NULL. The temporary view for them is created at first use and dropped
    when `stack` closes.
    """

    net: ComputedRows
    stored: StructType
    read: Collection[str]
    stack: ExitStack
    only_added: bool = False

    @cached_property
    def _images(self) -> NamedImages:
        return self.of(self.stack.enter_context(temporary_view(self.net.frame)))

    def of(self, relation: str) -> NamedImages:
        """Return the images as SQL over *relation*, which contains the rows of `net`."""
        names, unread = self.stored.names, dict[str, str]()
        for each in self.stored.fields:
            if each.name not in self.read:
                unread[each.name] = sql_type(each.dataType)
        if self.only_added:
            return appended_images(relation, names, few=self.few, unread=unread)
        return images_of(relation, names, COPIES, few=self.few, unread=unread)

    @property
    def removed(self) -> str:
        return self._images.removed

    @property
    def added(self) -> str:
        return self._images.added

    @property
    def both(self) -> str:
        return self._images.both

    @property
    def few(self) -> bool:
        return self.net.few


def changed_rows(
    session: SparkSession, lineage: Lineage, source: Source, old: str, new: str, columns: Collection[str]
) -> ComputedRows:
    """Return the net change of *columns* between two snapshots of a source.

    Column COPIES has the count of each row. There may be further columns. Raises SourcesChanged if the
    columns of the table changed.
    """
    with ExitStack() as stack:
        with lineage.lock:
            shape, files = _difference(session, lineage, source, old, new)
            net = _read_here(session, source.table, shape, (old, new), files, columns)
            if net is None:
                own = projection(session, source.table, columns)
                before, after = (
                    stack.enter_context(_rows_of(session, source, each, own))
                    for each in (files.java.allBefore(), files.java.allAfter())
                )
        # Spark cannot plan a view over staged files, so compute the result while they are staged.
        if net is None:
            rows = signed(before, after)
            # Of a difference that the driver has read, more rows differ than it returns.
            net = collect_or_checkpoint(net_rows(rows if _is_read_locally(files) else _candidates(rows)))
            _NET.keep(net, session, shape, old, new)
    return net


def small_changed_rows(
    session: SparkSession, lineage: Lineage, source: Source, old: str, new: str, columns: Collection[str]
) -> ComputedRows | None:
    """Return the result of `changed_rows` if it is kept or a small difference; starts no job."""
    with lineage.lock:
        shape, files = _difference(session, lineage, source, old, new)
        kept = _NET.of(session, shape, columns, old, new)
        if kept is not None or files.size > MOST_CHECKED:
            return kept
        return _read_here(session, source.table, shape, (old, new), files, columns)


def appended_rows(
    session: SparkSession, lineage: Lineage, source: Source, old: str, new: str, columns: Collection[str]
) -> ComputedRows | None:
    """Return *columns* of the rows appended between two snapshots, or None if a job should read them.

    There may be further columns.
    """
    with lineage.lock:
        shape = shape_of(source.table)
        if shape != lineage.shapes[source.name]:
            return None
        kept = _APPENDED.of(session, shape, columns, old, new)
        if kept is not None:
            return kept
        scan = source.table.newIncrementalAppendScan().fromSnapshotExclusive(int(old)).toSnapshot(int(new))
        tasks = planned_tasks(session, scan)
        if not tasks or not extent_of(session, tasks).is_read_locally:
            return None
        asked = _APPENDED.columns_to_read(session, source.table, columns)
        given = source_rows(session, source.table, tasks, asked)
    appended = PLANS.run(session, None, "appended", lambda at: session.table(at["rows"]), {"rows": given})
    if appended is not None:
        _APPENDED.keep(appended, session, shape, old, new)
    return appended


def _difference(
    session: SparkSession, lineage: Lineage, source: Source, old: str, new: str
) -> tuple[Shape, FileDifference]:
    shape = shape_of(source.table)
    if shape != lineage.shapes[source.name]:
        raise SourcesChanged(f"The columns of {display_name(source.parts)} have changed; run it again.")
    return shape, files_between(session, source.table, old, new)


def _read_here(
    session: SparkSession,
    table: Any,
    shape: Shape,
    versions: tuple[str, str],
    files: FileDifference,
    columns: Collection[str],
) -> ComputedRows | None:
    """Return the net change if it is kept, or if the driver computes it; None if a job must."""
    kept = _NET.of(session, shape, columns, *versions)
    if kept is not None:
        return kept
    net = _compared(session, table, files, _NET.columns_to_read(session, table, columns))
    if net is not None:
        _NET.keep(net, session, shape, *versions)
    return net


def _compared(
    session: SparkSession, table: Any, files: FileDifference, asked: StructType
) -> ComputedRows | None:
    """Return the net change, computed in the driver, or None if a Spark job must read the files."""
    if not _is_read_locally(files):
        return None
    columns, lineage = java_type(session, asked), files.lineage
    if len(asked.fields) < FEWEST_LINEAGE:
        lineage = None
    rows = own_class(session, "freshtable.files.ChangedRows").of(
        session._jsparkSession, table, files.java, columns, columns, COPIES, MOST_LOCAL, lineage
    )
    writer = None if lineage is None else lineage.wrongWriter()
    if writer is not None:
        log.warning(
            "the row lineage of %s is wrong, and is not used: rows with the same lineage differ after %s",
            table.name(),
            writer,
            extra={"action": "row_lineage_wrong"},
        )
    if rows is None:
        return None
    changed = ComputedRows.of_java(session, columns_of(rows.columns()), rows)
    return PLANS.run(
        session, None, "changed", lambda at: net_rows(session.table(at["changed"])), {"changed": changed}
    )


def _is_read_locally(files: FileDifference) -> bool:
    return files.rows_read <= MOST_READ_ROWS and files.size <= MOST_READ_BYTES


def _candidates(rows: DataFrame) -> DataFrame:
    """Return a superset of the net change of *rows*, which have column COPIES.

    The hashes of the rows are added up by bucket, so that tasks exchange sums and not rows. Where the sums
    are 0, all rows cancel out. If more than `MOST_LOCAL` buckets remain, many rows are in them, and all are
    returned.
    """
    taken = list(rows.columns)
    for _ in range(3):
        taken.append(unused_name("_freshtable_hash", taken))
    bucket, high, low = taken[-3:]
    hash_ = _row_hash(rows.drop(COPIES))
    # Two sums, because the sum of 64-bit numbers may overflow.
    sums = (
        rows.select(
            shiftrightunsigned(hash_, 64 - BUCKET_BITS).alias(bucket),
            (shiftright(hash_, 32) * col(COPIES)).alias(high),
            (hash_.bitwiseAND(lit(0xFFFFFFFF)) * col(COPIES)).alias(low),
        )
        .groupBy(bucket)
        .agg(total(high).alias(high), total(low).alias(low))
        .where((col(high) != 0) | (col(low) != 0))
    )
    buckets = collect_or_checkpoint(sums.select(bucket))
    if not buckets.few:
        return rows
    hashed = rows.withColumn(bucket, shiftrightunsigned(hash_, 64 - BUCKET_BITS))
    return hashed.join(broadcast(buckets.frame), bucket, "left_semi").drop(bucket)


def _row_hash(rows: DataFrame) -> Column:
    """Return a 64-bit hash of the rows that tells apart what `net_rows` tells apart."""
    parts = list[Column]()
    for field in rows.schema.fields:
        value = col(quote(field.name))
        parts.append(value.isNull())
        if isinstance(field.dataType, MapType | ArrayType | StructType):
            # Spark's hash ignores NULL inside of values.
            nested = struct(map_entries(value) if isinstance(field.dataType, MapType) else value)
            parts.append(to_json(nested, dict(_EXACT_JSON)))
        else:
            parts += _key_parts(field.dataType, value, signed_zeros=True)
    return xxhash64(*parts)


@contextmanager
def _rows_of(session: SparkSession, source: Source, tasks: Any, columns: StructType) -> Iterator[DataFrame]:
    names = [quote(name) for name in columns.names]
    if not tasks:
        yield session.table(sql_name(source.parts)).limit(0).select(*names)
        return
    with staged(session, source.table, tasks) as frame:
        yield frame.select(*names)


def signed(before: DataFrame, after: DataFrame, copies: str = COPIES) -> DataFrame:
    """Return the union of two frames with the same columns.

    *copies* is -1 in rows of *before* and 1 in rows of *after*.
    """
    return before.withColumn(copies, lit(-1)).unionAll(after.withColumn(copies, lit(1)))


def net_rows(rows: DataFrame, copies: str = COPIES, *, signed_zeros: bool = True) -> DataFrame:
    """Return the distinct rows with the sum of column *copies*, without rows whose sum is 0.

    Maps are compared by their entries in order. With *signed_zeros*, 0.0 and -0.0 are different values,
    because a query can distinguish them. SQL equality does not.
    """
    keys, values, taken = list[Column](), list[Column](), list(rows.columns)
    for field in rows.schema.fields:
        value = col(quote(field.name))
        parts = [] if field.name == copies else _key_parts(field.dataType, value, signed_zeros)
        if len(parts) == 1 and parts[0] is value:
            keys.append(value)
        elif parts:
            for part in parts:
                taken.append(unused_name(copies, taken))
                keys.append(part.alias(taken[-1]))
            values.append(any_value(value).alias(field.name))
    net = rows.groupBy(*keys).agg(total(quote(copies)).cast("int").alias(copies), *values)
    return net.where(col(quote(copies)) != 0).select(*(quote(name) for name in rows.columns))


def _key_parts(type_: DataType, value: Column, signed_zeros: bool) -> list[Column]:
    """Return the expressions that group values of a type."""
    parts = [map_entries(value)] if isinstance(type_, MapType) else [value]
    if not signed_zeros or not _has_zeros(type_):
        return parts
    is_number = isinstance(type_, DoubleType | FloatType)
    return [*parts, when(value == 0, value.cast("string")) if is_number else value.cast("string")]


def _has_zeros(type_: DataType) -> bool:
    """Return whether values of a type can contain signed zeros."""
    return any(f'"{name}"' in type_.json() for name in ("double", "float"))
