"""Scalar values: the values of scalar subqueries below states or in rows, during one run.

A value is a row of one column. A plan gets it as the rows of an operator, the root of the subquery's tree, so
an inline plan is run again with another value. The values that the last run has used are kept beside the
states; `mt_core.incremental.stages.values` says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from mt_core.incremental.stages.blocks import Place, place_of
from mt_core.incremental.stages.stage_plan import Value
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.queries.staged_query import StagedQuery
from mt_core.spark.readings.keyed_readings import KeyedReadings


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarValues:
    """The values of scalar subqueries of a *query* in a run, by tree, and which of them have `changed`."""

    session: SparkSession
    query: StagedQuery
    rows: dict[int, ComputedRows] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)

    def schema(self, value: Value) -> StructType:
        """Return the column of a value. It may be NULL, also if the column of the subquery cannot."""
        (column,) = self.query.columns(place_of(value.tree)).fields
        return StructType([StructField(column.name, column.dataType)])

    def put(self, value: Value, kept: ComputedRows | None, rows: DataFrame | ComputedRows | None) -> None:
        """Set a value: the one that is *kept*, if a subquery returns it again, or what *rows* give.

        Without *rows*, nothing that the subquery reads has changed.
        """
        row = kept if rows is None else self._row(value, rows)
        assert row is not None
        is_new = kept is None or not _are_same(kept, row)
        self.rows[value.tree] = row if is_new else kept or row
        if is_new:
            self.changed.add(value.tree)

    def compute(self, value: Value, lineage: Lineage, readings: KeyedReadings) -> None:
        """Set a value that has not changed, computed over *readings* and the values that are set."""
        place, others = place_of(value.tree), sorted(self.rows)
        whole = {f"reading{number}": readings.whole(number) for number in sorted(value.readings)}
        small = {name: rows for name, rows in whole.items() if rows is not None}

        def inline(at: Mapping[str, str]) -> DataFrame:
            leaves = {number: self.session.table(at[f"reading{number}"]) for number in value.readings}
            return self.query.rows(place, leaves, self.operators(others, at))

        rows: DataFrame | ComputedRows | None = None
        if len(small) == len(whole):
            inputs = {**small, **self.inputs(others)}
            rows = PLANS.run(self.session, lineage, f"value {value.tree}", inline, inputs)
        if rows is None:
            leaves = {number: readings.versions.rows(number) for number in value.readings}
            rows = self.query.rows(place, leaves, self.operators(others))
        self.rows[value.tree] = self._row(value, rows)

    def inputs(self, trees: Iterable[int]) -> dict[str, ComputedRows]:
        """Return the inputs of an inline plan that reads the values of *trees*."""
        return {f"value{tree}": self.rows[tree] for tree in sorted(trees)}

    def operators(self, trees: Iterable[int], at: Mapping[str, str] | None = None) -> dict[Place, DataFrame]:
        """Return the values of *trees* as operators of the query.

        *at* has the relations of an inline plan, by the names of its inputs.
        """
        return {
            place_of(tree): self.rows[tree].frame if at is None else self.session.table(at[f"value{tree}"])
            for tree in sorted(trees)
        }

    def by_place(self, trees: Iterable[int]) -> dict[Place, ComputedRows]:
        """Return the values of *trees* by the places of the roots of these."""
        return {place_of(tree): self.rows[tree] for tree in sorted(trees)}

    def _row(self, value: Value, rows: DataFrame | ComputedRows) -> ComputedRows:
        """Return the value of a subquery that returns *rows*, as Spark does: NULL without a row."""
        if not isinstance(rows, ComputedRows) or rows.count() != 1:
            frame = rows.frame if isinstance(rows, ComputedRows) else rows
            with temporary_view(frame) as view:
                rows = collect_or_checkpoint(self.session.sql(f"SELECT (SELECT * FROM {view}) AS c0"))
        return replace(rows, schema=self.schema(value))


def _are_same(row: ComputedRows, other: ComputedRows) -> bool:
    """Return whether two values are equal, also in bits that comparisons ignore: 0.0 and -0.0 differ."""
    values = (None if each.rows is None else repr(each.rows.to_pylist()) for each in (row, other))
    return len(set(values)) == 1
