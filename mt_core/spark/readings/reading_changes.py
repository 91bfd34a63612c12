"""Reading changes: local rows of the readings of a run, which its terms join.

Rows of a reading have the same columns wherever they come from, those of its scope. So one plan can compute
with changed rows, with rows that were looked up, and with all rows of a small relation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Self

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from mt_core.incremental.local_limits import MOST_LOCAL
from mt_core.incremental.stages.look_ups import Match, SourceFacts
from mt_core.spark.driver.jvm_objects import java_strings
from mt_core.spark.iceberg.computed_rows import ComputedRows, together, without
from mt_core.spark.iceberg.look_ups import semi_join
from mt_core.spark.readings.keyed_readings import KeyedReadings
from mt_core.spark.readings.reading_images import ReadingImages
from mt_core.spark.readings.reading_versions import ReadingVersions
from mt_core.spark.readings.row_images import COPIES, ImageViews


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRelations:
    """The readings of a run as relations of local rows in the JVM, with the *images* of changed ones.

    Large appends have none.
    """

    session: SparkSession
    readings: KeyedReadings
    images: Mapping[int, ImageViews]
    changed_readings: frozenset[int]
    _changes: dict[int, tuple[ComputedRows, ComputedRows] | None] = field(default_factory=dict)

    @classmethod
    def of(cls, read: ReadingImages, tables: frozenset[int], stack: ExitStack) -> Self:
        """Return the readings of a run, with the changed rows that it has to *read* of those of *tables*.

        Readings whose changes do not concern the query have not changed. Views exist until *stack* closes.
        """
        session, lineage = read.session, read.lineage
        by_reading = read.changes.by_reading().items()
        changed = frozenset(number for number, change in by_reading if change.kind.changes_rows)
        images = read.of(changed & tables, stack)
        unaffected = {number for number, views in images.items() if views.few and not views.net.count()}
        readings = KeyedReadings(
            session=session,
            lineage=lineage,
            versions=ReadingVersions.at(session, lineage, read.new),
            scopes=read.changes.shape.scopes,
            exact=read.exact,
        )
        return cls(session=session, readings=readings, images=images, changed_readings=changed - unaffected)

    @property
    def filtered(self) -> frozenset[int]:
        """The readings of which a condition of the query rejects rows."""
        return self.readings.filtered

    def facts(self, number: int) -> SourceFacts:
        return self.readings.facts(number)

    def change(self, number: int) -> tuple[ComputedRows, ComputedRows] | None:
        """Return the rows that were added to a reading and those that were removed, or None if not local."""
        if number not in self._changes:
            self._changes[number] = self._change(number)
        return self._changes[number]

    def _change(self, number: int) -> tuple[ComputedRows, ComputedRows] | None:
        views = self.images.get(number)
        if views is None or not views.few or views.net.java is None:
            return None
        if views.only_added:
            added = self._local(number, views.net)
            return None if added is None else (added, self.together(number, ()))
        both = [repeated(views.net, self.columns(number), sign) for sign in (1, -1)]
        match both:
            case [ComputedRows() as added, ComputedRows() as removed]:
                return added, removed
            case _:
                return None

    def columns(self, number: int) -> StructType:
        """Return the columns that rows of a reading have."""
        return self.readings.columns(number)

    def whole(self, number: int) -> ComputedRows | None:
        return self._local(number, self.readings.whole(number))

    def matching(self, number: int, keys: ComputedRows, matches: Sequence[Match]) -> ComputedRows | None:
        return self._local(number, self.readings.matching(number, keys, matches))

    def before(self, number: int, rows: ComputedRows) -> ComputedRows:
        change = self.change(number)
        assert change is not None
        added, removed = change
        return without(self.together(number, [rows, removed]), added)

    def semi_join(self, rows: ComputedRows, others: ComputedRows, matches: Sequence[Match]) -> ComputedRows:
        return semi_join(rows, others, [(each.to, each.of, each.null_safe) for each in matches])

    def together(self, number: int, parts: Sequence[ComputedRows]) -> ComputedRows:
        return together(self.session, self.columns(number), parts)

    def _local(self, number: int, rows: ComputedRows | None) -> ComputedRows | None:
        """Return the rows with the columns of a reading, or None if they are not in the JVM."""
        if rows is None or rows.java is None:
            return None
        columns = self.columns(number)
        selected = rows if rows.columns == columns.names else rows.select(columns.names)
        return ComputedRows.of_java(self.session, columns, selected.java)


def repeated(rows: ComputedRows, columns: StructType, sign: int) -> ComputedRows | None:
    """Return the rows with a count of this *sign*, as often as that, or None if they are too many.

    They have *columns*, which lack the count.
    """
    names = java_strings(rows.session, columns.names)
    java = rows.java and rows.java.repeated(names, COPIES, sign, MOST_LOCAL)
    return java and ComputedRows.of_java(rows.session, columns, java)
