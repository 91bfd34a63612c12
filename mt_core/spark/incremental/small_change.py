"""Small changes: the changed rows of a query's only source, processed without a Spark job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.delta import Images, NamedImages
from mt_core.spark.iceberg.computed_rows import ComputedRows
from mt_core.spark.iceberg.inline_plans import PLANS, Given
from mt_core.spark.iceberg.scan_tasks import (
    MOST_BYTES,
    MOST_ROWS,
    SourceRows,
    extent_of,
    planned_tasks,
    source_rows,
)
from mt_core.spark.incremental.row_images import ImageViews
from mt_core.spark.queries.lineage import Lineage, Source, shape_of
from mt_core.spark.queries.source_versions import pins
from mt_core.tables.engine import Maintenance, SourceVector

Query = Callable[[Images], str]
"""Returns the text of a query, given the images of the changed rows."""
_ROWS = "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallChange:
    """The changed rows of a query's only source.

    `images` returns row images, given the relation name of the rows.
    """

    session: SparkSession
    lineage: Lineage
    rows: Given
    images: Callable[[str], Images]

    @classmethod
    def of(
        cls,
        session: SparkSession,
        lineage: Lineage,
        vector: SourceVector,
        maintenance: Maintenance,
        images: Mapping[str, ImageViews],
    ) -> SmallChange | None:
        """Return the change between the versions of *maintenance* and *vector*, or None if it is not small.

        *images* contains the row images of updated sources, by source name.
        """
        changes = maintenance.changes
        if len(changes.readings) != 1 or len(changes.changes) != 1:
            return None
        ((name, change),) = changes.changes.items()
        if name in images:
            views = images[name]
            return (
                cls(session=session, lineage=lineage, rows=views.net, images=views.of) if views.few else None
            )
        if not _is_small(change):
            return None
        source = next(source for source in lineage.sources if source.name == name)
        rows = _appended(session, lineage, source, pins(maintenance.since)[name], pins(vector)[name])
        return None if rows is None else cls(session=session, lineage=lineage, rows=rows, images=_added)

    def compute(self, text: Query, make: Callable[[Images], DataFrame] | None = None) -> ComputedRows | None:
        """Return the rows of the query *text*, or None if a Spark job must compute them.

        If *make* is given, it builds the query as a DataFrame, and *text* only identifies the cached plan.
        """
        query = make or (lambda images: self.session.sql(text(images)))
        purpose = text(self.images(_ROWS))
        return PLANS.run(
            self.session, self.lineage, purpose, lambda at: query(self.images(at[_ROWS])), {_ROWS: self.rows}
        )


def _added(relation: str) -> Images:
    return NamedImages(removed=f"(SELECT * FROM {relation} WHERE false)", added=relation, both=relation)


def _is_small(change: SourceChange) -> bool:
    """Return whether the change consists only of appends and is within the driver's limits.

    The limits are compared with the sizes in the metadata, which avoids planning a scan over a large
    change.
    """
    if change.kind is not ChangeKind.APPENDS or change.rows is None or change.size is None:
        return False
    return change.rows <= MOST_ROWS and change.size <= MOST_BYTES


def _appended(
    session: SparkSession, lineage: Lineage, source: Source, old: str, new: str
) -> SourceRows | None:
    """Return the rows appended between two snapshots, or None if a Spark job should read their files."""
    with lineage.lock:
        if shape_of(source.table) != lineage.shapes[source.name]:
            return None
        scan = source.table.newIncrementalAppendScan().fromSnapshotExclusive(int(old)).toSnapshot(int(new))
        tasks = planned_tasks(session, scan)
        return (
            source_rows(session, source.table, tasks)
            if tasks and extent_of(session, tasks).is_read_locally
            else None
        )
