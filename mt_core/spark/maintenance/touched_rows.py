"""Touched rows: those of a table that have one of some values, with the places where its files hold them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyarrow import ChunkedArray, Table, array, compute, int32, int64, repeat, string, types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, row_number
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType
from pyspark.sql.window import Window

from mt_core.identifiers import quote
from mt_core.maintenance.delta import same
from mt_core.spark.driver.jvm_objects import static_member
from mt_core.spark.maintenance.bounds import Bound, bounds_of, condition_of
from mt_core.spark.maintenance.computed_rows import MOST_LOCAL, Computed, at_hand, kept
from mt_core.spark.maintenance.jvm_rows import arrow_schema
from mt_core.spark.maintenance.manifests import has_few_manifests, this_thread
from mt_core.spark.maintenance.opened_files import (
    FILE,
    POSITION,
    OpenedFiles,
    is_partitioned,
    stored_schema,
)
from mt_core.spark.maintenance.row_images import are_few
from mt_core.spark.maintenance.staged_files import planned_tasks, staged

SPEC = "_spec_id"
PLACE = (FILE, POSITION, SPEC, "_partition")
_PLACED = (StructField(FILE, StringType()), StructField(POSITION, LongType()), StructField(SPEC, IntegerType()))
MOST_READ = 4_000_000
"""Rows in the pages that may have the values, up to which the process reads them: a job does it on all of Spark's cores."""
# Types, by the start of their texts, of which values that Arrow finds equal are those that Spark does.
_EXACT = ("tinyint", "smallint", "int", "bigint", "decimal", "date", "string", "boolean", "timestamp", "binary")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The values *rows* in columns *keys*, each once; `copies` is the column with how many rows with them are wanted, None: all.

    `single`: no two rows of the table have the same values.
    """

    rows: Computed
    keys: tuple[str, ...]
    copies: str | None = None
    single: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAt:
    """An Iceberg table at a snapshot."""

    table: Any
    snapshot: str


def touched_rows(session: SparkSession, at: TableAt, columns: Sequence[str], wanted: Wanted) -> Computed:
    """Return the rows of a table with values that are *wanted*: their *columns* and, but for partitions it has not, their PLACE.

    Only files are read whose bounds allow for such values. Rows within the bounds are looked up here if they are few, which spares
    Spark the exchanges of a join and of a window.
    """
    nothing = wanted.rows.rows is not None and not wanted.rows.rows.num_rows
    schema = at.table.schema()
    bounds = [] if nothing else [bound for bound in bounds_of(wanted.rows, wanted.keys) if bound.fits(schema)]
    tasks = [] if nothing else _tasks(session, at, bounds)
    files = tasks or planned_tasks(session, at.table.newScan().useSnapshot(int(at.snapshot)))[:1]
    if not files:
        return kept(wanted.rows.frame.limit(0))
    here = found_here(session, at.table, tasks, columns, wanted) if tasks else None
    if here is not None:
        return here
    with staged(session, at.table, files) as frame:
        place = PLACE if frame.select("_partition").schema[0].dataType.fields else PLACE[:-1]  # type: ignore[attr-defined]
        rows = frame.select(*(col(quote(name)).alias(name) for name in columns), *place)
        if not tasks:
            return at_hand(rows, rows.limit(0).toArrow())
        if wanted.rows.rows is not None and _comparable(rows.schema, wanted):
            few = are_few(sum(task.sizeBytes() for task in tasks), tasks)
            near = rows.alias("q").where(condition_of(bounds))
            found = (near.coalesce(1) if few else near).limit(MOST_LOCAL + 1)
            held = found.toArrow() if few or _are_chosen(at, tasks) else None
            if held is not None and held.num_rows <= MOST_LOCAL:
                return at_hand(rows, found_in(held, wanted.rows.rows, wanted.keys, wanted.copies))
        # Iceberg has left out what it can; with the bounds in it, the code of the join would be compiled anew each time.
        joined = _joined(rows, wanted)
        # A limit takes the rows through one more exchange.
        return at_hand(joined, joined.toArrow()) if wanted.single and wanted.rows.rows is not None else kept(joined)


def _tasks(session: SparkSession, at: TableAt, bounds: Sequence[Bound]) -> list[Any]:
    scan = at.table.newScan().useSnapshot(int(at.snapshot)).caseSensitive(False)
    if has_few_manifests(session, at.table.snapshot(int(at.snapshot))):
        scan = scan.planWith(this_thread(session))
    expressions = static_member(session, "org.apache.iceberg.expressions.Expressions")
    for bound in bounds:
        scan = scan.filter(bound.expression(expressions))
    return planned_tasks(session, scan)


def _are_chosen(at: TableAt, tasks: Sequence[Any]) -> bool:
    """Return whether bounds leave so much of the table out that few rows can be expected within them."""
    total = int(at.table.snapshot(int(at.snapshot)).summary().get("total-records") or 0)
    return sum(int(task.file().recordCount()) for task in tasks) * 2 <= total


def found_here(
    session: SparkSession, table: Any, tasks: Sequence[Any], columns: Sequence[str], wanted: Wanted
) -> Computed | None:
    """Return what `touched_rows` does of the files of *tasks* without a job; None if that takes one."""
    if wanted.rows.rows is None or is_partitioned(table):
        return None
    stored = {field.name.lower(): field for field in stored_schema(session, table).fields}
    first = [*wanted.keys, *(name for name in columns if name not in wanted.keys)]
    given = StructType([StructField(name, stored[name.lower()].dataType) for name in first])
    files = OpenedFiles.of(session, table, tasks) if _comparable(given, wanted) else None
    found = None if files is None else files.found(given, wanted.rows.rows.select(list(wanted.keys)), MOST_READ)
    if found is None:
        return None
    rows = found_in(found.rows, wanted.rows.rows, wanted.keys, wanted.copies)
    names, number = array([task.file().location() for task in tasks], string()), found.schema.names.index(FILE)
    rows = rows.set_column(number, FILE, names.take(rows[FILE].combine_chunks()))
    rows = rows.append_column(SPEC, repeat(int(table.spec().specId()), rows.num_rows).cast(int32()))
    schema = StructType([*given.fields, *_PLACED])
    return Computed(session=session, schema=schema, rows=rows.cast(arrow_schema(session, schema))).select(
        [*columns, *PLACE[:-1]]
    )


def _comparable(found: StructType, wanted: Wanted) -> bool:
    given, values = (
        {field.name: field.dataType.simpleString() for field in each.fields} for each in (found, wanted.rows.schema)
    )
    return all(given[key] == values[key] and given[key].startswith(_EXACT) for key in wanted.keys)


def found_in(rows: Table, values: Table, keys: Sequence[str], copies: str | None) -> Table:
    """Return the rows whose *keys* are those of a row of *values*; only as many of each as that has in column *copies*."""
    for key in keys:
        rows = rows.filter(compute.is_in(rows[key], value_set=values[key].combine_chunks()))
    if len(keys) == 1 and copies is None:
        return rows
    many = values[copies].to_pylist() if copies is not None else [rows.num_rows] * values.num_rows
    left = dict(zip(_tuples(values, keys), many, strict=True))
    places = []
    for place, value in enumerate(_tuples(rows, keys)):
        if left.get(value, 0) > 0:
            left[value] -= 1
            places.append(place)
    return rows.take(array(places, int64()))


def _tuples(rows: Table, keys: Sequence[str]) -> Iterator[tuple[object, ...]]:
    return zip(*(_exact(rows[key]).to_pylist() for key in keys), strict=True)


def _exact(column: ChunkedArray) -> ChunkedArray:
    """Return *column* with instants as numbers: Python finds two of the hour that the clocks are turned back equal."""
    return column.cast(int64()) if types.is_timestamp(column.type) else column


def _joined(rows: DataFrame, wanted: Wanted) -> DataFrame:
    """Return what `found_in` does, by Spark."""
    columns = [f"q.{quote(name)}" for name in rows.columns]
    matches = expr(" AND ".join(_same(wanted, key) for key in wanted.keys))
    values = wanted.rows.frame.alias("k")
    if wanted.copies is None:
        return rows.alias("q").join(values, matches, "left_semi").select(*columns)
    number = f"_number_{wanted.copies}"
    order = Window.partitionBy(*(f"q.{quote(key)}" for key in wanted.keys)).orderBy("q._file", "q._pos")
    numbered = (
        rows.alias("q")
        .join(values, matches)
        .select(*columns, f"k.{quote(wanted.copies)}", row_number().over(order).alias(number))
    )
    return numbered.where(col(number) <= col(wanted.copies)).drop(number, wanted.copies)


def _same(wanted: Wanted, key: str) -> str:
    """Return the condition of a join that finds the values of a key; Spark looks numbers up in half the time where none is NULL."""
    if wanted.rows.rows is None or wanted.rows.rows[key].null_count:
        return same("q", [key])
    return f"q.{quote(key)} = k.{quote(key)}"
