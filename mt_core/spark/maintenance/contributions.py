"""Contributions: what rows that left a source and rows that came add to the sums and counts of their groups, without a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

from pyarrow import ChunkedArray, Table, chunked_array, compute, concat_tables, decimal128, nulls, repeat, types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, DecimalType, DoubleType, FloatType, LongType, StringType, StructType

from mt_core.maintenance.delta import Images, NamedImages
from mt_core.maintenance.merging import Merge
from mt_core.model.table import Column
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.maintenance.jvm_rows import SENT, are_sent, columns_of, java_type, reader_of, rows_of, stream_as
from mt_core.spark.maintenance.kept_plans import KeptPlans
from mt_core.spark.maintenance.row_images import ImageViews, temporary_view
from mt_core.spark.queries.lineage import Lineage

# Arrow tells 0.0 and -0.0 apart, which GROUP BY does not.
_KEYS = SENT - {FloatType, DoubleType}
_SUMS = {LongType, DecimalType}
_MOST_DIGITS = 38
_SIGN = "sign"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What gives the contributions of rows in the JVM, and their columns."""

    rows: Any
    schema: StructType


# None for a query of which a job computes them.
_kept: KeptPlans[_Plan | None] = KeptPlans()


@dataclass(frozen=True, slots=True, kw_only=True)
class Contributions:
    """What each row adds, in the columns of a query: a grouping key as it is, and what the sum of an aggregate adds up."""

    schema: StructType
    removed: Table
    added: Table


def contributions(
    session: SparkSession,
    lineage: Lineage,
    columns: tuple[Column, ...],
    query: Callable[[Images], DataFrame],
    images: ImageViews,
    merge: Merge,
) -> Contributions | None:
    """Return those of *images*, which *query*, of *columns*, reads and nothing else; None if a job is to compute them."""
    own, sides, schema = reader_of(session, "Contributions"), images.sides(), images.schema
    if own is None or sides is None or not all(are_sent(schema, each) for each in sides):
        return None
    plan = _kept.of(session, lineage, columns, lambda: _plan(session, own, schema, query))
    if plan is None or not _are_summed(plan.schema, merge):
        return None
    streams = [stream_as(session, schema, each) for each in sides]
    try:
        removed, added = (rows_of(session, plan.schema, plan.rows.rows(each)) for each in streams)
    except SPARK_ERRORS:
        # The job says what is wrong with a value.
        return None
    return Contributions(schema=plan.schema, removed=removed, added=added)


def _plan(session: SparkSession, own: Any, schema: StructType, query: Callable[[Images], DataFrame]) -> _Plan | None:
    nothing = own.nothing(session._jsparkSession, java_type(session, schema))
    with temporary_view(DataFrame(nothing, session)) as view:
        rows = own.of(query(NamedImages(removed=view, added=view, both=view))._jdf)
    return None if rows is None else _Plan(rows=rows, schema=columns_of(rows.columns()))


def _are_summed(schema: StructType, merge: Merge) -> bool:
    """Return whether `subtracted` gives what Spark would."""
    return all(
        _is_key(field.dataType) if function is None else type(field.dataType) in _SUMS
        for field, function in zip(schema.fields, merge, strict=True)
    )


def _is_key(kind: DataType) -> bool:
    # By a collation, different texts may be equal.
    return kind == StringType() if isinstance(kind, StringType) else type(kind) in _KEYS


def subtracted(removed: Table, added: Table, merge: Merge, *, counted: bool, doubt: str) -> Table | None:
    """Return the sums of *added* rows less those of *removed* ones, for each group in which the two differ.

    Columns, which are those of both in their order, and *doubt* are as in `DeltaTexts.subtracted`, by the shape of whose query
    the rows of each group are *counted*. None if a sum could exceed its type.
    """
    names = [f"value{place}" for place in range(len(merge))]
    sides = [side.rename_columns(names) for side in (removed, added)]
    keys = [name for name, function in zip(names, merge, strict=True) if function is None]
    sums = [name for name in names if name not in keys]
    if not all(_fits([side[name] for side in sides]) for name in sums):
        return None
    rows = concat_tables([_signed(side, sign, keys, sums) for side, sign in zip(sides, (-1, 1), strict=True)])
    totals = [(name, "sum") for name in rows.column_names if name not in (*keys, _SIGN)]
    groups = rows.group_by(keys).aggregate([*totals, (_SIGN, "min"), (_SIGN, "max")])
    given = [
        groups[key] if key in keys else groups[f"{key}_sum"].cast(added[place].type) for place, key in enumerate(names)
    ]
    doubted = _doubted(
        groups, [name for name, each in zip(names, merge, strict=True) if each == "Sum"], counted=counted
    )
    found = Table.from_arrays([*given, doubted], names=[*added.column_names, doubt])
    return found.filter(compute.invert(_unchanged(groups, sums)))


def _signed(side: Table, sign: int, keys: Sequence[str], sums: Sequence[str]) -> Table:
    """Return the rows of a side with the values of *sums* by its *sign*, and as they are in one of two columns."""
    columns = {key: side[key] for key in keys}
    for name in sums:
        kind = side[name].type
        values = side[name].cast(decimal128(_MOST_DIGITS, kind.scale)) if types.is_decimal(kind) else side[name]
        none = nulls(side.num_rows, values.type)
        columns[name] = values if sign > 0 else compute.negate(values)
        columns[f"gone_{name}"], columns[f"come_{name}"] = (none, values) if sign > 0 else (values, none)
    return Table.from_pydict({**columns, _SIGN: repeat(sign, side.num_rows)})


def _doubted(groups: Table, sums: Sequence[str], *, counted: bool) -> ChunkedArray:
    doubts = [] if counted else [compute.less(groups[f"{_SIGN}_max"], 0)]
    doubts += [
        compute.and_(groups[f"gone_{name}_sum"].is_valid(), groups[f"come_{name}_sum"].is_null()) for name in sums
    ]
    return reduce(compute.or_, doubts, chunked_array([repeat(False, groups.num_rows)]))


def _unchanged(groups: Table, sums: Sequence[str]) -> ChunkedArray:
    both = compute.and_(compute.less(groups[f"{_SIGN}_min"], 0), compute.greater(groups[f"{_SIGN}_max"], 0))
    same = (_same(groups[f"gone_{name}_sum"], groups[f"come_{name}_sum"]) for name in sums)
    return reduce(compute.and_, same, both)


def _fits(columns: Sequence[ChunkedArray]) -> bool:
    """Return whether any sum of values in *columns*, which have one type, is one of that type."""
    kind, bounds = columns[0].type, [compute.min_max(column).as_py() for column in columns]
    most = max((abs(bound) for each in bounds for bound in each.values() if bound is not None), default=0)
    limit = 10 ** (kind.precision - kind.scale) if types.is_decimal(kind) else 2**63
    return Fraction(most) * sum(map(len, columns)) < limit


def _same(one: ChunkedArray, other: ChunkedArray) -> ChunkedArray:
    neither = compute.and_(one.is_null(), other.is_null())
    return compute.or_(compute.fill_null(compute.equal(one, other), False), neither)
