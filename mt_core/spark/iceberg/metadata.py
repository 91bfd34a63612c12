"""Iceberg table metadata: read in one JVM call, and changed by commits that move branches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import CommitConflict, CommitUnknown
from mt_core.model.storage import MetadataChange, Snapshot, StorageMetadata, repeated_summary
from mt_core.spark.catalogs.storage_catalogs import COMMIT_FAILED
from mt_core.spark.driver.failures import SPARK_ERRORS, java_classes, translate
from mt_core.spark.driver.jvm_objects import own_class, static_member

_METADATA, _MANIFESTS = "freshtable.iceberg.Metadata", "freshtable.iceberg.Manifests"
_HELD = "freshtable.iceberg.HeldTable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The Iceberg objects behind a StorageMetadata: `metadata` is a version of `table`.

    `newest` is the current snapshot of the main branch, `summary` its summary, and `parent` the id of the
    snapshot before it.
    """

    table: Any
    metadata: Any
    newest: Snapshot | None
    summary: Mapping[str, str]
    parent: int | None

    def snapshot(self, snapshot_id: str | int) -> Any | None:
        """Return Iceberg's Snapshot object, or None if the metadata does not contain the snapshot."""
        return self.metadata.snapshot(int(snapshot_id))


def metadata_of(session: SparkSession, table: Any) -> StorageMetadata:
    """Return the metadata that *table* loaded at its last refresh."""
    metadata = table.operations().current()
    facts = json.loads(own_class(session, _METADATA).facts(metadata))
    main = facts["main"]
    return StorageMetadata(
        location=facts["location"],
        properties=facts["properties"],
        main=None if main is None else str(main["snapshot-id"]),
        branches=facts["branches"],
        columns=tuple(facts["columns"]),
        last_number=facts["last-number"],
        base=Base(
            table=table,
            metadata=metadata,
            newest=None if main is None else _snapshot(main),
            summary={} if main is None else _summary(main),
            parent=None if main is None else main.get("parent-snapshot-id"),
        ),
    )


def commit(session: SparkSession, name: str, metadata: StorageMetadata, change: MetadataChange) -> None:
    """Apply *change* to the version *metadata* of the table *name*, in one commit.

    Raises CommitConflict if a branch that *change* sets or drops is no longer where it is in *metadata*;
    main counts as a branch. A catalog may refuse the commit for any other difference too. Raises
    CommitUnknown if the outcome is unknown.
    """
    base: Base = metadata.base
    pending, publish = change.pending, change.publish
    if change.closes is not None:
        pending = _empty(session, base, change.closes)
        publish = str(pending.snapshotId())
    body = {
        "properties": dict(change.properties),
        "removed": change.removed,
        "publish": publish,
        "branches": dict(change.branches),
        "drop": change.drop,
    }
    try:
        own_class(session, _METADATA).commit(base.table, base.metadata, pending, json.dumps(body))
    except SPARK_ERRORS as cause:
        classes = java_classes(cause)
        if classes[:1] == (COMMIT_FAILED,):
            raise _conflict(name) from cause
        why = translate(cause).message if classes else "the JVM did not answer"
        raise CommitUnknown(
            f"It is not known whether a change of the metadata of {name} was committed: {why}"
        ) from cause


def _empty(session: SparkSession, base: Base, entries: Mapping[str, str]) -> Any:
    """Return a pending snapshot that changes no rows of main and repeats its summary."""
    summary = json.dumps({**repeated_summary(base.summary), **entries})
    table = own_class(session, _HELD).of(base.table, base.metadata, None)
    own_class(session, _MANIFESTS).update(table, table.newFastAppend(), summary, False)
    return own_class(session, _METADATA).replacing(table.pending())


def _conflict(name: str) -> CommitConflict:
    return CommitConflict(f"The metadata of {name} changed since it was read; read it again.")


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


def _snapshot(body: Mapping[str, Any]) -> Snapshot:
    summary = _summary(body)
    return Snapshot.of(str(body["snapshot-id"]), summary, replace=summary.get("operation") == "replace")


def _summary(body: Mapping[str, Any]) -> Mapping[str, str]:
    return body.get("summary") or {}
