"""Row images: the rows that one version of a source has and another has not, read from the files that differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any
from uuid import uuid4

from pyarrow import ChunkedArray, Table, array, compute, concat_tables, int32, int64, repeat
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import any_value, array_repeat, col, explode, lit, map_entries
from pyspark.sql.functions import sum as total
from pyspark.sql.types import ArrayType, IntegerType, MapType, StructField, StructType

from mt_core.errors import SourcesChanged
from mt_core.identifiers import display_name, quote, sql_name
from mt_core.spark.maintenance.computed_rows import MOST_LOCAL, Computed, at_hand, kept, local
from mt_core.spark.maintenance.file_difference import FileDifference, files_between
from mt_core.spark.maintenance.jvm_rows import arrow_schema, local_rows
from mt_core.spark.maintenance.known_changes import Known
from mt_core.spark.maintenance.opened_files import OpenedFiles
from mt_core.spark.maintenance.staged_files import staged
from mt_core.spark.queries.lineage import Lineage, Source, shape_of

SMALL = 16 * 1024 * 1024
"""Bytes of files that differ up to which one task reads them."""
MOST_COMPARED = 1_000_000
"""Rows of such files up to which the driver compares them."""
MOST_KEPT = 16 * 1024 * 1024
"""Bytes of a difference up to which it is kept for the other tables that read the source."""
# The column with how many more copies of a row the newer version has.
_COPIES = f"_copies_{uuid4().hex}"
_nets: Known[tuple[StructType, Table]] = Known(4)


@contextmanager
def source_images(
    session: SparkSession, lineage: Lineage, source: Source, old: str, new: str, *, grouped: bool = True
) -> Iterator[ImageViews]:
    """Give the images of a source between two of its snapshots, as temporary views of the session."""
    with ExitStack() as stack:
        with lineage.lock:
            shape = shape_of(source.table)
            if shape != lineage.shapes[source.name]:
                raise SourcesChanged(f"The columns of {display_name(source.parts)} have changed; run it again.")
            files = files_between(session, source.table, old, new)
            if isinstance(files, str):
                raise SourcesChanged(f"{display_name(source.parts)} cannot be compared: {files}; run it again.")
            known = _nets.of(session, shape, old, new)
            net = _compared(session, source.table, files) if known is None else _computed(session, *known)
            if net is None:
                before, after = (
                    stack.enter_context(_rows_of(session, source, each)) for each in (files.old, files.new)
                )
        # Spark cannot plan a view over staged files: the views are of what is computed.
        if net is None:
            rows = sum(task.estimatedRowsCount() for task in (*files.old, *files.new)) if is_small(files.size) else None
            net = difference(before, after, _COPIES, small=is_small(files.size), most=rows)
        if net.rows is not None and net.rows.nbytes <= MOST_KEPT:
            _nets.keep((net.schema, net.rows), session, shape, old, new)
    with images_of(net, _COPIES, grouped=grouped) as images:
        yield images


def _compared(session: SparkSession, table: Any, files: FileDifference) -> Computed | None:
    """Return what `difference` does of the rows of files, in this process; None if a job is to read them."""
    if not are_few(files.size, (*files.old, *files.new)):
        return None
    before, after = (OpenedFiles.of(session, table, tasks) for tasks in (files.old, files.new))
    changed = None if before is None or after is None else before.changed_to(after, _COPIES, MOST_LOCAL)
    return None if changed is None else _computed(session, changed.schema, net_of(changed.rows, _COPIES))


def _computed(session: SparkSession, schema: StructType, rows: Table) -> Computed:
    return Computed(session=session, schema=schema, rows=rows)


@contextmanager
def _rows_of(session: SparkSession, source: Source, tasks: Sequence[Any]) -> Iterator[DataFrame]:
    if not tasks:
        yield session.table(sql_name(source.parts)).limit(0)
        return
    with staged(session, source.table, tasks) as frame:
        yield frame


def is_small(size: int | None) -> bool:
    """Return whether files of so many bytes, None if that is not known, are read by one task."""
    return size is not None and size <= SMALL


def are_few(size: int | None, tasks: Iterable[Any]) -> bool:
    """Return whether the files of *tasks*, of so many bytes, have so few rows that this process holds them: many may be small."""
    return is_small(size) and sum(int(task.file().recordCount()) for task in tasks) <= MOST_COMPARED


def difference(
    before: DataFrame, after: DataFrame, copies: str, *, small: bool = False, most: int | None = None
) -> Computed:
    """Return the rows of which two frames with the same columns have not as many, computed.

    Column *copies* has how many more the second one has. The frames are read once, before this returns. *small*: they may be few
    rows, which are compared here: Spark takes several times as long to group them as to read them. *most*: as many at most, None if
    that is not known.
    """
    sides = [local_rows(side) for side in (before, after)] if small and not _has_nested(before) else []
    if sides and None not in sides:
        session, schema = before.sparkSession, StructType([*before.schema.fields, StructField(copies, IntegerType())])
        given = (_signed(side, sign, copies) for side, sign in zip(sides, (-1, 1), strict=True))
        rows = concat_tables([side.cast(arrow_schema(session, schema)) for side in given])
        return Computed(session=session, schema=schema, rows=net_of(rows, copies))
    signed = before.withColumn(copies, lit(-1)).unionAll(after.withColumn(copies, lit(1)))
    if small and not _has_nested(before) and (most is None or most <= MOST_COMPARED):
        # A limit takes all rows through one task: those of which the number is known are read by as many as there are cores.
        rows = (signed.coalesce(1).limit(MOST_COMPARED + 1) if most is None else signed).toArrow()
        if rows.num_rows <= MOST_COMPARED:
            net = at_hand(signed, net_of(rows, copies))
            return net if net.count() <= MOST_LOCAL else Computed.many(net.frame.localCheckpoint())
    return kept(_grouped(signed.coalesce(1) if small else signed, copies))


def _signed(rows: Table, sign: int, copies: str) -> Table:
    """Return *rows* with *sign* in column *copies*."""
    return rows.append_column(copies, repeat(sign, rows.num_rows).cast(int32()))


def _grouped(signed: DataFrame, copies: str) -> DataFrame:
    """Return what `net_of` does, by Spark; a map counts by its entries in their order, which is seen in its list of keys."""
    maps = [field.name for field in signed.schema.fields if isinstance(field.dataType, MapType)]
    keys = [col(quote(name)) for name in signed.columns if name not in (copies, *maps)]
    entries = [map_entries(quote(name)).alias(f"{copies}_{number}") for number, name in enumerate(maps)]
    values = (any_value(quote(name)).alias(name) for name in maps)
    net = signed.groupBy(*keys, *entries).agg(total(copies).alias(copies), *values)
    return net.where(col(copies) != 0).select(*(quote(name) for name in signed.columns))


def net_of(rows: Table, copies: str) -> Table:
    """Return the sums of column *copies*, -1 in old rows and 1 in new ones, by the other columns, where they are not 0."""
    names = [name for name in rows.column_names if name != copies]
    before, after = (rows.filter(compute.equal(rows[copies], sign)) for sign in (-1, 1))
    if before.num_rows == after.num_rows:
        # Most writers keep the order of the rows that they copy: all but those that changed stand in the same place.
        changed = reduce(compute.or_, (_differ(before[name], after[name]) for name in names))
        rows = concat_tables([before.filter(changed), after.filter(changed)])
    net = rows.group_by(names).aggregate([(copies, "sum")])
    sums = net[f"{copies}_sum"]
    net = net.select(names).append_column(copies, sums.cast("int32"))
    return net.filter(compute.not_equal(sums, 0))


def _differ(one: ChunkedArray, other: ChunkedArray) -> ChunkedArray:
    unequal = compute.fill_null(compute.not_equal(one, other), False)
    return compute.or_(unequal, compute.xor(compute.is_null(one), compute.is_null(other)))


def _has_nested(frame: DataFrame) -> bool:
    """Return whether Arrow cannot group by a column."""
    return any(isinstance(field.dataType, StructType | ArrayType | MapType) for field in frame.schema.fields)


@dataclass(frozen=True, kw_only=True)
class ImageViews:
    """The rows of a `difference` as temporary views, as many of each as its column `copies` says.

    A view is made when it is asked for, and goes when `stack` closes. `grouped`: the rows are going to be; else Spark projects and
    filters those at hand while it plans.
    """

    net: Computed
    copies: str
    grouped: bool
    stack: ExitStack

    @cached_property
    def removed(self) -> str:
        return self._view(self._rows(-1))

    @cached_property
    def added(self) -> str:
        return self._view(self._rows(1))

    @cached_property
    def both(self) -> str:
        return self._view(self._rows(-1).unionAll(self._rows(1)))

    @property
    def few(self) -> bool:
        return self.net.rows is not None and self.grouped

    @property
    def schema(self) -> StructType:
        """The columns of the source."""
        return StructType([field for field in self.net.schema.fields if field.name != self.copies])

    def sides(self) -> tuple[Table, Table] | None:
        """Return the rows that only the older version has, and those that only the newer one has; None if they are not at hand."""
        if self.net.rows is None:
            return None
        names = self.schema.names
        removed, added = (as_many(self.net.rows, self.copies, sign).select(names) for sign in (-1, 1))
        return removed, added

    def _rows(self, sign: int) -> DataFrame:
        rows = repeated(self.net, self.copies, sign)
        # In one part, which need not be exchanged to be grouped.
        return rows.coalesce(1) if self.few else rows

    def _view(self, rows: DataFrame) -> str:
        return self.stack.enter_context(temporary_view(rows))


@contextmanager
def images_of(net: Computed, copies: str, *, grouped: bool = True) -> Iterator[ImageViews]:
    """Give the views of a `difference`."""
    with ExitStack() as stack:
        yield ImageViews(net=net, copies=copies, grouped=grouped, stack=stack)


def repeated(net: Computed, copies: str, sign: int) -> DataFrame:
    """Return the rows of a `difference` of which one side, by *sign*, has more, as many of each as its column *copies* says."""
    columns = [name for name in net.columns if name != copies]
    if net.rows is None:
        many = explode(array_repeat(lit(0), (sign * col(copies)).cast("int")))
        return net.frame.withColumn(copies, many).select(*map(quote, columns))
    return local(net, as_many(net.rows, copies, sign).select(columns))


def as_many(rows: Table, copies: str, sign: int) -> Table:
    """Return the rows whose column *copies* has *sign*, as many of each as it says, in their order."""
    some = rows.filter(compute.greater(compute.multiply(rows[copies], sign), 0))
    counts = compute.abs(some[copies])
    if compute.max(counts).as_py() in (None, 1):
        return some
    places = [place for place, count in enumerate(counts.to_pylist()) for _ in range(count)]
    return some.take(array(places, int64()))


@contextmanager
def temporary_view(frame: DataFrame) -> Iterator[str]:
    """Give the name of a view of *frame* in its session, in SQL, that goes with the block."""
    name = f"_view_{uuid4().hex}"
    frame.createOrReplaceTempView(name)
    try:
        yield quote(name)
    finally:
        frame.sparkSession.catalog.dropTempView(name)
