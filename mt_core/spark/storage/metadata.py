"""Table metadata: read, replaced by compare-and-set, and walked back through its history."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from mt_core.errors import CommitConflict, CommitUnknown, EngineError
from mt_core.model.storage import EPOCH, FENCE, LAST_RUN, TABLE_ID, Snapshot, run_branches
from mt_core.model.table import TableIdentifier
from mt_core.spark.catalogs.lookup import COMMIT_FAILED, Catalogs
from mt_core.spark.driver.failures import SPARK_ERRORS, java_classes
from mt_core.spark.driver.jvm_objects import java_map, static_member, text_map, texts
from mt_core.spark.engine_role import EngineRole
from mt_core.tables.engine import MetadataChange, StorageMetadata

MAIN = "main"
_REF = "org.apache.iceberg.SnapshotRef"


class MetadataStore(EngineRole):
    """The metadata of storage tables. `base` of what it reads is Iceberg's (operations, metadata) of exactly that version."""

    def load(self, identifier: TableIdentifier) -> StorageMetadata:
        with self._working():
            return read_metadata(self._catalogs, identifier)

    def swap(self, identifier: TableIdentifier, metadata: StorageMetadata, change: MetadataChange) -> None:
        with self._working() as session:
            operations, base = metadata.base
            changed = _changed(session, identifier, base, change)
            try:
                operations.commit(base, changed)
            except SPARK_ERRORS as cause:
                if java_classes(cause)[:1] == (COMMIT_FAILED,):
                    raise CommitConflict(
                        f"The metadata of {identifier} changed since it was read; read it again."
                    ) from cause
                raise CommitUnknown(
                    f"A change of the metadata of {identifier} was sent and its outcome is not known; read it again."
                ) from cause

    def ancestors(self, metadata: StorageMetadata) -> Iterator[Snapshot]:
        _, base = metadata.base
        with self._driver.translating():
            current = base.currentSnapshot()
        while current is not None:
            with self._driver.translating():
                snapshot = facts_of(self._driver.session, current)
            yield snapshot
            with self._driver.translating():
                parent = current.parentId()
                current = None if parent is None else base.snapshot(parent)


def read_metadata(catalogs: Catalogs, identifier: TableIdentifier) -> StorageMetadata:
    """Read the metadata; raises StorageMissing, and errors of Spark as they are."""
    # Each read has a table object of its own: the refresh of another reader must not move the base of this one.
    return metadata_of(catalogs.session, catalogs.load_table(identifier))


def metadata_of(session: SparkSession, table: Any) -> StorageMetadata:
    """Return the metadata of Iceberg's *table* as of its last refresh; nobody else may refresh it afterwards."""
    operations = table.operations()
    base = operations.current()
    properties, refs, main = text_map(session, base.properties()), base.refs(), base.currentSnapshot()
    branches = run_branches(texts(session, refs.keySet()))
    schema = static_member(session, "org.apache.iceberg.SchemaParser.toJson")(base.schema())
    return StorageMetadata(
        table_id=properties.get(TABLE_ID),
        location=base.location(),
        epoch=int(properties.get(EPOCH) or 0),
        last_run=properties.get(LAST_RUN),
        main=None if main is None else str(main.snapshotId()),
        branches={name: str(refs.get(name).snapshotId()) for name in branches},
        columns=tuple(field["name"] for field in json.loads(schema)["fields"]),
        base=(operations, base),
    )


def snapshot_of(session: SparkSession, metadata: StorageMetadata, snapshot_id: str) -> Snapshot:
    """Return a snapshot that *metadata* has."""
    _, base = metadata.base
    return facts_of(session, base.snapshot(int(snapshot_id)))


def facts_of(session: SparkSession, snapshot: Any) -> Snapshot:
    """Return what a snapshot of Iceberg's says of itself."""
    # One call of the JVM: each key of the summary would take one.
    body = json.loads(static_member(session, "org.apache.iceberg.SnapshotParser.toJson")(snapshot))
    summary = body.get("summary") or {}
    return Snapshot.of(str(body["snapshot-id"]), summary, replace=summary.get("operation") == "replace")


def _changed(session: SparkSession, identifier: TableIdentifier, base: Any, change: MetadataChange) -> Any:
    """Return Iceberg's metadata *base* with *change* applied."""
    builder = static_member(session, "org.apache.iceberg.TableMetadata.buildFrom")(base)
    if change.held is not None:
        builder.addSnapshot(change.held)
    current = base.ref(MAIN)
    main = None if current is None else current.snapshotId()
    new_branch = static_member(session, f"{_REF}.branchBuilder")
    if change.publish is not None:
        main = int(change.publish)
        ref = new_branch(main) if current is None else static_member(session, f"{_REF}.builderFrom")(current, main)
        builder.setRef(MAIN, ref.build())
    if change.branch is not None:
        if main is None:
            raise EngineError(f"{identifier} has no snapshot to begin a branch at; DROP it and create it again.")
        builder.setRef(change.branch, new_branch(main).build())
    for name in change.drop:
        builder.removeRef(name)
    # Every swap writes a metadata file of its own: Iceberg leaves out a commit that changes nothing, and then an earlier
    # one that is still on its way could land afterwards.
    properties = {FENCE: uuid4().hex}
    if change.epoch is not None:
        properties[EPOCH] = str(change.epoch)
    if change.last_run is not None:
        properties[LAST_RUN] = change.last_run
    builder.setProperties(java_map(session, properties))
    return builder.build()
