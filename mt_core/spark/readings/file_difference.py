"""The files that differ between two snapshots of a table, found without a Spark job.

Both listings and their difference remain in the JVM; Python has their counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import own_class
from mt_core.spark.queries.lineage import shape_of
from mt_core.spark.readings.version_cache import VersionCache
from mt_core.spark.readings.version_files import listed_files

MOST_CACHED_FILES = 100_000
"""The maximum number of files in the cached differences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """The files that only one of two snapshots has, or that have different deletes in each.

    `java` is a `freshtable.iceberg.FileDifference`, and `lineage` a `freshtable.iceberg.RowLineage`. `files`,
    `size` (in bytes) and `rows_read` are the maximum that a reader of the difference must read; of a file
    with different deleted positions, it is only the rows at these positions. After a rewrite of files, some
    of the rows were only copied.
    """

    java: Any
    lineage: Any
    files: int
    size: int
    rows_read: int
    is_rewrite: bool

    @property
    def rows(self) -> int | None:
        """The maximum number of rows that differ, or None if it is unknown."""
        return None if self.is_rewrite else self.rows_read


# A run needs each difference twice: to choose its strategy and to write. Runs of other tables that read the
# same source need it too.
_differences: VersionCache[FileDifference] = VersionCache(MOST_CACHED_FILES, lambda each: each.files)


def files_between(session: SparkSession, table: Any, old: str, new: str) -> FileDifference:
    """Return the difference between two unexpired snapshots of *table*."""
    shape = shape_of(table)
    difference = _differences.of(session, shape, old, new)
    if difference is None:
        before, after = (listed_files(session, table, snapshot) for snapshot in (old, new))
        java = before.differenceTo(after)
        difference = FileDifference(
            java=java,
            lineage=own_class(session, "freshtable.iceberg.RowLineage").between(table, int(old), int(new)),
            files=int(java.files()),
            size=int(java.bytes()),
            rows_read=int(java.rows()),
            is_rewrite=bool(java.isRewrite()),
        )
        _differences.store(difference, session, shape, old, new)
    return difference
