"""Maintained blocks: the change of a table whose rows are those of a block.

The change of the block (`block_changes`), in the types of the table, says which rows are deleted and which
are inserted. Nothing is kept beside the table: scalar subqueries in the block, whose values have not changed,
are computed again. If rows are only added, they are written as they are computed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.types import StructField, StructType

from mt_core.base.identifiers import quote
from mt_core.incremental.delta import unused_name
from mt_core.incremental.stages.blocks import Blocks, Place
from mt_core.incremental.stages.stage_plan import StagePlan, Value
from mt_core.incremental.strategy import ResultUnchanged, TooManyRows, check_keys
from mt_core.model.table import Column
from mt_core.spark.iceberg.computed_rows import ComputedRows
from mt_core.spark.iceberg.find_rows import TableVersion
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.iceberg.jvm_rows import stored_schema
from mt_core.spark.iceberg.replace_rows import AllRows, Change, DeleteModes
from mt_core.spark.incremental.block_changes import BlockChanges
from mt_core.spark.incremental.first_rows_change import FirstRowsChange
from mt_core.spark.incremental.key_rows import KeyRows
from mt_core.spark.incremental.scalar_values import ScalarValues
from mt_core.spark.incremental.table_change import TableChange, counts_checked
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.queries.source_versions import pins
from mt_core.spark.queries.staged_query import StagedQuery
from mt_core.spark.readings.reading_changes import LocalRelations
from mt_core.spark.readings.reading_images import ReadingImages
from mt_core.spark.readings.reading_versions import check_unchanged
from mt_core.spark.readings.row_images import net_rows
from mt_core.tables.definition.shape import stored_order
from mt_core.tables.engine import Maintenance, SourceVector, Write


@contextmanager
def maintained_block(
    session: SparkSession,
    lineage: Lineage,
    write: Write,
    maintenance: Maintenance,
    stored: Any,
    modes: DeleteModes | None,
) -> Iterator[tuple[Change, DeleteModes | None]]:
    """Yield the change that brings the *stored* Iceberg table to the new source versions, and its modes.

    *modes* says how rows may be deleted in place. If it is None, or if too many rows changed, the modes are
    None, and the table is rewritten. Raises SourcesChanged or NotApplied if the changes cannot be applied,
    and ResultUnchanged if no row of the result changes.
    """
    blocks = maintenance.strategy.rows
    assert blocks is not None
    with ExitStack() as stack:
        changes = changes_of_run(session, lineage, write.vector, maintenance, stack)
        rows = RowsOfRun(write=write, maintenance=maintenance, stored=stored, changes=changes, stack=stack)
        with counts_checked():
            change = rows.change(blocks, changes.values.rows, modes)
            if change is None:
                raise ResultUnchanged
            yield change


def changes_of_run(
    session: SparkSession, lineage: Lineage, vector: SourceVector, maintenance: Maintenance, stack: ExitStack
) -> BlockChanges:
    """Return the changes of the rows of a query up to *vector*. Their views exist until *stack* closes.

    Raises SourcesChanged if the query is not that of *lineage* any more.
    """
    check_unchanged(lineage, vector)
    blocks, old, new = maintenance.strategy.rows, pins(maintenance.since), pins(vector)
    assert blocks is not None
    read = ReadingImages(
        session=session,
        lineage=lineage,
        changes=maintenance.changes,
        old=old,
        new=new,
        exact=blocks.below_computed(),
    )
    relations = LocalRelations.of(read, blocks.tables(), stack)
    query = StagedQuery.of_lineage(session, lineage)
    values = ScalarValues(session=session, query=query)
    if isinstance(plan := maintenance.changes.shape.stages, StagePlan) and plan.rows is not None:
        # None of them has changed, and they are not kept.
        for each in plan.in_order():
            if isinstance(each, Value):
                values.compute(each, lineage, relations.readings)
    return BlockChanges(
        session=session, lineage=lineage, query=query, since=old, relations=relations, values=values
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsOfRun:
    """The rows that a *write* deletes from the *stored* Iceberg table and inserts, by *changes* of its query.

    Temporary views exist until *stack* closes.
    """

    write: Write
    maintenance: Maintenance
    stored: Any
    changes: BlockChanges
    stack: ExitStack

    def change(
        self, blocks: Blocks, values: Collection[int], modes: DeleteModes | None
    ) -> tuple[Change, DeleteModes | None] | None:
        """Return the change of a table with the rows of *blocks*, and its modes; None if no row changes.

        *values* are the scalar subqueries that the blocks read.
        """
        strategy = self.maintenance.strategy
        if strategy.by_key:
            return self._by_key(blocks, values, modes)
        try:
            return self._by_value(blocks, values, modes)
        except TooManyRows:
            if strategy.division is None:
                raise
            return self._by_key(blocks, values, modes)

    def _by_value(
        self, blocks: Blocks, values: Collection[int], modes: DeleteModes | None
    ) -> tuple[Change, DeleteModes | None] | None:
        output, table = self._output(blocks), self._table(modes)
        if self.maintenance.strategy.limit is not None:
            new = self._first_rows(blocks, values, output, table)
            return None if new is None else (new, modes)
        if self.changes.only_adds(blocks):
            parts = self.changes.parts(blocks, values, output)
            return None if parts.is_empty else (table.added(parts), modes)
        net = self.changes.of(blocks, values, output)
        changed = net.count()
        if not changed:
            return None
        table, modes = self._written(table, modes, changed)
        return table.by_value(net, output.copies), modes

    def _first_rows(
        self, blocks: Blocks, values: Collection[int], output: RowsOutput, table: TableChange
    ) -> AllRows | None:
        limit = self.maintenance.strategy.limit
        assert limit is not None
        if self.changes.only_adds(blocks):
            parts = self.changes.parts(blocks, values, output)
            if parts.many:
                # Only the first of many added rows matter, so these are neither added up nor held.
                added = [(sign, rows.frame) for sign, rows in parts.few]
                net = ComputedRows.of_frame(output.signed([*parts.many, *added]))
            else:
                net = self.changes.sum(output, parts)
        else:
            net = self.changes.of(blocks, values, output)
        if net.few and not net.count():
            return None
        columns = tuple(self._stored[position].name for position in sorted(self._stored))
        return FirstRowsChange(
            table=table, limit=limit, columns=columns, net=net, copies=output.copies
        ).change()

    def _by_key(
        self, blocks: Blocks, values: Collection[int], modes: DeleteModes | None
    ) -> tuple[Change, DeleteModes | None] | None:
        division = self.maintenance.strategy.division
        assert division is not None
        rows = KeyRows(changes=self.changes, blocks=blocks, values=values, division=division)
        keys = rows.keys()
        changed = keys.count()
        if not changed:
            return None
        check_keys(self.maintenance.strategy, changed)
        table, modes = self._written(self._table(modes), modes, changed)
        of_key = {f"k{number}": self._stored[each] for number, each in enumerate(division.positions)}
        of_row = {f"c{position}": column for position, column in self._stored.items()}
        new = rows.rows(keys)
        if isinstance(new, ComputedRows):
            return table.by_key(self._cast(keys, of_key), self._cast(new, of_row)), modes
        return table.by_key(self._cast(keys, of_key), new.selectExpr(*_items(of_row))), modes

    def _written(
        self, table: TableChange, modes: DeleteModes | None, changed: int
    ) -> tuple[TableChange, DeleteModes | None]:
        """Return how so many changed rows or keys are written."""
        if self.maintenance.in_place or changed <= self.maintenance.most_in_place:
            return table, modes
        return replace(table, modes=None), None

    def _cast(self, rows: ComputedRows, columns: Mapping[str, Column]) -> ComputedRows:
        """Return rows with the types of the table's *columns*, given by the names of the rows' columns."""
        session, items = self.changes.session, _items(columns)

        def cast(at: Mapping[str, str]) -> DataFrame:
            return session.table(at["rows"]).selectExpr(*items)

        few = PLANS.run(session, self.changes.lineage, f"stored {items}", cast, {"rows": rows})
        return few or ComputedRows.of_frame(rows.frame.selectExpr(*items))

    def _output(self, blocks: Blocks) -> RowsOutput:
        columns, limit = self.write.columns, self.maintenance.strategy.limit
        below = {each: each if limit is None else limit.columns[each] for each in self._stored}
        types = {each.name: each for each in stored_schema(self.changes.session, self.stored).fields}
        return RowsOutput(
            query=self.changes.query,
            place=blocks.root.place,
            items=_items({f"c{below[position]}": column for position, column in self._stored.items()}),
            # A NULL in a column that has none fails when it is written, not while it is computed.
            columns=StructType([StructField(column.name, types[column.name].dataType) for column in columns]),
        )

    @property
    def _stored(self) -> dict[int, Column]:
        """The columns of the table, in its order, by the positions of the query's columns."""
        produced, columns = self.maintenance.changes.columns, self.write.columns
        names = stored_order(self.write.table, produced, columns, self.write.query_types)
        positions = {column.name: position for position, column in enumerate(produced)}
        return {positions[name]: column for name, column in zip(names, columns, strict=True)}

    def _table(self, modes: DeleteModes | None) -> TableChange:
        base = self.maintenance.base
        return TableChange(
            session=self.changes.session,
            lineage=self.changes.lineage,
            at=TableVersion(table=self.stored, snapshot=base),
            name=f"{self.write.table.sql} VERSION AS OF {base}",
            columns=tuple(column.name for column in self.write.columns),
            modes=modes,
            small=self.maintenance.small,
            stack=self.stack,
        )


def _items(columns: Mapping[str, Column]) -> tuple[str, ...]:
    """Return SQL expressions for the table's *columns*, given by the names of columns with their values."""
    return tuple(f"CAST({name} AS {each.type}) AS {quote(each.name)}" for name, each in columns.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsOutput:
    """The rows of a block at a *place* as a table stores them: *items* over its output, which give *columns*.

    A sum has the column `copies`: how often a row was added, or removed if it is negative.
    """

    query: StagedQuery
    place: Place
    items: tuple[str, ...]
    columns: StructType

    @property
    def copies(self) -> str:
        return unused_name("_copies", self.columns.names)

    @property
    def purpose(self) -> str:
        return f"rows {self.place} {self.items}"

    def over(self, leaves: Mapping[int, DataFrame], operators: Mapping[Place, DataFrame]) -> DataFrame:
        return self.query.rows(self.place, leaves, operators).selectExpr(*self.items)

    def sum(self, signed: Iterable[tuple[int, DataFrame]]) -> DataFrame:
        # Rows of the table are compared with SQL equality.
        return net_rows(self.signed(signed), self.copies, signed_zeros=False)

    def signed(self, signed: Iterable[tuple[int, DataFrame]]) -> DataFrame:
        """Return the rows of all parts, with their signs as `copies`."""
        parts = (rows.withColumn(self.copies, lit(sign)) for sign, rows in signed)
        return reduce(DataFrame.unionAll, parts)
