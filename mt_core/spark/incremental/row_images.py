"""Row images: the rows that were removed from and added to a source between two versions.

The commit of an update, delete or merge does not record the rows that it changes. They are recovered from
the files that only one of the two versions has (`file_difference`). Rows of old files count -1, rows of new
files count +1, and the sum per distinct row is the net change. Rows that a rewrite only copied cancel out.
The invariant is that removing and adding rows as often as their net count turns one version into the other,
duplicates included. Two values are the same here if no query could distinguish them: 0.0 and -0.0 differ,
and maps are equal if they have the same entries in the same order. Small differences are computed in the
driver, larger ones in a Spark job, which uses a single task for up to `SMALL` bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import any_value, col, lit, map_entries, when
from pyspark.sql.functions import sum as total
from pyspark.sql.types import DataType, DoubleType, FloatType, MapType

from mt_core.base.identifiers import display_name, quote, sql_name
from mt_core.errors import SourcesChanged
from mt_core.incremental.delta import NamedImages, images_of, unused_name
from mt_core.spark.iceberg.computed_rows import MOST_LOCAL, ComputedRows, collect_or_checkpoint, no_rows
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.iceberg.jvm_rows import stored_schema
from mt_core.spark.iceberg.opened_files import OpenedFiles
from mt_core.spark.iceberg.scan_tasks import source_rows, staged
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.incremental.file_difference import FileDifference, files_between
from mt_core.spark.incremental.version_cache import VersionCache
from mt_core.spark.queries.lineage import Lineage, Source, shape_of

SMALL = 16 * 1024 * 1024
"""The maximum size, in bytes, of differing files that a single task reads."""
MOST_COMPARED = 1_000_000
"""The maximum number of rows in differing files that the driver compares."""
MOST_CACHED = 16 * 1024 * 1024
"""The maximum size, in bytes, of a difference that is cached for other tables that read the same source."""
COPIES = "_freshtable_copies"
"""The column with a row's net count: its copies in the later version minus its copies in the earlier one."""
_nets: VersionCache[ComputedRows] = VersionCache(4)


@dataclass(frozen=True, kw_only=True)
class ImageViews:
    """The row images of a source as SQL relations over `net`, the net change between two versions.

    The temporary view for them is created at first use and dropped when `stack` closes.
    """

    net: ComputedRows
    stack: ExitStack

    @cached_property
    def _images(self) -> NamedImages:
        return self.of(self.stack.enter_context(temporary_view(self.net.frame)))

    def of(self, relation: str) -> NamedImages:
        """Return the images as SQL over *relation*, which contains the rows of `net`."""
        return images_of(
            relation, [name for name in self.net.columns if name != COPIES], COPIES, few=self.few
        )

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


def changed_rows(session: SparkSession, lineage: Lineage, source: Source, old: str, new: str) -> ComputedRows:
    """Return the net change between two snapshots of a source, with the count of each row in column COPIES.

    Raises SourcesChanged if the columns changed or the snapshots cannot be compared.
    """
    with ExitStack() as stack:
        with lineage.lock:
            shape = shape_of(source.table)
            if shape != lineage.shapes[source.name]:
                raise SourcesChanged(
                    f"The columns of {display_name(source.parts)} have changed; run it again."
                )
            files = files_between(session, source.table, old, new)
            if isinstance(files, str):
                raise SourcesChanged(
                    f"{display_name(source.parts)} cannot be compared: {files}; run it again."
                )
            cached = _nets.of(session, shape, old, new)
            net = _compared(session, source.table, files) if cached is None else cached.within(session)
            if net is None:
                before, after = (
                    stack.enter_context(_rows_of(session, source, each)) for each in (files.old, files.new)
                )
        # Spark cannot plan a view over staged files, so compute the result while they are staged.
        if net is None:
            rows = signed(before, after)
            net = collect_or_checkpoint(net_rows(rows.coalesce(1) if is_small(files.extent.size) else rows))
    if net.few and net.size <= MOST_CACHED:
        _nets.store(net, session, shape, old, new)
    return net


def _compared(session: SparkSession, table: Any, files: FileDifference) -> ComputedRows | None:
    """Return the net change, computed in the driver, or None if a Spark job must read the files."""
    changed = _by_place(session, table, files)
    if changed is not None:
        return PLANS.run(
            session, None, "changed", lambda at: net_rows(session.table(at["changed"])), {"changed": changed}
        )
    if not files.extent.is_read_locally:
        return None
    none = no_rows(session, stored_schema(session, table))
    before, after = (
        source_rows(session, table, tasks) if tasks else none for tasks in (files.old, files.new)
    )
    return PLANS.run(
        session,
        None,
        "files",
        lambda at: net_rows(signed(session.table(at["before"]), session.table(at["after"]))),
        {"before": before, "after": after},
    )


def _by_place(session: SparkSession, table: Any, files: FileDifference) -> ComputedRows | None:
    """Return the net change by comparing files row by row, or None if a file cannot be read in order.

    This works for writers that preserve the order of rows in a rewritten file.
    """
    if not are_few(files.extent.size, files.extent.rows):
        return None
    before, after = (OpenedFiles.of(session, table, tasks) for tasks in (files.old, files.new))
    return None if before is None or after is None else before.difference_to(after, COPIES, MOST_LOCAL)


@contextmanager
def _rows_of(session: SparkSession, source: Source, tasks: Any) -> Iterator[DataFrame]:
    if not tasks:
        yield session.table(sql_name(source.parts)).limit(0)
        return
    with staged(session, source.table, tasks) as frame:
        yield frame.select(*map(quote, stored_schema(session, source.table).names))


def is_small(size: int | None) -> bool:
    """Return whether a single task reads files of *size* bytes; false if the size is unknown (None)."""
    return size is not None and size <= SMALL


def are_few(size: int | None, rows: int) -> bool:
    """Return whether the driver can buffer the rows. Even a small file may have very many rows."""
    return is_small(size) and rows <= MOST_COMPARED


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
