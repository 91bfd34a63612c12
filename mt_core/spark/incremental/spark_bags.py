"""Bags in Spark: the operators of a query over rows in the JVM, computed inline or by jobs.

Rows of an operator have all its columns and always the same types, so one plan is compiled for each operator
and executed for each of its runs. Columns that nothing reads are NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit
from pyspark.sql.types import StructType

from mt_core.base.identifiers import quote
from mt_core.incremental.stages.blocks import Place
from mt_core.incremental.strategy import CountsDiffer, TooManyRows
from mt_core.spark.driver.jvm_objects import java_strings
from mt_core.spark.iceberg.computed_rows import ComputedRows, collected, together, without
from mt_core.spark.iceberg.inline_plans import PLANS, Make
from mt_core.spark.iceberg.key_tuples import key_tuples
from mt_core.spark.iceberg.look_ups import semi_join
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.incremental.bags import Change, Wanted
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.queries.staged_query import StagedQuery

MOST_BYTES = 256 * 1024 * 1024
"""The maximum size, in bytes, of the rows of all operators below a state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkBags:
    """The operators of a *query* in a run. *values* are those of scalar subqueries, by place."""

    session: SparkSession
    lineage: Lineage
    query: StagedQuery
    values: Mapping[Place, ComputedRows] = field(default_factory=dict)
    _columns: dict[Place, StructType] = field(default_factory=dict)
    _sizes: list[int] = field(default_factory=list)

    def rows(
        self, place: Place, leaves: Mapping[int, ComputedRows], operators: Mapping[Place, ComputedRows]
    ) -> ComputedRows:
        operators = {**operators, **self.values}
        columns, places = self._columns_of(place), sorted(operators)
        inputs = {f"reading{number}": rows for number, rows in sorted(leaves.items())}
        inputs |= {f"operator{number}": operators[each] for number, each in enumerate(places)}

        def output(at: Mapping[str, str]) -> DataFrame:
            frames = {name: self.session.table(view) for name, view in at.items()}
            rows = self.query.rows(
                place,
                {number: frames[f"reading{number}"] for number in leaves},
                {each: frames[f"operator{number}"] for number, each in enumerate(places)},
            )
            return _with_columns(rows, columns)

        return self._computed(f"rows {place} of {places}", output, inputs, columns)

    def together(self, place: Place, parts: Sequence[ComputedRows]) -> ComputedRows:
        return together(self.session, self._columns_of(place), parts)

    def net(self, place: Place, signed: Sequence[tuple[int, ComputedRows]]) -> Change[ComputedRows]:
        added, removed = (
            self.together(place, [rows for sign, rows in signed if sign == wanted]) for wanted in (1, -1)
        )
        return Change(added=without(added, removed), removed=without(removed, added))

    def before(self, rows: ComputedRows, change: Change[ComputedRows], *, complete: bool) -> ComputedRows:
        present = together(self.session, rows.schema, [rows, change.removed])
        missing = without(change.added, present).count() if complete else 0
        if missing:
            raise CountsDiffer(f"{missing:,} rows that were added are not there")
        return without(present, change.added)

    def among(self, rows: ComputedRows, wanted: Wanted[ComputedRows]) -> ComputedRows:
        return semi_join(
            rows, wanted.keys, [(each.of, each.to, each.null_safe) for each in wanted.matches], exact=True
        )

    def keys(
        self, parts: Sequence[tuple[ComputedRows, Sequence[str]]], null_safe: Sequence[bool]
    ) -> ComputedRows:
        return key_tuples(self.session, parts, null_safe)

    def have_null(self, rows: ComputedRows, columns: Sequence[str]) -> bool:
        assert rows.java is not None
        return bool(rows.java.haveNull(java_strings(self.session, columns)))

    def _computed(
        self, purpose: str, make: Make, inputs: Mapping[str, ComputedRows], columns: StructType
    ) -> ComputedRows:
        rows = PLANS.run(self.session, self.lineage, purpose, make, inputs)
        if rows is None:
            with ExitStack() as stack:
                views = {
                    name: stack.enter_context(temporary_view(each.frame)) for name, each in inputs.items()
                }
                rows = collected(make(views))
        if rows is None:
            raise TooManyRows("an operator of the query returns more rows than the driver holds")
        self._sizes.append(rows.size)
        if sum(self._sizes) > MOST_BYTES:
            raise TooManyRows("the operators of the query return more bytes than the driver holds")
        return replace(rows, schema=columns)

    def _columns_of(self, place: Place) -> StructType:
        if place not in self._columns:
            self._columns[place] = self.query.columns(place)
        return self._columns[place]


def _with_columns(rows: DataFrame, columns: StructType) -> DataFrame:
    """Return *rows* with all of these *columns*, those that it lacks with NULL."""
    present = {*rows.columns}
    return rows.select(
        *(
            col(quote(each.name)) if each.name in present else lit(None).cast(each.dataType).alias(each.name)
            for each in columns.fields
        )
    )
