"""Appended rows: few rows that were appended to a source, read, computed and written by the driver, without a job of Spark's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mt_core.maintenance.changes import ChangeKind
from mt_core.maintenance.delta import Images, NamedImages
from mt_core.model.table import Column
from mt_core.spark.driver.jvm_objects import class_name, java_dataset, scala_items
from mt_core.spark.maintenance.branch_commit import BranchCommit
from mt_core.spark.maintenance.kept_plans import KeptPlans
from mt_core.spark.maintenance.opened_files import Nothing, OpenedFiles, is_partitioned
from mt_core.spark.maintenance.row_images import temporary_view
from mt_core.spark.maintenance.source_changes import pins
from mt_core.spark.maintenance.staged_files import planned_tasks
from mt_core.spark.maintenance.written_files import FileWriter, collected
from mt_core.spark.queries.lineage import Lineage, Source, shape_of
from mt_core.tables.engine import Maintenance, SourceChanges, SourceVector

MOST_APPENDED = 5_000
"""Rows, and"""
MOST_BYTES = 4 * 1024 * 1024
"""bytes of their files, up to which Spark takes longer to plan a job than the driver to compute them."""
_LOCAL = frozenset({"LocalRelation", "OneRowRelation"})
Planned = Callable[[Images], DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The analysed plan of a query over rows that take the place of `nothing`."""

    nothing: Nothing
    plan: Any


_kept: KeptPlans[_Plan] = KeptPlans()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedRows:
    """The rows that were appended to what a query reads, between the versions of *maintenance* and *vector*."""

    session: SparkSession
    lineage: Lineage
    maintenance: Maintenance
    vector: SourceVector

    def few(self, columns: tuple[Column, ...], planned: Planned, *, grouped: bool = False) -> DataFrame | None:
        """Return what *planned* gives, in *columns*, over the rows that were appended to the only relation that the query reads.

        None if they are many, or a job is to read them. *grouped*: they are going to be.
        """
        source = _appended_to(self.lineage, self.maintenance.changes)
        if source is None:
            return None
        old, new = pins(self.maintenance.since)[source.name], pins(self.vector)[source.name]
        with self.lineage.lock:
            if shape_of(source.table) != self.lineage.shapes[source.name]:
                return None
            scan = source.table.newIncrementalAppendScan().fromSnapshotExclusive(int(old)).toSnapshot(int(new))
            files = OpenedFiles.of(self.session, source.table, planned_tasks(self.session, scan))
            if files is None:
                return None
            make = partial(self._plan, files, planned, grouped=grouped)
            kept = _kept.of(self.session, self.lineage, columns, make)
        plan = files.rows_in(kept.plan, kept.nothing, MOST_APPENDED)
        return None if plan is None else DataFrame(java_dataset(self.session, plan), self.session)

    def _plan(self, files: OpenedFiles, planned: Planned, *, grouped: bool) -> _Plan:
        nothing = files.nothing()
        frame = DataFrame(java_dataset(self.session, nothing.relation), self.session)
        # In one part, rows need not be exchanged to be grouped.
        with temporary_view(frame.coalesce(1) if grouped else frame) as view:
            given = planned(NamedImages(removed=view, added=view, both=view))
            return _Plan(nothing=nothing, plan=given._jdf.queryExecution().analyzed())


def appended_by_driver(rows: DataFrame, commit: BranchCommit) -> bool:
    """Append *rows* by *commit*.

    False, and it is not made, if a job is to compute them, or to write them: to partitions, or in an order.
    """
    table = commit.table
    if is_partitioned(table) or not table.sortOrder().isUnsorted():
        return False
    if not _is_of_driver(rows):
        return False
    writer = FileWriter.of(rows.sparkSession, table)
    if not writer.stores(rows):
        return False
    come = collected(rows)
    if len(come) > MOST_APPENDED:
        return False
    update = table.newAppend()
    if come:
        update.appendFile(writer.data_file(come))
    commit.make(update)
    return True


def _is_of_driver(rows: DataFrame) -> bool:
    """Return whether the driver can compute *rows* without a job.

    What reads a table cannot be. It is not optimized to find that out: its job optimizes it once more.
    """
    execution = rows._jdf.queryExecution()
    if any(class_name(leaf) not in _LOCAL for leaf in scala_items(execution.analyzed().collectLeaves())):
        return False
    return class_name(execution.optimizedPlan()) == "LocalRelation"


def _appended_to(lineage: Lineage, changes: SourceChanges) -> Source | None:
    """Return the only relation that a query reads, if few rows were appended to it."""
    if len(changes.readings) != 1 or len(changes.changes) != 1:
        return None
    ((name, change),) = changes.changes.items()
    if change.kind is not ChangeKind.APPENDS or change.rows is None or change.size is None:
        return None
    few = change.rows <= MOST_APPENDED and change.size <= MOST_BYTES
    return next(source for source in lineage.sources if source.name == name) if few else None
