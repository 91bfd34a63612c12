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
from pyspark.sql.types import StructType

from mt_core.base.identifiers import quote
from mt_core.incremental.delta import unused_name
from mt_core.incremental.stages.blocks import Blocks, Place
from mt_core.incremental.stages.stage_plan import StagePlan, Value
from mt_core.incremental.strategy import ResultUnchanged
from mt_core.spark.iceberg.find_rows import TableVersion
from mt_core.spark.iceberg.jvm_rows import stored_schema
from mt_core.spark.iceberg.replace_rows import Change, DeleteModes
from mt_core.spark.incremental.block_changes import BlockChanges
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
from mt_core.tables.engine import Maintenance, Write


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
    check_unchanged(lineage, write.vector)
    changes, blocks = maintenance.changes, maintenance.strategy.rows
    assert blocks is not None
    old, new = pins(maintenance.since), pins(write.vector)
    exact = blocks.below_computed()
    with ExitStack() as stack:
        read = ReadingImages(session=session, lineage=lineage, changes=changes, old=old, new=new, exact=exact)
        relations, query = (
            LocalRelations.of(read, blocks.tables(), stack),
            StagedQuery.of_lineage(session, lineage),
        )
        values = ScalarValues(session=session, query=query)
        if isinstance(plan := changes.shape.stages, StagePlan) and plan.rows is not None:
            # None of them has changed, and they are not kept.
            for each in plan.in_order():
                if isinstance(each, Value):
                    values.compute(each, lineage, relations.readings)
        block_changes = BlockChanges(
            session=session, lineage=lineage, query=query, since=old, relations=relations, values=values
        )
        rows = RowsOfRun(
            write=write, maintenance=maintenance, stored=stored, changes=block_changes, stack=stack
        )
        with counts_checked():
            change = rows.change(blocks, values.rows, modes)
            if change is None:
                raise ResultUnchanged
            yield change


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
        output, table = self._output(blocks), self._table(modes)
        if self.changes.only_adds(blocks):
            parts = self.changes.parts(blocks, values, output)
            return None if parts.is_empty else (table.added(parts), modes)
        net = self.changes.of(blocks, values, output)
        changed = net.count()
        if not changed:
            return None
        if not self.maintenance.in_place and changed > self.maintenance.most_in_place:
            table, modes = replace(table, modes=None), None
        return table.by_value(net, output.copies), modes

    def _output(self, blocks: Blocks) -> RowsOutput:
        produced, columns = self.maintenance.changes.columns, self.write.columns
        names = stored_order(self.write.table, produced, columns, self.write.query_types)
        positions = {column.name: position for position, column in enumerate(produced)}
        items = (
            f"CAST(c{positions[name]} AS {column.type}) AS {quote(column.name)}"
            for name, column in zip(names, columns, strict=True)
        )
        types = {each.name: each for each in stored_schema(self.changes.session, self.stored).fields}
        return RowsOutput(
            query=self.changes.query,
            place=blocks.root.place,
            items=tuple(items),
            columns=StructType([types[column.name] for column in columns]),
        )

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
        parts = (rows.withColumn(self.copies, lit(sign)) for sign, rows in signed)
        # Rows of the table are compared with SQL equality.
        return net_rows(reduce(DataFrame.unionAll, parts), self.copies, signed_zeros=False)
