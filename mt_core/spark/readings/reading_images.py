"""Reading images: the changed rows of each place where a query reads a source, within its scope.

A query may read a source several times, with other columns and conditions each. The changed rows of the
source are read once, and kept for all tables that read it. For each reading they are then restricted to its
scope (`scoped_rows`): rows that differ only in columns that the query does not read cancel out, and rows that
its conditions reject are dropped. Both are done by an inline plan, so that a reading which is not affected
costs no job. A reading without changed rows has not changed for the query: its term vanishes from the delta,
and a query without changed readings returns the same rows as before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from mt_core.errors import MtError
from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.local_limits import MOST_BYTES, MOST_ROWS
from mt_core.incremental.reading_scopes import ReadingScope
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.iceberg.computed_rows import ComputedRows
from mt_core.spark.iceberg.jvm_rows import stored_schema
from mt_core.spark.queries.lineage import Lineage, Source
from mt_core.spark.readings.row_images import (
    COPIES,
    ImageViews,
    appended_rows,
    changed_rows,
    small_changed_rows,
)
from mt_core.spark.readings.scoped_rows import in_scope, scope_of
from mt_core.tables.engine import SourceChanges

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingImages:
    """The changed rows of the readings of a query between the versions `old` and `new` of its sources.

    The conditions on the `exact` readings are required (`scoped_rows`).
    """

    session: SparkSession
    lineage: Lineage
    changes: SourceChanges
    old: Mapping[str, str]
    new: Mapping[str, str]
    exact: frozenset[int] = frozenset()
    _schemas: dict[str, StructType] = field(default_factory=dict)

    def of(self, numbers: frozenset[int], stack: ExitStack) -> dict[int, ImageViews]:
        """Return the images of the readings *numbers*, without those of large appends.

        An unaffected reading has images without rows. The views exist until *stack* closes.
        """
        images = {}
        for source, places in self._sources(numbers):
            rows = self._rows(source, only_small=False)
            if rows is None:
                continue
            for number in places:
                scope = self._scope(source, number)
                images[number] = ImageViews(
                    net=in_scope(
                        self.session, self.lineage, number, scope, rows, required=number in self.exact
                    ),
                    stored=self._stored(source),
                    read=scope.columns,
                    stack=stack,
                    only_added=COPIES not in rows.columns,
                )
        return images

    def unaffected(self) -> frozenset[int]:
        """Return the readings of changed sources whose changes do not concern the query.

        Only small changes are read, and those that are kept. Starts no job.
        """
        changed = frozenset(
            number
            for number, source in enumerate(self.changes.readings)
            if self.changes.changes[source].kind.changes_rows
        )
        return frozenset(
            number
            for source, places in self._sources(changed)
            if any(self._is_narrow(source, number) for number in places)
            for number in self._unaffected(source, places)
        )

    def _unaffected(self, source: Source, places: Sequence[int]) -> Iterator[int]:
        try:
            rows = self._rows(source, only_small=True)
        except (MtError, *SPARK_ERRORS) as error:
            # The run reads the rows again, or all rows, and reports the error if it remains.
            log.info("a change is not checked: %s", error, extra={"action": "change_not_checked"})
            return
        for number in places if rows is not None else ():
            assert rows is not None
            scope = self._scope(source, number)
            if not in_scope(self.session, self.lineage, number, scope, rows).count():
                yield number

    def _sources(self, numbers: frozenset[int]) -> Iterator[tuple[Source, list[int]]]:
        """Yield the sources of readings whose changed rows can be read, with the readings."""
        for source in self.lineage.sources:
            places = [number for number in sorted(numbers) if self.changes.readings[number] == source.name]
            change = self.changes.changes.get(source.name)
            if places and change is not None and not change.from_nothing:
                yield source, places

    def _rows(self, source: Source, *, only_small: bool) -> ComputedRows | None:
        """Return the changed rows of a source with the columns that the query reads, or None."""
        change, columns = self.changes.changes[source.name], set[str]()
        for number, name in enumerate(self.changes.readings):
            if name == source.name:
                columns |= self._scope(source, number).columns
        given = self.session, self.lineage, source, self.old[source.name], self.new[source.name], columns
        if change.kind is ChangeKind.APPENDS:
            return appended_rows(*given) if _is_small(change) else None
        if change.kind is ChangeKind.ROWS:
            return small_changed_rows(*given) if only_small else changed_rows(*given)
        return None

    def _scope(self, source: Source, number: int) -> ReadingScope:
        """Return the scope of a reading, with the columns that the table has."""
        return scope_of(self.changes.shape.scopes, number, self._stored(source))

    def _is_narrow(self, source: Source, number: int) -> bool:
        """Return whether a change may not concern a reading: it has conditions or reads not all columns."""
        scope = self._scope(source, number)
        return bool(scope.filters) or len(scope.columns) < len(self._stored(source).names)

    def _stored(self, source: Source) -> StructType:
        if source.name not in self._schemas:
            with self.lineage.lock:
                self._schemas[source.name] = stored_schema(self.session, source.table)
        return self._schemas[source.name]


def _is_small(change: SourceChange) -> bool:
    """Return whether appended rows are within the driver's limits, by the sizes in the metadata."""
    if change.rows is None or change.size is None:
        return False
    return change.rows <= MOST_ROWS and change.size <= MOST_BYTES
