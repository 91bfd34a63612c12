"""The metadata of storage tables, as the protocol of refreshes reads and replaces it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

from mt_core.model.storage import FENCE, MetadataChange, Snapshot, StorageMetadata
from mt_core.model.table import TableIdentifier
from mt_core.spark.iceberg.metadata import ancestors, commit, metadata_of
from mt_core.spark.refresh.engine_role import EngineRole


class MetadataStore(EngineRole):
    """The metadata of storage tables."""

    def load(self, identifier: TableIdentifier) -> StorageMetadata:
        with self._working() as session:
            # Each read has a table object of its own: the refresh of another reader must not move the base of this one.
            return metadata_of(session, self._catalogs.load_table(identifier))

    def swap(self, identifier: TableIdentifier, metadata: StorageMetadata, change: MetadataChange) -> None:
        with self._working() as session:
            # `commit` says why each change has to differ from all others.
            unique = {**change.properties, FENCE: uuid4().hex}
            commit(session, str(identifier), metadata, replace(change, properties=unique))

    def ancestors(self, metadata: StorageMetadata) -> Iterator[Snapshot]:
        found = ancestors(self._driver.session, metadata)
        while True:
            with self._driver.translating():
                snapshot = next(found, None)
            if snapshot is None:
                return
            yield snapshot
