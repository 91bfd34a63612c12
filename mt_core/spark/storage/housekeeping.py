"""Housekeeping of storage tables: old snapshots, and files that belong to none."""

from __future__ import annotations

from datetime import datetime

from mt_core.model.table import TableIdentifier
from mt_core.spark.driver.file_systems import IO_IMPL
from mt_core.spark.driver.jvm_objects import static_member
from mt_core.spark.engine_role import EngineRole


class Housekeeping(EngineRole):
    """Works on tables that the caller has claimed; only `has_expired` may be called at any time."""

    def has_expired(self, identifier: TableIdentifier, older_than: datetime) -> bool:
        with self._working():
            table = self._catalogs.load_table(identifier)
            kept = {str(ref.snapshotId()) for ref in table.refs().values()}
            limit = _millis(older_than)
            return any(s.timestampMillis() < limit and str(s.snapshotId()) not in kept for s in table.snapshots())

    def expire(self, identifier: TableIdentifier, older_than: datetime) -> None:
        with self._working():
            expiry = self._catalogs.load_table(identifier).expireSnapshots()
            expiry.expireOlderThan(_millis(older_than)).retainLast(1).commit()

    def remove_orphans(self, identifier: TableIdentifier, older_than: datetime) -> None:
        with self._working() as session:
            table = self._catalogs.load_table(identifier)
            actions = static_member(session, "org.apache.iceberg.spark.actions.SparkActions.get")
            orphans = actions(session._jsparkSession).deleteOrphanFiles(table)
            # A catalog with a FileIO of its own may write where Hadoop cannot list files.
            lists_by_prefix = bool(self._catalogs.setting(identifier.catalog, IO_IMPL))
            orphans.usePrefixListing(lists_by_prefix).olderThan(_millis(older_than)).execute()


def _millis(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)
