"""Row images: the rows that one version of a source has and another has not,
read from the files that differ.
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
from mt_core.incremental.delta import NamedImages, apart_from, images_of
from mt_core.spark.iceberg.computed_rows import MOST_LOCAL, Computed, kept, nothing
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.iceberg.jvm_rows import stored_schema
from mt_core.spark.iceberg.opened_files import OpenedFiles
from mt_core.spark.iceberg.scan_tasks import source_rows, staged
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.incremental.file_difference import FileDifference, files_between
from mt_core.spark.incremental.known_changes import Known
from mt_core.spark.queries.lineage import Lineage, Source, shape_of

SMALL = 16 * 1024 * 1024
"""Bytes of files that differ up to which one task reads them."""
MOST_COMPARED = 1_000_000
"""Rows of such files up to which the driver compares them."""
MOST_KEPT = 16 * 1024 * 1024
"""Bytes of a difference up to which it is kept for the other tables that read the source."""
COPIES = "_freshtable_copies"
"""The column with how many more copies of a row the later version has."""
_nets: Known[Computed] = Known(4)


@dataclass(frozen=True, kw_only=True)
class ImageViews:
    """Images of a source in `net`, the rows of which two versions have not as many.

    A view of them is made when it is asked for, and goes when `stack` closes.
    """

    net: Computed
    stack: ExitStack

    @cached_property
    def _images(self) -> NamedImages:
        return self.of(self.stack.enter_context(temporary_view(self.net.frame)))

    def of(self, relation: str) -> NamedImages:
        """Return the images in SQL, of the rows of `net` in *relation*."""
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


def changed_rows(session: SparkSession, lineage: Lineage, source: Source, old: str, new: str) -> Computed:
    """Return the rows of which two snapshots of a source have not as many;
    column COPIES has how many more the later one has.
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
            known = _nets.of(session, shape, old, new)
            net = _compared(session, source.table, files) if known is None else known.within(session)
            if net is None:
                before, after = (
                    stack.enter_context(_rows_of(session, source, each)) for each in (files.old, files.new)
                )
        # Spark cannot plan a view over staged files: what reads them is computed here.
        if net is None:
            rows = signed(before, after)
            net = kept(netted(rows.coalesce(1) if is_small(files.extent.size) else rows))
    if net.few and net.size <= MOST_KEPT:
        _nets.keep(net, session, shape, old, new)
    return net


def _compared(session: SparkSession, table: Any, files: FileDifference) -> Computed | None:
    """Return the rows of which files have not as many; None if a job is to read them."""
    changed = _by_place(session, table, files)
    if changed is not None:
        return PLANS.run(
            session, None, "changed", lambda at: netted(session.table(at["changed"])), {"changed": changed}
        )
    if not files.extent.is_read_here:
        return None
    none = nothing(session, stored_schema(session, table))
    before, after = (
        source_rows(session, table, tasks) if tasks else none for tasks in (files.old, files.new)
    )
    return PLANS.run(
        session,
        None,
        "files",
        lambda at: netted(signed(session.table(at["before"]), session.table(at["after"]))),
        {"before": before, "after": after},
    )


def _by_place(session: SparkSession, table: Any, files: FileDifference) -> Computed | None:
    """Return rows by which files differ whose writer has kept the order of rows;
    None if a file is not read so.
    """
    if not are_few(files.extent.size, files.extent.rows):
        return None
    before, after = (OpenedFiles.of(session, table, tasks) for tasks in (files.old, files.new))
    return None if before is None or after is None else before.changed_to(after, COPIES, MOST_LOCAL)


@contextmanager
def _rows_of(session: SparkSession, source: Source, tasks: Any) -> Iterator[DataFrame]:
    if not tasks:
        yield session.table(sql_name(source.parts)).limit(0)
        return
    with staged(session, source.table, tasks) as frame:
        yield frame.select(*map(quote, stored_schema(session, source.table).names))


def is_small(size: int | None) -> bool:
    """Return whether files of so many bytes, None if that is not known, are read by one task."""
    return size is not None and size <= SMALL


def are_few(size: int | None, rows: int) -> bool:
    """Return whether files of so many bytes have so few *rows* that this process holds them:
    many may be small.
    """
    return is_small(size) and rows <= MOST_COMPARED


def signed(before: DataFrame, after: DataFrame, copies: str = COPIES) -> DataFrame:
    """Return the rows of both frames, which have the same columns, with -1 in column *copies* in those
    of the first, else 1.
    """
    return before.withColumn(copies, lit(-1)).unionAll(after.withColumn(copies, lit(1)))


def netted(rows: DataFrame, copies: str = COPIES, *, signed_zeros: bool = True) -> DataFrame:
    """Return the sums of column *copies* by the other columns, where they are not 0.

    A map counts by its entries in their order.

    *signed_zeros*: zeros of both signs are different values, as a query may give others for them;
    in SQL they are equal.
    """
    keys, values, taken = list[Column](), list[Column](), list(rows.columns)
    for field in rows.schema.fields:
        value = col(quote(field.name))
        parts = [] if field.name == copies else _key_parts(field.dataType, value, signed_zeros)
        if len(parts) == 1 and parts[0] is value:
            keys.append(value)
        elif parts:
            for part in parts:
                taken.append(apart_from(copies, taken))
                keys.append(part.alias(taken[-1]))
            values.append(any_value(value).alias(field.name))
    net = rows.groupBy(*keys).agg(total(quote(copies)).cast("int").alias(copies), *values)
    return net.where(col(quote(copies)) != 0).select(*(quote(name) for name in rows.columns))


def _key_parts(type_: DataType, value: Column, signed_zeros: bool) -> list[Column]:
    """Return what two values of a type are compared by."""
    parts = [map_entries(value)] if isinstance(type_, MapType) else [value]
    if not signed_zeros or not _has_zeros(type_):
        return parts
    is_number = isinstance(type_, DoubleType | FloatType)
    return [*parts, when(value == 0, value.cast("string")) if is_number else value.cast("string")]


def _has_zeros(type_: DataType) -> bool:
    """Return whether values of a type may hold zeros of both signs."""
    return any(f'"{name}"' in type_.json() for name in ("double", "float"))
