"""Maintained blocks: the change of a table whose rows are those of a block.

The block (`mt_core.incremental.stages.blocks`) gives the net change of the query's rows. Cast to the types of
the table, it says which rows are deleted and which are inserted. Nothing is kept beside the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mt_core.base.identifiers import quote
from mt_core.incremental.delta import unused_name
from mt_core.incremental.stages.blocks import Blocks
from mt_core.incremental.stages.computed_facts import facts_of_readings
from mt_core.incremental.strategy import ResultUnchanged, TooManyRows
from mt_core.spark.iceberg.computed_rows import ComputedRows
from mt_core.spark.iceberg.find_rows import TableVersion
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.iceberg.replace_rows import Change, DeleteModes
from mt_core.spark.incremental.bags import Change as BlockChange
from mt_core.spark.incremental.computed_reading import RunReadings
from mt_core.spark.incremental.spark_bags import SparkBags
from mt_core.spark.incremental.table_change import TableChange, counts_checked
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.queries.source_versions import pins
from mt_core.spark.queries.staged_query import StagedQuery
from mt_core.spark.readings.reading_changes import LocalRelations
from mt_core.spark.readings.reading_images import ReadingImages
from mt_core.spark.readings.reading_versions import check_unchanged
from mt_core.spark.readings.row_images import net_rows, signed
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
    with ExitStack() as stack:
        change = _change(session, lineage, write, maintenance, stack)
        if not change.count():
            raise ResultUnchanged
        if not maintenance.in_place and change.count() > maintenance.most_in_place:
            modes = None
        columns = tuple(column.name for column in write.columns)
        copies = unused_name("_copies", columns)
        table = TableChange(
            session=session,
            lineage=lineage,
            at=TableVersion(table=stored, snapshot=maintenance.base),
            name=f"{write.table.sql} VERSION AS OF {maintenance.base}",
            columns=columns,
            modes=modes,
            small=maintenance.small,
            stack=stack,
        )
        net = _stored(session, lineage, write, maintenance, change, copies)
        with counts_checked():
            yield table.by_value(net, copies), modes


def _change(
    session: SparkSession, lineage: Lineage, write: Write, maintenance: Maintenance, stack: ExitStack
) -> BlockChange[ComputedRows]:
    """Return the net change of the query's rows."""
    changes, blocks = maintenance.changes, maintenance.changes.shape.rows
    assert isinstance(blocks, Blocks)
    old, new = pins(maintenance.since), pins(write.vector)
    exact = blocks.below_computed()
    read = ReadingImages(session=session, lineage=lineage, changes=changes, old=old, new=new, exact=exact)
    relations = LocalRelations.of(read, blocks.tables(), stack)
    if any(relations.change(number) is None for number in relations.changed_readings & blocks.tables()):
        raise TooManyRows("more rows changed than the driver holds")
    tables = {number: relations.facts(number) for number in blocks.tables()}
    bags = SparkBags(session=session, lineage=lineage, query=StagedQuery.of_lineage(session, lineage))
    run = RunReadings(bags=bags, tables=relations)
    return run.block(blocks, facts_of_readings(blocks, tables)).change()


def _stored(
    session: SparkSession,
    lineage: Lineage,
    write: Write,
    maintenance: Maintenance,
    change: BlockChange[ComputedRows],
    copies: str,
) -> ComputedRows:
    """Return a change with the columns of the table, in its types, and the column *copies*."""
    produced = maintenance.changes.columns
    names = stored_order(write.table, produced, write.columns, write.query_types)
    positions = {column.name: position for position, column in enumerate(produced)}
    items = ", ".join(
        f"CAST(c{positions[name]} AS {column.type}) AS {quote(column.name)}"
        for name, column in zip(names, write.columns, strict=True)
    )

    def net(at: Mapping[str, str]) -> DataFrame:
        added, removed = (session.sql(f"SELECT {items} FROM {at[name]}") for name in ("added", "removed"))
        # Rows of the table are compared with SQL equality.
        return net_rows(signed(removed, added, copies), copies, signed_zeros=False)

    given = {"added": change.added, "removed": change.removed}
    return PLANS.computed(session, lineage, f"stored {items}", net, given)
