"""Table metadata: read, swapped by compare-and-set, and walked back through its history."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from mt_core.errors import CommitConflict, CommitUnknown, EngineError
from mt_core.model.storage import EPOCH, FENCE, LAST_RUN, TABLE_ID, Snapshot, run_branches
from mt_core.model.table import TableIdentifier
from mt_core.spark.catalogs.lookup import Catalogs
from mt_core.spark.driver.failures import SPARK_ERRORS, java_classes
from mt_core.spark.jvm_objects import java_items, static_member
from mt_core.tables.engine import MetadataChange, StorageMetadata

MAIN = "main"

_BRANCH_BUILDER = "org.apache.iceberg.SnapshotRef.branchBuilder"
_CONFLICT = "org.apache.iceberg.exceptions.CommitFailedException"


class MetadataStore:
    """The metadata of storage tables. `base` of what it reads is Iceberg's (operations, metadata) of exactly that version."""

    def __init__(self, catalogs: Catalogs) -> None:
        self._catalogs = catalogs

    def load(self, identifier: TableIdentifier) -> StorageMetadata:
        """Read the metadata; raises StorageMissing."""
        # A table object of its own for every reading: another reader's refresh must not move the base of this one.
        operations = self._catalogs.load_table(identifier).operations()
        base = operations.current()
        properties, refs, main = base.properties(), base.refs(), base.currentSnapshot()
        branches = run_branches(str(name) for name in java_items(refs.keySet()))
        return StorageMetadata(
            table_id=properties.get(TABLE_ID),
            location=base.location(),
            epoch=int(properties.get(EPOCH) or 0),
            last_run=properties.get(LAST_RUN),
            main=None if main is None else str(main.snapshotId()),
            branches={name: str(refs.get(name).snapshotId()) for name in branches},
            columns=self._column_names(base),
            base=(operations, base),
        )

    def swap(self, identifier: TableIdentifier, metadata: StorageMetadata, change: MetadataChange) -> None:
        """Apply *change* to exactly *metadata*; raises CommitConflict or CommitUnknown."""
        operations, base = metadata.base
        changed = self._changed(identifier, base, change)
        try:
            operations.commit(base, changed)
        except SPARK_ERRORS as cause:
            if java_classes(cause)[:1] == (_CONFLICT,):
                raise CommitConflict(
                    f"The metadata of {identifier} changed since it was read; read it again."
                ) from cause
            raise CommitUnknown(
                f"A change of the metadata of {identifier} was sent and its outcome is not known; read it again."
            ) from cause

    def _changed(self, identifier: TableIdentifier, base: Any, change: MetadataChange) -> Any:
        session = self._catalogs.session
        builder = static_member(session, "org.apache.iceberg.TableMetadata.buildFrom")(base)
        if change.branch is not None:
            main = base.currentSnapshot()
            if main is None:
                raise EngineError(f"{identifier} has no snapshot to begin a branch at; DROP it and create it again.")
            beginning = static_member(session, _BRANCH_BUILDER)(main.snapshotId())
            builder.setRef(change.branch, beginning.build())
        if change.publish is not None:
            builder.setRef(MAIN, self._main_at(base, int(change.publish)))
        for branch in change.drop:
            builder.removeRef(branch)
        builder.setProperties(self._properties(change))
        return builder.build()

    def _main_at(self, base: Any, snapshot_id: int) -> Any:
        session, existing = self._catalogs.session, base.ref(MAIN)
        if existing is None:
            return static_member(session, _BRANCH_BUILDER)(snapshot_id).build()
        return static_member(session, "org.apache.iceberg.SnapshotRef.builderFrom")(existing, snapshot_id).build()

    def _properties(self, change: MetadataChange) -> Any:
        # A metadata file of its own for every swap: Iceberg leaves out a commit that changes nothing, and then
        # one that is still on its way could land afterwards.
        values = {FENCE: uuid4().hex}
        if change.epoch is not None:
            values[EPOCH] = str(change.epoch)
        if change.last_run is not None:
            values[LAST_RUN] = change.last_run
        properties = static_member(self._catalogs.session, "java.util.HashMap")()
        for key, value in values.items():
            properties.put(key, value)
        return properties

    def _column_names(self, base: Any) -> tuple[str, ...]:
        schema = static_member(self._catalogs.session, "org.apache.iceberg.SchemaParser.toJson")(base.schema())
        return tuple(field["name"] for field in json.loads(schema)["fields"])


def ancestors(metadata: StorageMetadata) -> Iterator[Snapshot]:
    """Yield main and its ancestors, newest first, as far as they have not expired."""
    _, base = metadata.base
    current = base.currentSnapshot()
    while current is not None:
        yield Snapshot.of(str(current.snapshotId()), current.summary(), replace=current.operation() == "replace")
        parent = current.parentId()
        current = None if parent is None else base.snapshot(parent)


def summary_of(metadata: StorageMetadata, snapshot_id: str) -> Any:
    """Return the summary of a snapshot that *metadata* has, as Iceberg's map."""
    _, base = metadata.base
    return base.snapshot(int(snapshot_id)).summary()
