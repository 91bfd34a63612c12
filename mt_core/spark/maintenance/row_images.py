"""Row images: the rows that one version of a source has and another has not, read from the files that differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any
from uuid import uuid4

from pyarrow import ChunkedArray, Table, array, compute, concat_tables, int64
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import any_value, array_repeat, col, explode, lit, map_entries
from pyspark.sql.functions import sum as total
from pyspark.sql.types import ArrayType, MapType, StructType

from mt_core.errors import SourcesChanged
from mt_core.identifiers import display_name, quote, sql_name
from mt_core.maintenance.delta import Images
from mt_core.spark.maintenance.file_difference import files_between
from mt_core.spark.maintenance.staged_files import staged
from mt_core.spark.queries.lineage import Lineage, Source, shape_of

MOST_LOCAL = 200_000
"""Rows of a change up to which the driver holds them."""
SMALL = 16 * 1024 * 1024
"""Bytes of files that differ up to which one task reads them."""
MOST_COMPARED = 1_000_000
"""Rows of such files up to which the driver compares them."""


@contextmanager
def source_images(session: SparkSession, lineage: Lineage, source: Source, old: str, new: str) -> Iterator[Images]:
    """Give the images of a source between two of its snapshots, as temporary views of the session."""
    with ExitStack() as stack:
        with lineage.lock:
            if shape_of(source.table) != lineage.shapes[source.name]:
                raise SourcesChanged(f"The columns of {display_name(source.parts)} have changed; run it again.")
            files = files_between(session, source.table, old, new)
            if isinstance(files, str):
                raise SourcesChanged(f"{display_name(source.parts)} cannot be compared: {files}; run it again.")
            before, after = (stack.enter_context(_rows_of(session, source, tasks)) for tasks in (files.old, files.new))
        copies = f"_copies_{uuid4().hex}"
        # Spark cannot plan a view over staged files: the views are of what is computed.
        rows = sum(task.estimatedRowsCount() for task in (*files.old, *files.new)) if is_small(files.size) else None
        net = difference(before, after, copies, small=is_small(files.size), most=rows)
        stack.close()
        with images_of(net, copies) as images:
            yield images


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


def difference(
    before: DataFrame, after: DataFrame, copies: str, *, small: bool = False, most: int | None = None
) -> Computed:
    """Return the rows of which two frames with the same columns have not as many, computed.

    Column *copies* has how many more the second one has. The frames are read once, before this returns. *small*: they may be few
    rows, which are compared here: Spark takes several times as long to group them as to read them. *most*: as many at most, None if
    that is not known.
    """
    signed = before.withColumn(copies, lit(-1)).unionAll(after.withColumn(copies, lit(1)))
    if small and not _has_nested(before) and (most is None or most <= MOST_COMPARED):
        # A limit takes all rows through one task: those of which the number is known are read by as many as there are cores.
        rows = (signed.coalesce(1).limit(MOST_COMPARED + 1) if most is None else signed).toArrow()
        if rows.num_rows <= MOST_COMPARED:
            found = net_of(rows, copies)
            net = before.sparkSession.createDataFrame(found, schema=signed.schema)
            if found.num_rows > MOST_LOCAL:
                return Computed(frame=net.localCheckpoint(), rows=None)
            # In one part, which need not be exchanged to be grouped.
            return Computed(frame=net.coalesce(1), rows=found)
    return kept(_grouped(signed.coalesce(1) if small else signed, copies))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """A frame of which the rows are computed; `rows` has them as well, None if they are many."""

    frame: DataFrame
    rows: Table | None

    def count(self) -> int:
        """Return the number of rows; those of a checkpoint are counted without reading a source."""
        return self.frame.count() if self.rows is None else self.rows.num_rows


@contextmanager
def images_of(net: Computed, copies: str) -> Iterator[Images]:
    """Give the rows of a `difference` as temporary views, as many of each as its column *copies* says."""
    removed, added = (repeated(net, copies, sign) for sign in (-1, 1))
    if net.rows is not None:
        # In one part, which need not be exchanged to be grouped.
        removed, added = removed.coalesce(1), added.coalesce(1)
    with ExitStack() as stack:
        yield Images(
            removed=stack.enter_context(temporary_view(removed)),
            added=stack.enter_context(temporary_view(added)),
            both=stack.enter_context(temporary_view(removed.unionAll(added))),
            few=net.rows is not None,
        )


def repeated(net: Computed, copies: str, sign: int) -> DataFrame:
    """Return the rows of a `difference` of which one side, by *sign*, has more, as many of each as its column *copies* says."""
    columns = [name for name in net.frame.columns if name != copies]
    if net.rows is None:
        many = explode(array_repeat(lit(0), (sign * col(copies)).cast("int")))
        return net.frame.withColumn(copies, many).select(*map(quote, columns))
    counts = compute.multiply(net.rows[copies], sign).to_pylist()
    places = [place for place, count in enumerate(counts) for _ in range(count)]
    return local(net.frame, net.rows.select(columns).take(array(places, int64())))


def local(like: DataFrame, rows: Table) -> DataFrame:
    """Return *rows*, which have columns of *like*, as a relation whose rows Spark has at hand."""
    return like.sparkSession.createDataFrame(rows, schema=like.select(*map(quote, rows.column_names)).schema)


def computed(frame: DataFrame) -> DataFrame:
    """Return *frame* with its rows computed; if they are few, as a relation whose size Spark knows, and so joins cheaply."""
    return kept(frame).frame


def kept(frame: DataFrame) -> Computed:
    """Return `computed(frame)` with its rows."""
    few = frame.limit(MOST_LOCAL + 1).toArrow()
    return Computed(frame=frame.localCheckpoint(), rows=None) if few.num_rows > MOST_LOCAL else at_hand(frame, few)


def at_hand(like: DataFrame, rows: Table) -> Computed:
    """Return *rows*, which have the columns of *like*, with their relation."""
    return Computed(frame=local(like, rows), rows=rows)


@contextmanager
def temporary_view(frame: DataFrame) -> Iterator[str]:
    """Give the name of a view of *frame* in its session, in SQL, that goes with the block."""
    name = f"_view_{uuid4().hex}"
    frame.createOrReplaceTempView(name)
    try:
        yield quote(name)
    finally:
        frame.sparkSession.catalog.dropTempView(name)
