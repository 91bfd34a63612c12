"""Old snapshots and files of storage tables: found, expired, removed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mt_core.model.table import TableIdentifier
from mt_core.spark.catalogs.lookup import Catalogs
from mt_core.spark.driver.file_systems import IO_IMPL
from mt_core.spark.jvm_objects import jvm_of


class Housekeeping:
    """Works on tables that the caller has claimed; only `has_expired` may be asked at any time."""

    def __init__(self, catalogs: Catalogs) -> None:
        self._catalogs = catalogs

    def has_expired(self, identifier: TableIdentifier, older_than: datetime) -> bool:
        """Return whether a snapshot older than *older_than* is kept by nothing but its age."""
        table = self._catalogs.load_table(identifier)
        kept = {str(ref.snapshotId()) for ref in table.refs().values()}
        limit = _millis(older_than)
        return any(s.timestampMillis() < limit and str(s.snapshotId()) not in kept for s in table.snapshots())

    def expire(self, identifier: TableIdentifier, older_than: datetime) -> None:
        """Forget the snapshots before *older_than*, with the files that only they need."""
        self._catalogs.load_table(identifier).expireSnapshots().expireOlderThan(_millis(older_than)).retainLast(
            1
        ).commit()

    def remove_orphans(self, identifier: TableIdentifier, older_than: datetime) -> None:
        """Remove files in the table's folder that were written before *older_than* and belong to no snapshot."""
        table = self._catalogs.load_table(identifier)
        actions: Any = jvm_of(self._catalogs.session).org.apache.iceberg.spark.actions.SparkActions
        orphans = actions.get(self._catalogs.session._jsparkSession).deleteOrphanFiles(table)
        # A catalog that names the means by which it writes files may write where Hadoop cannot list them.
        by_catalog = bool(self._catalogs.setting(identifier.catalog, IO_IMPL))
        orphans.usePrefixListing(by_catalog).olderThan(_millis(older_than)).execute()


def _millis(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)
