"""Comparisons of a table's stored rows with the rows of its query at pinned source versions.

A comparison verifies that incremental maintenance and recomputation agree. Both sides are compared as
multisets in one pass over each. Rows of the table count +1 and rows of the query -1, and groups of equal
rows whose sum is not 0 are the differences.

A difference must be an error, so everything that may differ between two correct computations is excluded
first. Columns that depend on the order of rows or on ties are left out with a reason (`certainty`), and a
query that is not repeatable is refused. Floating-point values are compared within a tolerance, because sums
depend on the order of additions. Rows that are equal in all exact columns are paired in the order of their
floating-point columns.

A sample is chosen by a hash of the keys, so that it contains the same rows of both sides. With
`in_buckets`, only counts and hashes are compared, which does not need an exchange of rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql import types as spark

from mt_core.base.identifiers import quote
from mt_core.base.rowset import RowSet
from mt_core.errors import Incomparable, QueryFailed, SourcesChanged
from mt_core.incremental.certainty import certainty_of
from mt_core.incremental.changes import can_be_looked_up
from mt_core.incremental.shape import read_shape
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.conf import REFRESH_POOL
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.functions.function_sync import deterministic_functions
from mt_core.spark.iceberg.computed_rows import computed
from mt_core.spark.queries.determinism import unstable_literal, unstable_reason
from mt_core.spark.queries.query_shapes import plan_of
from mt_core.spark.refresh.writes import predicate_of, shaped
from mt_core.spark.results.arrow import ResultForm, arrow_frame
from mt_core.tables.engine import Comparison, ComparisonResult, RowComparison

BUCKETS = 256
_SAMPLES = 1_000_000
# The order of additions changes the last digits of a sum of doubles. A FLOAT has seven digits.
_RELATIVE: Mapping[type[spark.DataType], float] = {spark.DoubleType: 1e-9, spark.FloatType: 1e-6}
_ABSOLUTE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """The columns of a table: compared exactly, compared within a tolerance, or left out with a reason.

    `keys` are exact columns that determine the bucket of a row.
    """

    exact: tuple[str, ...]
    floating: tuple[str, ...]
    keys: tuple[str, ...]
    left_out: Mapping[str, str]

    @property
    def compared(self) -> tuple[str, ...]:
        return (*self.exact, *self.floating)


class Comparisons(RowComparison):
    """Compares tables with their queries. Thread-safe."""

    def __init__(self, spark: SparkContexts) -> None:
        self._spark = spark

    def compare(self, comparison: Comparison) -> ComparisonResult:
        query, vector = comparison.query, comparison.vector
        try:
            with self._spark.driver.run_tagged(
                comparison.job_id, REFRESH_POOL, f"comparison of {comparison.table} with its query"
            ):
                self._refuse_lost(comparison)
                session = self._spark.queries.session(query)
                with active_session(session):
                    return _compared(session, comparison, self._spark.versions.pinned_text(query, vector))
        except SourcesChanged as cause:
            raise Incomparable(
                f"{comparison.table} cannot be compared with its query: "
                f"a view or the columns of a source changed since its last refresh; {_way_out(comparison)}",
                table=str(comparison.table),
            ) from cause
        except QueryFailed as cause:
            self._refuse_lost(comparison)
            raise cause.reworded(cause.message) from cause

    def _refuse_lost(self, comparison: Comparison) -> None:
        lost = self._spark.versions.lost(comparison.query, comparison.vector)
        if lost is not None:
            raise Incomparable(
                f"{comparison.table} cannot be compared with its query: the version of {lost} that its last "
                f"refresh read has expired, or {lost} was dropped; {_way_out(comparison)}",
                table=str(comparison.table),
                source=lost,
            )


def _way_out(comparison: Comparison) -> str:
    return f"ALTER MATERIALIZED TABLE {comparison.table} REFRESH computes all rows at the current versions."


def _compared(session: SparkSession, comparison: Comparison, text: str) -> ComparisonResult:
    query_rows = session.sql(text)
    columns = _columns_of(query_rows, comparison, text)
    names = [column.name for column in comparison.columns]
    table = (
        f"SELECT {', '.join(map(quote, names))} "
        f"FROM {comparison.table.sql} VERSION AS OF {comparison.snapshot_id}"
    )
    stored = _part_of(session.sql(table), comparison, columns)
    cast = [f.col(quote(each.name)).cast(each.type).alias(each.name) for each in comparison.columns]
    queried = _part_of(shaped(query_rows, comparison).select(*cast), comparison, columns)
    rows = stored.count()
    if comparison.in_buckets:
        return ComparisonResult(
            differences=RowSet(columns=(), rows=[]),
            different=_different_buckets(stored, queried, columns),
            rows=rows,
            left_out=columns.left_out,
        )
    number = f"_number_{uuid4().hex}"
    differences = _differences(stored, queried, columns, number)
    different = differences.agg(f.coalesce(f.sum(f.abs(number)), f.lit(0))).collect()[0][0]
    shown = [
        f.col(quote(field.name))
        if field.name in columns.compared
        else f.lit(None).cast(field.dataType).alias(field.name)
        for field in stored.schema.fields
    ]
    answer = (
        differences.orderBy(*map(quote, columns.compared), number)
        .limit(comparison.most)
        .select(
            f.when(f.col(number) > 0, "unexpected").otherwise("missing").alias("difference"),
            f.abs(number).alias("copies"),
            *shown,
        )
    )
    return ComparisonResult(
        differences=_row_set(answer, empty=not different),
        different=int(different),
        rows=rows,
        left_out=columns.left_out,
    )


# ---------------------------------------------------------------------------------------------------- columns


def _columns_of(rows: DataFrame, comparison: Comparison, text: str) -> _Columns:
    """Return how each column of the table is compared.

    Raises Incomparable if the query is not repeatable, or if its number of rows is uncertain.
    """
    plan, subqueries = plan_of(rows)
    unstable, declared = unstable_literal(text), deterministic_functions(rows.sparkSession)
    for each in (plan, *subqueries):
        unstable = unstable or unstable_reason(each, of_order=False, deterministic=declared)
    stored = {column.name.lower(): column for column in comparison.columns}
    types = [spark.DataType.fromDDL(stored[name.lower()].type) for name in rows.columns]
    trees = json.loads(plan), [json.loads(each) for each in subqueries]
    certainty = certainty_of(*trees, floats=[_is_floating(each) for each in types])
    if unstable or certainty.rows:
        raise Incomparable(
            f"{comparison.table} cannot be compared with its query, which may return other rows each time: "
            f"{unstable or certainty.rows}.",
            table=str(comparison.table),
        )
    names = [stored[name.lower()].name for name in rows.columns]
    left_out = {
        name: reason for name, reason in zip(names, certainty.columns, strict=True) if reason is not None
    }
    left_out |= {
        column.name: f"values of type {column.type} cannot be compared"
        for column in comparison.columns
        if not can_be_looked_up(column.type)
    }
    keys = read_shape(*trees).keys
    # A grouping key is copied from a source, so it is compared exactly even if it is a floating-point number.
    grouping = {names[position] for position in keys} if len(keys) < len(names) else set[str]()
    floating = {name for name, each in zip(names, types, strict=True) if _is_floating(each)}
    exact = tuple(
        name for name in names if name not in left_out and (name not in floating or name in grouping)
    )
    hashed = tuple(name for name in exact if name not in floating)
    return _Columns(
        exact=exact,
        floating=tuple(name for name in names if name in floating - grouping and name not in left_out),
        keys=tuple(name for name in hashed if name in grouping) or hashed,
        left_out=left_out,
    )


def _is_floating(data_type: spark.DataType) -> bool:
    match data_type:
        case spark.FloatType() | spark.DoubleType():
            return True
        case spark.ArrayType():
            return _is_floating(data_type.elementType)
        case spark.StructType():
            return any(_is_floating(field.dataType) for field in data_type.fields)
        case _:
            return False


def _part_of(rows: DataFrame, comparison: Comparison, columns: _Columns) -> DataFrame:
    """Return the rows that are in the scope and in the sample of the comparison."""
    inside, outside = (
        predicate_of(scope, comparison.columns) for scope in (comparison.scope, comparison.besides)
    )
    if inside is not None:
        rows = rows.filter(inside)
    if outside is not None and comparison.besides.specs:
        rows = rows.filter(~f.coalesce(outside, f.lit(False)))
    if comparison.percent >= 100:
        return rows
    if not columns.keys:
        raise Incomparable(
            f"No column of {comparison.table} can choose a sample of its rows; leave out SAMPLE.",
            table=str(comparison.table),
        )
    sampled = f.pmod(_hash(columns.keys), f.lit(_SAMPLES)) < f.lit(round(comparison.percent * _SAMPLES / 100))
    return rows.filter(sampled)


def _hash(names: Sequence[str]) -> SparkColumn:
    return f.xxhash64(*map(quote, names)) if names else f.lit(0).cast("bigint")


# ---------------------------------------------------------------------------------------------------- compare


def _different_buckets(stored: DataFrame, queried: DataFrame, columns: _Columns) -> int:
    """Return the number of buckets whose row count or sum of row hashes differs."""
    # Look up types before the projection, whose own names may be equal to names of columns.
    exact = tuple(name for name in columns.exact if name not in columns.floating)
    hashed = _hash([name for name in exact if not _is_floating(stored.schema[name].dataType)])
    sides = (
        rows.select(
            f.pmod(_hash(columns.keys), f.lit(BUCKETS)).alias("bucket"),
            hashed.cast("decimal(20, 0)").alias("hash"),
            f.lit(sign).alias("sign"),
        )
        for rows, sign in ((stored, 1), (queried, -1))
    )
    first, second = sides
    sums = (
        first.unionAll(second)
        .groupBy("bucket")
        .agg(f.sum("sign").alias("n"), f.sum(f.col("hash") * f.col("sign")).alias("h"))
    )
    return sums.where("n <> 0 OR h <> 0").count()


def _differences(stored: DataFrame, queried: DataFrame, columns: _Columns, number: str) -> DataFrame:
    """Compute and return the differing rows, with the compared columns.

    Column *number* is the count of a row in the table minus its count in the query result.
    """
    names = list(map(quote, columns.compared))
    signed = stored.select(*names, f.lit(1).alias(number)).unionAll(
        queried.select(*names, f.lit(-1).alias(number))
    )
    net = computed(signed.groupBy(*names).agg(f.sum(number).alias(number)).where(f.col(number) != 0))
    return computed(_without_close(net, columns, number)) if columns.floating else net


def _without_close(net: DataFrame, columns: _Columns, number: str) -> DataFrame:
    """Return *net*, whose rows are distinct, without pairs of rows that are equal within the tolerance.

    A pair is a row of the table and a row of the query. Rows with equal exact columns are paired in the
    order of their floating-point columns.
    """
    rank, table_side, query_side = (f"_{each}_{uuid4().hex}" for each in ("rank", "table", "query"))
    exact, floating = list(map(quote, columns.exact)), list(map(quote, columns.floating))
    single = net.withColumn(rank, f.explode(f.array_repeat(f.lit(0), f.abs(number).cast("int"))))
    single = single.withColumn(number, f.signum(number).cast("int"))
    order = Window.partitionBy(*exact, number).orderBy(*floating)
    values = f.struct(*floating)
    pairs = (
        single.withColumn(rank, f.row_number().over(order))
        .groupBy(*exact, rank)
        .agg(
            f.max(f.when(f.col(number) > 0, values)).alias(table_side),
            f.max(f.when(f.col(number) < 0, values)).alias(query_side),
        )
    )
    fields = spark.StructType([net.schema[name] for name in columns.floating])
    left = pairs.where(~_close(fields, f.col(table_side), f.col(query_side)))
    sides = f.array(
        f.struct(f.lit(1).alias("sign"), f.col(table_side).alias("side")),
        f.struct(f.lit(-1).alias("sign"), f.col(query_side).alias("side")),
    )
    each = left.select(*exact, f.explode(sides).alias(rank)).where(f.col(f"{rank}.side").isNotNull())
    rows = each.select(
        *exact, *(f.col(f"{rank}.side.{name}") for name in floating), f.col(f"{rank}.sign").alias(number)
    )
    return rows.groupBy(*exact, *floating).agg(f.sum(number).alias(number))


def _close(data_type: spark.DataType, one: SparkColumn, other: SparkColumn) -> SparkColumn:
    """Return whether two values are equal, except for the last digits of floating-point numbers."""
    match data_type:
        case spark.FloatType() | spark.DoubleType():
            larger = f.greatest(f.abs(one), f.abs(other)) * f.lit(_RELATIVE[type(data_type)])
            # Strictly less, because for opposite infinities both the difference and the tolerance are
            # infinite.
            close = f.abs(one - other) < f.greatest(larger, f.lit(_ABSOLUTE))
        case spark.ArrayType(elementType=element):
            each = f.zip_with(one, other, lambda left, right: _close(element, left, right))
            close = (f.size(one) == f.size(other)) & f.forall(each, lambda equal: equal)
        case spark.StructType(fields=fields):
            close = one.isNotNull() & other.isNotNull()
            for field in fields:
                close = close & _close(field.dataType, one[field.name], other[field.name])
        case _:
            close = f.lit(False)
    return one.eqNullSafe(other) | f.coalesce(close, f.lit(False))


def _row_set(answer: DataFrame, *, empty: bool) -> RowSet:
    form = ResultForm(answer.schema)
    if empty:
        return RowSet(columns=form.columns, rows=[])
    return RowSet(
        columns=form.columns, rows=form.rows(arrow_frame(answer).toArrow().cast(form.schema).to_batches())
    )
