"""Looks up table rows by key values, and returns them with their positions in data files."""

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
from mt_core.incremental.delta import same, unused_name
from mt_core.spark.driver.jvm_objects import own_class
from mt_core.spark.iceberg.bounds import Bound, bounds_of
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint, local_rows, no_rows
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.iceberg.jvm_rows import stored_schema
from mt_core.spark.iceberg.look_ups import FILE, POSITION, look_up_places
from mt_core.spark.iceberg.scan_tasks import SCAN_TASKS, SourceRows, all_tasks, extent_of, source_rows, staged

SPEC = "_spec_id"
PLACE = (FILE, POSITION, SPEC, "_partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupKeys:
    """The distinct key values to look up, in the columns `keys` of `rows`.

    `copies` is the column with the number of rows to return for each value, which the caller guarantees to be
    in the table. If it is None, all matching rows are returned. With `single`, the caller guarantees that no
    two rows of the table have the same key.
    """

    rows: ComputedRows
    keys: tuple[str, ...]
    copies: str | None = None
    single: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVersion:
    """A snapshot of an Iceberg table."""

    table: Any
    snapshot: str


def all_rows(
    session: SparkSession, at: TableVersion, columns: StructType | None = None
) -> SourceRows | ComputedRows | None:
    """Return all rows of a table, or None if they are too many for a single thread to read.

    They have *columns*, or all columns.
    """
    tasks = all_tasks(session, at.table, at.snapshot)
    if not extent_of(session, tasks).is_read_locally:
        return None
    if not tasks:
        return no_rows(session, columns or stored_schema(session, at.table))
    return source_rows(session, at.table, tasks, columns)


def find_rows(
    session: SparkSession, at: TableVersion, columns: Sequence[str], wanted: LookupKeys
) -> ComputedRows:
    """Return *columns* and the PLACE of the rows with the *wanted* keys.

    If the table is unpartitioned, PLACE has no partition column. An empty result contains the columns of the
    keys instead. Files are pruned by the bounds of the keys. If few enough rows remain, they are looked up in
    this process, which avoids the exchanges of a join and of a window.
    """
    is_empty = wanted.rows.few and not wanted.rows.count()
    tasks = None if is_empty else _tasks(session, at, bounds_of(wanted.rows, wanted.keys))
    if not tasks:
        return no_rows(session, wanted.rows.schema)
    local = find_rows_locally(session, at.table, tasks, columns, wanted)
    if local is not None:
        return local
    with staged(session, at.table, tasks) as frame:
        partition = frame.select("_partition").schema[0].dataType
        place = PLACE if partition.fields else PLACE[:-1]  # type: ignore[attr-defined]
        rows = frame.select(*(col(quote(name)).alias(name) for name in columns), *place)
        # Do not add the bounds as a condition: Iceberg has already pruned the files, and Spark would compile
        # the code of the join again for each new bound.
        joined = rows_with_keys(rows, wanted.rows.frame, wanted)
        # `collect_or_checkpoint` is not used here, because its LIMIT would add an exchange.
        return (
            local_rows(joined, joined.toArrow())
            if wanted.single and wanted.rows.few
            else collect_or_checkpoint(joined)
        )


def _tasks(session: SparkSession, at: TableVersion, bounds: Sequence[Bound]) -> Any:
    """Return the scan tasks of files that may contain rows within *bounds*, as a Java list."""
    filters = json.dumps([bound.in_iceberg() for bound in bounds])
    return own_class(session, SCAN_TASKS).within(at.table, int(at.snapshot), filters)


def find_rows_locally(
    session: SparkSession, table: Any, tasks: Any, columns: Sequence[str], wanted: LookupKeys
) -> ComputedRows | None:
    """Return the result of `find_rows` for the files of *tasks*, or None if a Spark job is necessary."""
    if wanted.rows.java is None:
        return None
    rows = _looked_up(session, table, tasks, columns, wanted) or _read(session, table, tasks, columns)
    if rows is None:
        return None
    spec, purpose = int(table.spec().specId()), repr(("touched", columns, wanted.keys, wanted.copies))

    def touched(at: Mapping[str, str]) -> DataFrame:
        candidates = session.table(at["rows"])
        placed = candidates if SPEC in candidates.columns else candidates.withColumn(SPEC, lit(spec))
        place = [
            name
            for name in PLACE
            if name in placed.columns and placed.schema[name].dataType != StructType([])
        ]
        return rows_with_keys(placed, session.table(at["wanted"]), wanted).select(
            *map(quote, columns), *place
        )

    return PLANS.run(session, None, f"{purpose} {spec}", touched, {"rows": rows, "wanted": wanted.rows})


def _looked_up(
    session: SparkSession, table: Any, tasks: Any, columns: Sequence[str], wanted: LookupKeys
) -> ComputedRows | None:
    """Return a superset of the wanted rows, with FILE and POSITION.

    Return None if they cannot be looked up, or not by columns of the table's types.
    """
    if is_partitioned(table):
        return None
    stored = {field.name.lower(): field for field in stored_schema(session, table).fields}
    names = [*wanted.keys, *(name for name in columns if name not in wanted.keys)]
    projection = StructType([stored[name.lower()] for name in names])
    given = wanted.rows.schema
    if any(stored[key.lower()].dataType != given[key].dataType for key in wanted.keys):
        return None
    copies = [] if wanted.copies is None else [wanted.copies]
    values = wanted.rows.select([*wanted.keys, *copies])
    return look_up_places(session, table, tasks, projection, values, complete=bool(copies))


def _read(session: SparkSession, table: Any, tasks: Any, columns: Sequence[str]) -> SourceRows | None:
    """Return the rows of *tasks* with their PLACE, or None if they are too many for one thread."""
    if not extent_of(session, tasks).is_read_locally:
        return None
    stored = {field.name.lower(): field for field in stored_schema(session, table).fields}
    place = PLACE if is_partitioned(table) else PLACE[:-1]
    # The types of metadata columns are ignored.
    projection = [
        *(stored[name.lower()] for name in columns),
        *(StructField(name, StringType()) for name in place),
    ]
    return source_rows(session, table, tasks, StructType(projection))


def rows_with_keys(rows: DataFrame, values: DataFrame, wanted: LookupKeys) -> DataFrame:
    """Return the *rows* whose key is in *values*, up to the wanted number of copies for each key."""
    columns = [f"q.{quote(name)}" for name in rows.columns]
    matches = expr(same("q", wanted.keys))
    if wanted.copies is None:
        return rows.alias("q").join(values.alias("k"), matches, "left_semi").select(*columns)
    copies, number = quote(wanted.copies), unused_name("_number", [*rows.columns, *values.columns])
    order = Window.partitionBy(*(f"q.{quote(key)}" for key in wanted.keys)).orderBy(
        f"q.{FILE}", f"q.{POSITION}"
    )
    numbered = (
        rows.alias("q")
        .join(values.alias("k"), matches)
        .select(*columns, f"k.{copies}", row_number().over(order).alias(number))
    )
    return numbered.where(col(quote(number)) <= col(copies)).drop(number, wanted.copies)


def is_partitioned(table: Any) -> bool:
    """Return whether an Iceberg *table* is or was partitioned."""
    return table.specs().size() > 1 or not table.spec().isUnpartitioned()
