"""The metadata of storage tables: loads and changes it."""

from __future__ import annotations

from collections.abc import Iterator

from mt_core.model.storage import MetadataChange, Snapshot, StorageMetadata
from mt_core.model.table import TableIdentifier
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.iceberg.held_commit import discard
from mt_core.spark.iceberg.metadata import Base, ancestors, commit, metadata_of
from mt_core.tables.engine import Staged, TableMetadata


class MetadataStore(TableMetadata):
    """Loads and changes the metadata of storage tables."""

    def __init__(self, spark: SparkContexts) -> None:
        self._spark = spark

    def load(self, identifier: TableIdentifier) -> StorageMetadata:
        with self._spark.working() as session:
            # Every reader needs a table object of its own, because a refresh by another reader would change
            # its base.
            return metadata_of(session, self._spark.catalogs.load_table(identifier))

    def swap(self, identifier: TableIdentifier, metadata: StorageMetadata, change: MetadataChange) -> None:
        with self._spark.working() as session:
            commit(session, str(identifier), metadata, change)

    def discard(self, staged: Staged) -> None:
        base: Base = staged.metadata.base
        with self._spark.working() as session:
            discard(session, base.table, staged.pending)

    def ancestors(self, metadata: StorageMetadata) -> Iterator[Snapshot]:
        snapshots = ancestors(self._spark.driver.session, metadata)
        while True:
            with self._spark.driver.translating():
                snapshot = next(snapshots, None)
            if snapshot is None:
                return
            yield snapshot
