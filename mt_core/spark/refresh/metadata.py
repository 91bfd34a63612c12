"""The metadata of storage tables: loads it, and replaces it by compare-and-set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

from mt_core.model.storage import FENCE, MetadataChange, Snapshot, StorageMetadata
from mt_core.model.table import TableIdentifier
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.iceberg.metadata import ancestors, commit, metadata_of
from mt_core.tables.engine import TableMetadata


class MetadataStore(TableMetadata):
    """Loads and swaps the metadata of storage tables."""

    def __init__(self, spark: SparkContexts) -> None:
        self._spark = spark

    def load(self, identifier: TableIdentifier) -> StorageMetadata:
        with self._spark.working() as session:
            # Every reader needs a table object of its own, because a refresh by another reader would change
            # its base.
            return metadata_of(session, self._spark.catalogs.load_table(identifier))

    def swap(self, identifier: TableIdentifier, metadata: StorageMetadata, change: MetadataChange) -> None:
        with self._spark.working() as session:
            # `commit` explains why every change must be unique.
            unique = {**change.properties, FENCE: uuid4().hex}
            commit(session, str(identifier), metadata, replace(change, properties=unique))

    def ancestors(self, metadata: StorageMetadata) -> Iterator[Snapshot]:
        snapshots = ancestors(self._spark.driver.session, metadata)
        while True:
            with self._spark.driver.translating():
                snapshot = next(snapshots, None)
            if snapshot is None:
                return
            yield snapshot
