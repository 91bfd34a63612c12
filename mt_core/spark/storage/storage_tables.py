"""Storage tables: created with one snapshot of ours, widened, and dropped together with their files."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Sequence
from typing import Any

from mt_core.errors import CommitConflict, DefinitionInvalid, MtError, StorageMissing, TableExists
from mt_core.identifiers import display_name
from mt_core.model.storage import CREATED, EPOCH, TABLE_ID
from mt_core.model.table import Column, TableIdentifier
from mt_core.spark.catalogs.columns import iceberg_schema, iceberg_type
from mt_core.spark.catalogs.lookup import ALREADY_EXISTS, Catalogs, translating
from mt_core.spark.driver.failures import SPARK_ERRORS, java_classes
from mt_core.spark.driver.file_systems import delete_folder
from mt_core.spark.jvm_objects import java_strings, jvm_of
from mt_core.tables.engine import StorageSpec

log = logging.getLogger(__name__)

_DEFAULTS = {
    # Every refresh makes metadata files; old ones go by themselves.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    # For writers that are not ours; refreshes never retry, they decide again.
    "commit.retry.num-retries": "20",
    "commit.retry.min-wait-ms": "50",
}
_FORMAT = "format-version"
_COMMIT_FAILED = "org.apache.iceberg.exceptions.CommitFailedException"
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


class StorageTables:
    """The Iceberg tables behind materialized tables. Every method may be repeated."""

    def __init__(self, catalogs: Catalogs) -> None:
        self._catalogs = catalogs

    def create(self, spec: StorageSpec) -> None:
        """Create the table; harmless if it is there with our id, TableExists if the name is somebody else's."""
        core = self._catalogs.iceberg_catalog(spec.identifier.catalog)
        name = self._catalogs.iceberg_identifier(spec.identifier)
        if core.viewExists(name):
            raise TableExists(f"{spec.identifier} is a view; choose another name.")
        if not core.tableExists(name):
            self._require_namespace(core, spec.identifier)
            try:
                self._build(core, name, spec)
            except SPARK_ERRORS as cause:
                # Somebody was faster, perhaps an earlier try of ours: whose table it is decides.
                if java_classes(cause)[:1] != (ALREADY_EXISTS,):
                    raise
        self._adopt(spec)

    def drop(self, identifier: TableIdentifier, table_id: str, location: str) -> None:
        """Remove the table if it is ours, and our files; harmless if they are gone."""
        folders = {location} if location else set()
        try:
            table = self._catalogs.load_table(identifier)
        except StorageMissing:
            table = None
        if table is not None and table.properties().get(TABLE_ID) == table_id:
            folders.add(str(table.location()))
            self._catalogs.iceberg_catalog(identifier.catalog).dropTable(
                self._catalogs.iceberg_identifier(identifier), False
            )
        for folder in sorted(folders):
            self._delete_folder(identifier, table_id, folder)

    def add_columns(self, identifier: TableIdentifier, columns: Sequence[Column]) -> None:
        """Append nullable columns; those that are there already stay. Raises CommitConflict."""
        table = self._catalogs.load_table(identifier)
        schema, session = table.schema(), self._catalogs.session
        update, changed = table.updateSchema(), False
        for column in columns:
            if schema.caseInsensitiveFindField(column.name) is None:
                update.addColumn(column.name, iceberg_type(session, column), column.comment)
                changed = True
        if changed:
            with translating({_COMMIT_FAILED: lambda: _changed_meanwhile(identifier)}):
                update.commit()

    def set_properties(self, spec: StorageSpec, forgotten: Collection[str]) -> None:
        """Make the properties and the comment those of *spec*; raises CommitConflict, DefinitionInvalid for a lower format."""
        wanted = {key: value for key, value in _properties(spec).items() if key not in (TABLE_ID, EPOCH)}
        update = self._catalogs.load_table(spec.identifier).updateProperties()
        for key in {*forgotten, *([] if spec.comment else ["comment"])} - wanted.keys():
            update.remove(key)
        # The format is raised, never lowered: one that is not asked for stays as it is.
        for key, value in wanted.items():
            if key != _FORMAT or key in spec.properties:
                update.set(key, value)
        with translating({_COMMIT_FAILED: lambda: _changed_meanwhile(spec.identifier)}):
            update.commit()

    def _build(self, core: Any, name: Any, spec: StorageSpec) -> None:
        session = self._catalogs.session
        schema = iceberg_schema(session, spec.columns)
        properties = jvm_of(session).java.util.HashMap()
        for key, value in _properties(spec).items():
            properties.put(key, value)
        transaction = (
            core.buildTable(name, schema)
            .withPartitionSpec(self._partitioning(schema, spec))
            .withLocation(self._location(spec))
            .withProperties(properties)
            .createTransaction()
        )
        # One snapshot from the beginning: main is never null, and branches have something to begin at.
        transaction.newAppend().set(CREATED, spec.table_id).commit()
        transaction.commitTransaction()

    def _adopt(self, spec: StorageSpec) -> None:
        table = self._catalogs.load_table(spec.identifier)
        owner = table.properties().get(TABLE_ID)
        if owner != spec.table_id:
            whose = "a table that is not a materialized table" if owner is None else "another materialized table"
            raise TableExists(f"The name {spec.identifier} is taken by {whose}; choose another one, or drop it.")
        if table.currentSnapshot() is None:
            with translating({_COMMIT_FAILED: lambda: _changed_meanwhile(spec.identifier)}):
                table.newAppend().set(CREATED, spec.table_id).commit()

    def _partitioning(self, schema: Any, spec: StorageSpec) -> Any:
        builder = jvm_of(self._catalogs.session).org.apache.iceberg.PartitionSpec.builderFor(schema)
        names = {column.name.lower(): column for column in spec.columns}
        for key in spec.partition_keys:
            column = names.get(key.lower())
            if column is None:
                raise DefinitionInvalid(
                    f"PARTITIONED BY ({key}): {spec.identifier} has no column {key}; its columns are "
                    f"{', '.join(known.name for known in spec.columns)}."
                )
            try:
                # Only build() looks at the column's type: once for each column, so that the error can name it.
                builder.identity(column.name).build()
            except SPARK_ERRORS as cause:
                raise DefinitionInvalid(
                    f"PARTITIONED BY ({key}): a column of type {column.type} cannot partition a table; use a simple type."
                ) from cause
        return builder.build()

    def _require_namespace(self, core: Any, identifier: TableIdentifier) -> None:
        levels = java_strings(self._catalogs.session, identifier.parts[1:-1])
        namespace = jvm_of(self._catalogs.session).org.apache.iceberg.catalog.Namespace.of(levels)
        if not core.namespaceExists(namespace):
            name = display_name(identifier.parts[:-1])
            raise DefinitionInvalid(f"There is no namespace {name}; create it first: CREATE NAMESPACE {name}.")

    def _location(self, spec: StorageSpec) -> str:
        """Every location carries the table's id, so that a name can be used again at once."""
        if spec.location:
            base = spec.location.rstrip("/")
            return base if spec.table_id in base else f"{base}/{spec.table_id}"
        warehouse = self._catalogs.setting(spec.identifier.catalog, "warehouse")
        if not warehouse:
            raise DefinitionInvalid(
                f"Catalog {spec.identifier.catalog} has no warehouse; set spark.sql.catalog.{spec.identifier.catalog}.warehouse."
            )
        folders = [_UNSAFE.sub("_", part) for part in spec.identifier.parts[1:]]
        return f"{warehouse.rstrip('/')}/{'/'.join(folders)}-{spec.table_id}"

    def _delete_folder(self, identifier: TableIdentifier, table_id: str, folder: str) -> None:
        if table_id not in folder:
            # DROP has to succeed; files that may be somebody else's stay.
            log.warning(
                "files of %s were left under %s: the path does not carry the table's id %s; remove them by hand",
                identifier,
                folder,
                table_id,
                extra={"action": "storage_files_left", "table": str(identifier)},
            )
            return
        delete_folder(self._catalogs.session, identifier.catalog, folder)


def _properties(spec: StorageSpec) -> dict[str, str]:
    variant = any("variant" in column.type.lower() for column in spec.columns)
    properties = {
        **_DEFAULTS,
        _FORMAT: "3" if variant else "2",
        # Rows of one partition meet in one task, so that a refresh makes few files; whole tables are written as they come.
        "write.distribution-mode": "hash" if spec.partition_keys else "none",
        **spec.properties,
        TABLE_ID: spec.table_id,
        EPOCH: "0",
    }
    if spec.comment:
        properties["comment"] = spec.comment
    return properties


def _changed_meanwhile(identifier: TableIdentifier) -> MtError:
    return CommitConflict(f"{identifier} was changed by another commit; try again.")
