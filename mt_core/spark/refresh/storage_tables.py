"""Storage tables: creates and drops them, adds columns, and sets properties.

A storage table belongs to one materialized table, whose id is in a property of the storage table and in the
name of its folder. Creation and removal check the id in addition to the name. An interrupted command can
therefore be repeated without affecting a table of another owner with the same name, and a name can be
reused while the files of its previous table are still being deleted. Its state tables, which also have the id
in their names, are dropped with it. A new table gets one empty snapshot in
the transaction that creates it. Every run starts a branch at the current snapshot, so `main` must never be
null.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Sequence
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import CommitConflict, DefinitionInvalid, MtError, StorageMissing, TableExists
from mt_core.model.catalog import CatalogAbilities
from mt_core.model.storage import CREATED, EPOCH, TABLE_ID
from mt_core.model.table import Column, TableIdentifier
from mt_core.spark.catalogs.columns import iceberg_schema, iceberg_type
from mt_core.spark.catalogs.storage_catalogs import ALREADY_EXISTS, COMMIT_FAILED, translating
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.failures import SPARK_ERRORS, java_classes
from mt_core.spark.driver.jvm_objects import java_map, static_member
from mt_core.spark.files.catalog_files import CatalogFiles
from mt_core.spark.iceberg.catalog_probe import TableCatalogs, check_namespace_exists
from mt_core.spark.states.state_upkeep import drop_states
from mt_core.tables.engine import StorageSpec, TableStorage

log = logging.getLogger(__name__)

_DEFAULTS = {
    # Every refresh writes metadata files. Let Iceberg delete old ones.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    # These are for other writers. Refreshes do not use Iceberg's retries, because they decide again after a
    # conflict.
    "commit.retry.num-retries": "20",
    "commit.retry.min-wait-ms": "50",
    # A change reads only the row groups that may contain its rows. With Iceberg's default of 128 MiB, one row
    # group is most of a file.
    "write.parquet.row-group-size-bytes": str(8 * 1024 * 1024),
}
_FORMAT = "format-version"
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


class StorageTables(TableStorage):
    """The Iceberg tables behind materialized tables. Every method may be repeated."""

    def __init__(self, spark: SparkContexts) -> None:
        self._spark = spark

    def create_storage(self, spec: StorageSpec) -> None:
        with self._spark.working() as session:
            core = self._spark.catalogs.iceberg_catalog(spec.identifier.catalog)
            name = self._spark.catalogs.iceberg_identifier(spec.identifier)
            check_namespace_exists(session, core, spec.identifier)
            abilities = self._spark.table_catalogs.abilities(spec.identifier)
            if abilities.has_views and core.viewExists(name):
                raise TableExists(f"{spec.identifier} is a view; choose another name.")
            if not core.tableExists(name):
                try:
                    self._build(session, core, name, spec, abilities)
                except SPARK_ERRORS as cause:
                    # Another writer was faster, possibly an earlier attempt. The TABLE_ID is checked below.
                    if java_classes(cause)[:1] != (ALREADY_EXISTS,):
                        raise
            table = self._spark.catalogs.load_table(spec.identifier)
            owner = table.properties().get(TABLE_ID)
            if owner != spec.table_id:
                whose = (
                    "a table that is not a materialized table"
                    if owner is None
                    else "another materialized table"
                )
                raise TableExists(
                    f"The name {spec.identifier} is taken by {whose}; choose another one, or drop it."
                )
            if table.currentSnapshot() is None:
                with translating(_conflict(spec.identifier)):
                    table.newAppend().set(CREATED, spec.table_id).commit()

    def drop_storage(self, identifier: TableIdentifier, table_id: str, location: str) -> None:
        with self._spark.working() as session:
            drop_states(self._spark, identifier, table_id)
            folders = {location} if location else set()
            try:
                table = self._spark.catalogs.load_table(identifier)
            except StorageMissing:
                table = None
            if table is None or table.properties().get(TABLE_ID) != table_id:
                files = CatalogFiles.of_catalog(session, identifier.catalog)
            else:
                own, files = str(table.location()), CatalogFiles.of_table(session, table)
                # A folder without the table's id may contain files of other tables.
                folders = {*folders, own} if table_id in own else folders - {own}
                self._spark.table_catalogs.drop(identifier, table, with_files=table_id not in own)
            for folder in sorted(folders):
                if table_id in folder:
                    files.delete_folder(folder)
                else:
                    log.warning(
                        "files of %s were left under %s: the path does not contain the table's id %s; "
                        "remove them by hand",
                        identifier,
                        folder,
                        table_id,
                        extra={"action": "storage_files_left", "table": str(identifier)},
                    )

    def add_columns(self, identifier: TableIdentifier, columns: Sequence[Column]) -> None:
        with self._spark.working() as session:
            table = self._spark.catalogs.load_table(identifier)
            schema = table.schema()
            update, changed = table.updateSchema(), False
            for column in columns:
                if schema.caseInsensitiveFindField(column.name) is None:
                    update.addColumn(column.name, iceberg_type(session, column), column.comment)
                    changed = True
            if changed:
                with translating(_conflict(identifier)):
                    update.commit()

    def set_properties(self, spec: StorageSpec, *, forgotten: Collection[str]) -> None:
        with self._spark.working():
            target = {key: value for key, value in _properties(spec).items() if key not in (TABLE_ID, EPOCH)}
            update = self._spark.catalogs.load_table(spec.identifier).updateProperties()
            for key in {*forgotten, *([] if spec.comment else ["comment"])} - target.keys():
                update.remove(key)
            # The format version can only be raised, so do not replace a higher version with the default.
            for key, value in target.items():
                if key != _FORMAT or key in spec.properties:
                    update.set(key, value)
            with translating(_conflict(spec.identifier)):
                update.commit()

    def _build(
        self, session: SparkSession, core: Any, name: Any, spec: StorageSpec, abilities: CatalogAbilities
    ) -> None:
        """Create the table, if possible with one empty snapshot, from which branches can start."""
        schema = iceberg_schema(session, spec.columns)
        builder = (
            core.buildTable(name, schema)
            .withPartitionSpec(_partitioning(session, schema, spec))
            .withProperties(java_map(session, _properties(spec)))
        )
        location = self._location(spec)
        if location:
            builder = builder.withLocation(location)
        if not abilities.creates_with_snapshot:
            builder.create()
            return
        transaction = builder.createTransaction()
        transaction.newAppend().set(CREATED, spec.table_id).commit()
        transaction.commitTransaction()

    def _location(self, spec: StorageSpec) -> str:
        """Return the folder of a new table, which contains the table's id, or "" if its server chooses it."""
        if not spec.location:
            return new_location(self._spark.table_catalogs, spec.identifier, spec.table_id)
        base = spec.location.rstrip("/")
        return base if spec.table_id in base else f"{base}/{spec.table_id}"


def new_location(catalogs: TableCatalogs, table: TableIdentifier, table_id: str) -> str:
    """Return the folder for the files of a new table, or "" if the catalog's server chooses it.

    Raises DefinitionInvalid if the catalog has no warehouse.
    """
    if catalogs.abilities(table).chooses_locations:
        return ""
    warehouse = catalogs.catalogs.setting(table.catalog, "warehouse")
    if not warehouse:
        raise DefinitionInvalid(
            f"Catalog {table.catalog} has no warehouse; set spark.sql.catalog.{table.catalog}.warehouse."
        )
    folders = [_UNSAFE.sub("_", part) for part in table.parts[1:]]
    return f"{warehouse.rstrip('/')}/{'/'.join(folders)}-{table_id}"


def _partitioning(session: SparkSession, schema: Any, spec: StorageSpec) -> Any:
    builder = static_member(session, "org.apache.iceberg.PartitionSpec.builderFor")(schema)
    columns = {column.name.lower(): column for column in spec.columns}
    for key in spec.partition_keys:
        column = columns.get(key.lower())
        if column is None:
            raise DefinitionInvalid(
                f"PARTITIONED BY ({key}): {spec.identifier} has no column {key}; its columns are "
                f"{', '.join(each.name for each in spec.columns)}."
            )
        try:
            # Only build() checks the column's type. Call it for each column, so that the error can name the
            # column.
            builder.identity(column.name).build()
        except SPARK_ERRORS as cause:
            raise DefinitionInvalid(
                f"PARTITIONED BY ({key}): a column of type {column.type} cannot partition a table; "
                "use a simple type."
            ) from cause
    for transform in spec.transforms:
        width = () if transform.width is None else (transform.width,)
        try:
            getattr(builder, transform.kind.singular)(transform.column, *width).build()
        except SPARK_ERRORS as cause:
            raise DefinitionInvalid(
                f"PARTITIONED BY ({transform}): Iceberg cannot lay {spec.identifier} out by it; "
                "leave the transform out, or use another one."
            ) from cause
    return builder.build()


def _properties(spec: StorageSpec) -> dict[str, str]:
    variant = any("variant" in column.type.lower() for column in spec.columns)
    properties = {
        **_DEFAULTS,
        _FORMAT: "3" if variant else "2",
        # A single task writes all rows of a partition. Without this, every task could write a file to every
        # partition. Unpartitioned rows are not redistributed.
        "write.distribution-mode": "hash" if spec.partition_keys or spec.transforms else "none",
        # A large table is changed by MERGE. Copy-on-write would rewrite a whole file for a single changed
        # row. Format version 1 has no delete files.
        **({} if spec.properties.get(_FORMAT) == "1" else {"write.merge.mode": "merge-on-read"}),
        **spec.properties,
        TABLE_ID: spec.table_id,
        EPOCH: "0",
    }
    if spec.comment:
        properties["comment"] = spec.comment
    return properties


def _conflict(identifier: TableIdentifier) -> dict[str, MtError]:
    """Return a map from the Java class of a failed commit to the CommitConflict that `translating` raises."""
    return {COMMIT_FAILED: CommitConflict(f"{identifier} was changed by another commit; try again.")}
