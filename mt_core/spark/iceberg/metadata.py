"""Iceberg table metadata: read in one JVM call, and replaced by compare-and-set."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import CommitConflict, CommitUnknown, EngineError
from mt_core.model.storage import MetadataChange, Snapshot, StorageMetadata
from mt_core.spark.catalogs.storage_catalogs import COMMIT_FAILED
from mt_core.spark.driver.failures import SPARK_ERRORS, java_classes, translate
from mt_core.spark.driver.jvm_objects import own_class, static_member

_METADATA = "freshtable.iceberg.Metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The Iceberg objects behind a StorageMetadata: `operations` commits changes of `metadata`.

    `newest` is the current snapshot of the main branch, and `parent` the id of the snapshot before it.
    """

    table: Any
    operations: Any
    metadata: Any
    newest: Snapshot | None
    parent: int | None

    def snapshot(self, snapshot_id: str | int) -> Any | None:
        """Return Iceberg's Snapshot object, or None if the metadata does not contain the snapshot."""
        return self.metadata.snapshot(int(snapshot_id))

    @property
    def is_current(self) -> bool:
        """True if `operations` has not loaded newer metadata since this object was created."""
        return str(self.operations.current().metadataFileLocation()) == str(
            self.metadata.metadataFileLocation()
        )


def metadata_of(session: SparkSession, table: Any) -> StorageMetadata:
    """Return the metadata that *table* loaded at its last refresh.

    Nothing else may refresh *table* afterwards.
    """
    operations = table.operations()
    metadata = operations.current()
    facts = json.loads(own_class(session, _METADATA).facts(metadata))
    main = facts["main"]
    return StorageMetadata(
        location=facts["location"],
        properties=facts["properties"],
        main=None if main is None else str(main["snapshot-id"]),
        branches=facts["branches"],
        columns=tuple(facts["columns"]),
        base=Base(
            table=table,
            operations=operations,
            metadata=metadata,
            newest=None if main is None else _snapshot(main),
            parent=None if main is None else main.get("parent-snapshot-id"),
        ),
    )


def commit(session: SparkSession, name: str, metadata: StorageMetadata, change: MetadataChange) -> None:
    """Apply *change* to exactly the version *metadata* of the table *name*, in one commit.

    *change* must change something, because Iceberg skips a commit without changes, and an older commit that
    is still in flight could then succeed later. Raises CommitConflict if the table has newer metadata, and
    CommitUnknown if the outcome is unknown.
    """
    base: Base = metadata.base
    if change.branch is not None and metadata.main is None and change.publish is None:
        raise EngineError(
            f"{name} has no snapshot from which a branch can start; DROP it and create it again."
        )
    body = {
        "properties": dict(change.properties),
        "removed": change.removed,
        "publish": change.publish,
        "branch": change.branch,
        "drop": change.drop,
    }
    changed = own_class(session, _METADATA).changed(base.metadata, change.pending, json.dumps(body))
    try:
        base.operations.commit(base.metadata, changed)
    except SPARK_ERRORS as cause:
        classes = java_classes(cause)
        if classes[:1] == (COMMIT_FAILED,):
            raise CommitConflict(
                f"The metadata of {name} changed since it was read; read it again."
            ) from cause
        why = translate(cause).message if classes else "the JVM did not answer"
        raise CommitUnknown(
            f"It is not known whether a change of the metadata of {name} was committed: {why}"
        ) from cause


def ancestors(session: SparkSession, metadata: StorageMetadata) -> Iterator[Snapshot]:
    """Yield the current snapshot of the main branch and its unexpired ancestors, newest first.

    Errors of Spark are raised untranslated.
    """
    base: Base = metadata.base
    parent = base.parent
    if base.newest is not None:
        yield base.newest
    while parent is not None and (snapshot := base.snapshot(parent)) is not None:
        yield facts_of(session, snapshot)
        parent = snapshot.parentId()


def facts_of(session: SparkSession, snapshot: Any) -> Snapshot:
    """Return the id, summary and operation of an Iceberg *snapshot*."""
    # Read them as JSON in a single call, because each key of the summary would need a call of its own.
    return _snapshot(json.loads(static_member(session, "org.apache.iceberg.SnapshotParser.toJson")(snapshot)))


def _snapshot(body: dict[str, Any]) -> Snapshot:
    summary = body.get("summary") or {}
    return Snapshot.of(str(body["snapshot-id"]), summary, replace=summary.get("operation") == "replace")
