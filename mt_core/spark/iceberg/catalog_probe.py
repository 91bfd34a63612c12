"""The probe of a catalog, which finds out on a scratch table what the catalog can do with tables.

Iceberg's JDBC catalog replaces the metadata of a table by compare-and-set. The server behind a REST catalog
may do less: it may keep only the newest snapshot or no branches, apply a commit to a newer version of the
table without the comparison that the commit asks for, or support neither views nor the creation of a table
together with its first snapshot. No list of servers could say which, because a server changes with its
release and its configuration. The probe therefore makes the same commits as the refresh protocol, on a table
that it creates and drops, and reads after each what the catalog has kept.

The probe runs when Freshtable first writes a table in a catalog, in the namespace of that table, where the
user may create tables. An `AbilityStore` keeps its result.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, Protocol
from uuid import uuid4

from pyspark.sql import SparkSession

from mt_core.base.identifiers import display_name
from mt_core.errors import CatalogUnsupported, CommitConflict, CommitUnknown, DefinitionInvalid
from mt_core.model.catalog import CatalogAbilities
from mt_core.model.storage import MetadataChange, StorageMetadata
from mt_core.model.table import Column, TableIdentifier
from mt_core.spark.catalogs.columns import iceberg_schema
from mt_core.spark.catalogs.storage_catalogs import SERVER_PLANNED, Catalogs
from mt_core.spark.driver.failures import SPARK_ERRORS, translate
from mt_core.spark.driver.jvm_objects import java_map, java_strings, own_class, static_member
from mt_core.spark.iceberg.metadata import commit, metadata_of

log = logging.getLogger(__name__)

SCRATCH = "freshtable_probe_"
# Iceberg's own code replaces the metadata of a table as a whole, so there is nothing to find out.
_JDBC, _OF_JDBC = "org.apache.iceberg.jdbc.JdbcCatalog", CatalogAbilities()
_MARK = "freshtable.probe"
_QUERY = "SELECT 1 AS id"


class AbilityStore(Protocol):
    """Keeps the abilities of each catalog as long as its options stay the same. Thread-safe."""

    def abilities(self, catalog: str) -> CatalogAbilities | None:
        """Return the abilities of a catalog, or None if it was not probed with its current options."""

    def keep_abilities(self, catalog: str, abilities: CatalogAbilities) -> None:
        """Store the abilities of a catalog."""


class StoredHere(AbilityStore):
    """Keeps the abilities in memory."""

    def __init__(self) -> None:
        self._abilities: dict[str, CatalogAbilities] = {}

    def abilities(self, catalog: str) -> CatalogAbilities | None:
        return self._abilities.get(catalog)

    def keep_abilities(self, catalog: str, abilities: CatalogAbilities) -> None:
        self._abilities[catalog] = abilities


class TableCatalogs:
    """The catalogs in which Freshtable writes tables, each with its abilities. Thread-safe."""

    def __init__(self, catalogs: Catalogs, store: AbilityStore) -> None:
        self.catalogs = catalogs
        self._store, self._lock = store, Lock()

    def check(self, table: TableIdentifier) -> CatalogAbilities:
        """Return the abilities of the catalog of *table*.

        Raises CatalogUnsupported if they are not sufficient for a table that Freshtable writes.
        """
        abilities = self.abilities(table)
        if abilities.lacking:
            raise CatalogUnsupported(
                f"Catalog {table.catalog} cannot hold tables that Freshtable refreshes or streams into: "
                f"its server does not {' and does not '.join(abilities.lacking)}. Use a catalog whose server "
                f"does, or one of type jdbc; sources may live in {table.catalog}.",
                catalog=table.catalog,
            )
        return abilities

    def abilities(self, table: TableIdentifier) -> CatalogAbilities:
        """Return the abilities of the catalog of *table*, which is probed if they are not known.

        Raises CatalogUnsupported for a catalog of another class, DefinitionInvalid if the namespace of the
        table does not exist, and Spark's errors.
        """
        catalog = self.catalogs.iceberg_catalog(table.catalog)
        if str(catalog.getClass().getName()) == _JDBC:
            return _OF_JDBC
        with self._lock:
            abilities = self._store.abilities(table.catalog)
            if abilities is None:
                session = self.catalogs.session
                check_namespace_exists(session, catalog, table)
                abilities = probe(session, catalog, table.namespace)
                log.info(
                    "catalog %s was checked: %s",
                    table.catalog,
                    abilities,
                    extra={"action": "catalog_probed", "catalog": table.catalog},
                )
                self._store.keep_abilities(table.catalog, abilities)
        return abilities

    def drop(self, name: TableIdentifier, table: Any, *, with_files: bool) -> None:
        """Drop a loaded *table*; *with_files* its files too, as far as its metadata refers to them.

        The server of a catalog deletes them if it can, because the credentials for them may end with the
        table.
        """
        abilities = self.abilities(name)
        purges = abilities.takes_purge or (with_files and not abilities.chooses_locations)
        self.catalogs.iceberg_catalog(name.catalog).dropTable(self.catalogs.iceberg_identifier(name), purges)
        if with_files and abilities.chooses_locations and not abilities.deletes_files:
            delete_data(self.catalogs.session, table)


def check_namespace_exists(session: SparkSession, catalog: Any, table: TableIdentifier) -> None:
    """Raise DefinitionInvalid if the namespace of *table* does not exist in its Iceberg *catalog*."""
    levels = java_strings(session, table.namespace)
    if not catalog.namespaceExists(static_member(session, "org.apache.iceberg.catalog.Namespace.of")(levels)):
        namespace = display_name([table.catalog, *table.namespace])
        raise DefinitionInvalid(
            f"There is no namespace {namespace}; create it first: CREATE NAMESPACE {namespace}."
        )


def probe(session: SparkSession, catalog: Any, namespace: Sequence[str]) -> CatalogAbilities:
    """Return what an Iceberg *catalog* can do with tables, found with a scratch table in *namespace*.

    Raises Spark's errors if the catalog cannot create and read any table there.
    """
    scratch = _ScratchTable(session, catalog, namespace)
    try:
        creates_with_snapshot = scratch.create()
        first = scratch.load()
        scratch.append()
        second = scratch.load()
        keeps_history = _has(second, first.main) and second.main != first.main
        return CatalogAbilities(
            creates_with_snapshot=creates_with_snapshot,
            keeps_history=keeps_history,
            keeps_properties=first.properties.get(_MARK) == scratch.mark,
            keeps_branches=scratch.keeps_branch(),
            # Without history, there is no earlier snapshot to which a late commit could set main.
            asserts_branches=not keeps_history or scratch.refuses_late_commit(first.main),
            sends_metadata_location=second.base.metadata.metadataFileLocation() is not None,
            leaves_scans_to_clients=str(second.base.table.getClass().getName()) != SERVER_PLANNED,
            has_views=scratch.has_views(),
            chooses_locations=str(catalog.getClass().getName()) != _JDBC,
            **scratch.drop(),
        )
    finally:
        scratch.remove()


def _has(metadata: StorageMetadata, snapshot_id: str | None) -> bool:
    return snapshot_id is not None and metadata.base.snapshot(snapshot_id) is not None


class _ScratchTable:
    """A table with one column that only the probe uses."""

    def __init__(self, session: SparkSession, catalog: Any, namespace: Sequence[str]) -> None:
        self._session, self._catalog, self._namespace = session, catalog, tuple(namespace)
        self._schema = iceberg_schema(session, [Column(name="id", type="bigint")])
        self.mark = uuid4().hex
        self._names: list[str] = []

    def create(self) -> bool:
        """Create the table with a snapshot; return whether that was one commit."""
        try:
            transaction = self._builder().createTransaction()
            transaction.newAppend().set(_MARK, self.mark).commit()
            transaction.commitTransaction()
        except SPARK_ERRORS:
            # A server may have created a table before it refused the rest, so use another name.
            self._builder().create()
            self.append()
            return False
        return True

    def load(self) -> StorageMetadata:
        return metadata_of(self._session, self._catalog.loadTable(self._identifier))

    def append(self) -> None:
        self._catalog.loadTable(self._identifier).newAppend().set(_MARK, self.mark).commit()

    def keeps_branch(self) -> bool:
        """Return whether a branch exists after it was created."""
        try:
            table = self._catalog.loadTable(self._identifier)
            main = table.currentSnapshot().snapshotId()
            table.manageSnapshots().createBranch(SCRATCH, main).commit()
        except SPARK_ERRORS:
            return False
        return self.load().branches.get(SCRATCH) == str(main)

    def refuses_late_commit(self, earlier: str | None) -> bool:
        """Return whether a commit that sets main to *earlier* fails after another commit has moved main."""
        seen = self.load()
        self.append()
        try:
            commit(self._session, self._names[-1], seen, MetadataChange(publish=earlier))
        except CommitConflict:
            return True
        except CommitUnknown:
            # Some servers refuse with an error that other failures have too.
            return self.load().main != earlier
        return False

    def has_views(self) -> bool:
        """Return whether a view can be created and dropped."""
        view, levels = self._named(f"{SCRATCH}{uuid4().hex[:12]}"), self._levels
        try:
            self._catalog.buildView(view).withSchema(self._schema).withQuery(
                "spark", _QUERY
            ).withDefaultNamespace(levels).create()
            return bool(self._catalog.dropView(view))
        except SPARK_ERRORS:
            return False

    def drop(self) -> dict[str, bool]:
        """Drop the table; return the abilities that this shows."""
        table = self._catalog.loadTable(self._identifier)
        file, files = table.currentSnapshot().manifestListLocation(), table.io()
        takes_purge = self._drops(purge=True)
        drops_tables = takes_purge or self._drops(purge=False)
        deletes_files = False
        with suppress(*SPARK_ERRORS):
            deletes_files = takes_purge and not files.newInputFile(file).exists()
        if drops_tables and not deletes_files:
            delete_data(self._session, table)
        return {"takes_purge": takes_purge, "drops_tables": drops_tables, "deletes_files": deletes_files}

    def remove(self) -> None:
        """Drop what is left after a failure."""
        for name in self._names:
            try:
                if self._catalog.tableExists(self._named(name)):
                    self._catalog.dropTable(self._named(name), False)
            except SPARK_ERRORS as error:
                text = "the scratch table %s of a catalog check was not dropped: %s"
                log.warning(text, name, translate(error), extra={"action": "probe_table_left"})

    def _drops(self, *, purge: bool) -> bool:
        try:
            self._catalog.dropTable(self._identifier, purge)
            return not self._catalog.tableExists(self._identifier)
        except SPARK_ERRORS:
            return False

    def _builder(self) -> Any:
        """Return the builder of a table with a new name."""
        self._names.append(f"{SCRATCH}{uuid4().hex[:12]}")
        properties = java_map(self._session, {_MARK: self.mark})
        return self._catalog.buildTable(self._identifier, self._schema).withProperties(properties)

    @property
    def _identifier(self) -> Any:
        return self._named(self._names[-1])

    def _named(self, name: str) -> Any:
        levels = json.dumps([*self._namespace, name])
        return own_class(self._session, "freshtable.iceberg.Catalogs").identifier(levels)

    @property
    def _levels(self) -> Any:
        return self._identifier.namespace()


def delete_data(session: SparkSession, table: Any) -> None:
    """Delete the files of a dropped *table* that its metadata refers to, through its own FileIO."""
    static_member(session, "org.apache.iceberg.CatalogUtil.dropTableData")(
        table.io(), table.operations().current()
    )
