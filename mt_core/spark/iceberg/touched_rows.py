"""Touched rows: those of a table that have one of some values, with the places where its files hold them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, lit, row_number
from pyspark.sql.types import StringType, StructField, StructType
from pyspark.sql.window import Window

from mt_core.base.identifiers import quote
from mt_core.incremental.delta import apart_from, same
from mt_core.spark.driver.jvm_objects import own_class
from mt_core.spark.iceberg.bounds import Bound, bounds_of
from mt_core.spark.iceberg.computed_rows import Computed, at_hand, kept, nothing
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.iceberg.jvm_rows import stored_schema
from mt_core.spark.iceberg.opened_files import (
    FILE,
    POSITION,
    OpenedFiles,
    is_partitioned,
)
from mt_core.spark.iceberg.scan_tasks import SCAN_TASKS, SourceRows, extent_of, source_rows, staged

SPEC = "_spec_id"
PLACE = (FILE, POSITION, SPEC, "_partition")
MOST_READ = 4_000_000
"""Rows in the pages that may have the values, up to which the process reads them:
a job does it on all of Spark's cores.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The values *rows* in columns *keys*, each once; `copies` is the column with how many rows
    with them are wanted, None: all.

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


def all_rows(session: SparkSession, at: TableAt) -> SourceRows | Computed | None:
    """Return the rows of a table; None if they are more than one thread reads."""
    tasks = _tasks(session, at, [])
    if not extent_of(session, tasks).is_read_here:
        return None
    return (
        source_rows(session, at.table, tasks) if tasks else nothing(session, stored_schema(session, at.table))
    )


def touched_rows(session: SparkSession, at: TableAt, columns: Sequence[str], wanted: Wanted) -> Computed:
    """Return the rows of a table with values that are *wanted*: their *columns* and,
    but for partitions it has not, their PLACE.

    Where there are none, they have the columns of the values, *columns* among them.

    Only files are read whose bounds allow for such values. Rows within the bounds are looked up here
    if they are few, which spares Spark the exchanges of a join and of a window.
    """
    none = wanted.rows.few and not wanted.rows.count()
    tasks = None if none else _tasks(session, at, bounds_of(wanted.rows, wanted.keys))
    if not tasks:
        return nothing(session, wanted.rows.schema)
    here = found_here(session, at.table, tasks, columns, wanted)
    if here is not None:
        return here
    with staged(session, at.table, tasks) as frame:
        partition = frame.select("_partition").schema[0].dataType
        place = PLACE if partition.fields else PLACE[:-1]  # type: ignore[attr-defined]
        rows = frame.select(*(col(quote(name)).alias(name) for name in columns), *place)
        # Iceberg has left out what it can; with the bounds in it, the code of the join would be compiled
        # anew each time.
        joined = chosen(rows, wanted.rows.frame, wanted)
        # A limit takes the rows through one more exchange.
        return at_hand(joined, joined.toArrow()) if wanted.single and wanted.rows.few else kept(joined)


def _tasks(session: SparkSession, at: TableAt, bounds: Sequence[Bound]) -> Any:
    """Return the tasks that read rows within *bounds*, as a list of the JVM."""
    given = json.dumps([bound.in_iceberg() for bound in bounds])
    return own_class(session, SCAN_TASKS).within(at.table, int(at.snapshot), given)


def found_here(
    session: SparkSession, table: Any, tasks: Any, columns: Sequence[str], wanted: Wanted
) -> Computed | None:
    """Return what `touched_rows` does of the files of *tasks* without a job; None if that takes one."""
    if wanted.rows.java is None:
        return None
    rows = _looked_up(session, table, tasks, columns, wanted) or _read(session, table, tasks, columns)
    if rows is None:
        return None
    spec, purpose = int(table.spec().specId()), repr(("touched", columns, wanted.keys, wanted.copies))

    def touched(at: Mapping[str, str]) -> DataFrame:
        found = session.table(at["rows"])
        placed = found if SPEC in found.columns else found.withColumn(SPEC, lit(spec))
        place = [
            name
            for name in PLACE
            if name in placed.columns and placed.schema[name].dataType != StructType([])
        ]
        return chosen(placed, session.table(at["wanted"]), wanted).select(*map(quote, columns), *place)

    return PLANS.run(session, None, f"{purpose} {spec}", touched, {"rows": rows, "wanted": wanted.rows})


def _looked_up(
    session: SparkSession, table: Any, tasks: Any, columns: Sequence[str], wanted: Wanted
) -> Computed | None:
    """Return rows, those with the wanted values among them, with FILE and POSITION;
    None if they are not found by page indexes.
    """
    if is_partitioned(table):
        return None
    stored = {field.name.lower(): field for field in stored_schema(session, table).fields}
    first = [*wanted.keys, *(name for name in columns if name not in wanted.keys)]
    given = StructType([StructField(name, stored[name.lower()].dataType) for name in first])
    if any(given[key].dataType != wanted.rows.schema[key].dataType for key in wanted.keys):
        return None
    files = OpenedFiles.of(session, table, tasks)
    return None if files is None else files.found(given, wanted.rows.select(wanted.keys), MOST_READ)


def _read(session: SparkSession, table: Any, tasks: Any, columns: Sequence[str]) -> SourceRows | None:
    """Return the rows of *tasks* with their PLACE; None if they are many."""
    if not extent_of(session, tasks).is_read_here:
        return None
    stored = {field.name.lower(): field for field in stored_schema(session, table).fields}
    place = PLACE if is_partitioned(table) else PLACE[:-1]
    # Of metadata, the names count.
    asked = [
        *(stored[name.lower()] for name in columns),
        *(StructField(name, StringType()) for name in place),
    ]
    return source_rows(session, table, tasks, StructType(asked))


def chosen(rows: DataFrame, values: DataFrame, wanted: Wanted) -> DataFrame:
    """Return the *rows* that have *values* that are wanted, as many of each as are."""
    columns = [f"q.{quote(name)}" for name in rows.columns]
    matches = expr(same("q", wanted.keys))
    if wanted.copies is None:
        return rows.alias("q").join(values.alias("k"), matches, "left_semi").select(*columns)
    copies, number = quote(wanted.copies), apart_from("_number", [*rows.columns, *values.columns])
    order = Window.partitionBy(*(f"q.{quote(key)}" for key in wanted.keys)).orderBy(
        f"q.{FILE}", f"q.{POSITION}"
    )
    numbered = (
        rows.alias("q")
        .join(values.alias("k"), matches)
        .select(*columns, f"k.{copies}", row_number().over(order).alias(number))
    )
    return numbered.where(col(quote(number)) <= col(copies)).drop(number, wanted.copies)
