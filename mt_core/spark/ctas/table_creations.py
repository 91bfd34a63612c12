"""CREATE and REPLACE TABLE … AS, which publish either a complete table or nothing.

A killed statement leaves files that no table references. To delete exactly these files, the statement is
reserved before it runs. The reservation, which the caller stores, contains the folder that the table will
use. If the catalog permits it (`_FREE_FOLDERS`), the folder's name contains the job's id, so that no other
statement can share it.

In an Iceberg catalog whose server chooses the folder of a table, the statement itself deletes its data files
when it fails (`freshtable.iceberg.StagedTables`); those of a killed process remain.

After a failure, any process can settle the reservation. If a table has the folder, now, in its history or
under a new name, the job has published the table and its files remain. If not, they are deleted. Folders
that contain other files are never reserved. The guarantee depends on the catalog, with the levels of
FLIP-218 (`Atomicity`): Iceberg tables are atomic, file tables are only cleaned up, and other tables have no
guarantee.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mt_core.base.identifiers import display_name, sql_name
from mt_core.errors import TableNotFound
from mt_core.model.reservation import Atomicity, Reservation
from mt_core.spark.driver.conf import IO_IMPL, SESSION_CATALOG
from mt_core.spark.driver.file_systems import settings_of
from mt_core.spark.driver.jvm_objects import (
    java_dataset,
    java_items,
    own_class,
    scala_items,
    spark_identifier,
    state_of,
    static_member,
)
from mt_core.spark.files.catalog_files import CatalogFiles
from mt_core.spark.files.hadoop_files import Files
from mt_core.spark.queries.views import Names

_CREATES, _REPLACES = "CreateTableAsSelect", "ReplaceTableAsSelect"
_ICEBERG_PLUGIN = "org.apache.iceberg.spark.SparkCatalog"
# Types of Iceberg catalogs that permit any folder for a table. In a hadoop catalog, the folder determines the
# table.
_FREE_FOLDERS = frozenset({"jdbc", "hive", "glue", "nessie"})
# The server of a REST catalog chooses the folders and the FileIO of tables; `warehouse` may be a logical
# name.
_REST, _REST_CATALOG = "rest", "org.apache.iceberg.rest.RESTCatalog"
_FILES = frozenset({"parquet", "orc", "csv", "json", "text", "avro"})
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
# The levels are those of FLIP-218.
_SEEN = {
    Atomicity.ATOMIC: (
        "level 3, atomic: readers see the whole table, and until the last step what was there before; "
        "a failure leaves nothing"
    ),
    Atomicity.CLEANED_UP: (
        "level 2, cleaned up: the table appears when it is complete, and its files are deleted after a "
        "failure; readers of its folder can see some files before"
    ),
    Atomicity.NONE: "level 1, none: rows are visible as they are written, and stay after a failure",
}
_SEEN_IN_DATABASE = (
    "level 2, cleaned up: the table appears at once and grows; "
    "Spark drops it after a failure, unless Spark itself was lost"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The properties of a new table and the summary of its first snapshot, both set by its first commit."""

    properties: Mapping[str, str]
    summary: Mapping[str, str]


def reserve(session: SparkSession, shared: SparkSession, text: str, job_id: str) -> Reservation | None:
    """Return the reservation for *text*, or None if it creates no table or the table already exists.

    *shared* is a session with the catalogs that all sessions have. A table in another catalog is not
    reserved, because other processes could not settle it. Raises TableNotFound for the REPLACE of a table
    that does not exist.
    """
    creation = creation_of(session, text)
    if creation is None or not Names(shared).is_catalog(creation.parts[0]):
        return None
    if creation.replaces and not creation.exists:
        if not creation.plan.orCreate():
            name = display_name(creation.parts)
            raise TableNotFound(
                f"REPLACE TABLE {name}: there is no such table; "
                f"CREATE OR REPLACE TABLE {name} AS query creates it too.",
                table=name,
            )
    elif creation.exists and not creation.replaces:
        return None
    reservation = Reservation(job_id=job_id, table=creation.parts, atomicity=creation.atomicity)
    folder, files = creation.folder(job_id), Files(session)
    if folder is None:
        return reservation
    if creation.has_file_io:
        # In a store without folders, files under a shared path may belong to others.
        return replace(reservation, folder=folder if folder.endswith(job_id) else None)
    if files.names(folder):
        # Never delete other files. Spark refuses such a folder or writes next to the files.
        return reservation
    return replace(reservation, folder=folder, made=files.missing_above(folder), emptied=files.exists(folder))


def settle(session: SparkSession, reservation: Reservation) -> bool:
    """Return whether the job has published its table. If not, delete the job's files. Idempotent."""
    folder, catalog = reservation.folder, reservation.table[0]
    if folder is None:
        return False
    catalog_files, files = CatalogFiles.of_catalog(session, catalog), Files(session)
    if any(catalog_files.is_same(each, folder) for each in _folders(session, reservation.table)):
        return True
    # Iceberg writes the metadata file last. If there is none, the table was not published.
    if catalog_files.has_files(f"{folder}/metadata") and _is_renamed(session, catalog, catalog_files, folder):
        return True
    if reservation.emptied:
        for name in files.names(folder):
            catalog_files.delete_folder(f"{folder}/{name}")
    else:
        catalog_files.delete_folder(folder)
    for above in reservation.made:
        if files.exists(above) and not files.names(above):
            catalog_files.delete_folder(above)
    return False


def placed(session: SparkSession, plan: Any, reservation: Reservation) -> Any:
    """Return *plan* with the job's own folder as the location of the table, if one is reserved.

    Otherwise, an Iceberg table deletes the data files of a statement that fails.
    """
    folder = reservation.folder
    if folder is None and reservation.atomicity is Atomicity.ATOMIC:
        return _changed(plan, name=_staged(session, reservation.table))
    if folder is None or not folder.endswith(reservation.job_id):
        return plan
    return _changed(plan, spec=_located(session, plan, folder))


def filled(session: SparkSession, text: str, reservation: Reservation, rows: DataFrame, facts: Facts) -> None:
    """Create the table of *text* with *rows* instead of the rows of its query, in one commit with *facts*.

    *session* is the session of *rows*. Its current namespace does not matter.
    """
    state = state_of(session)
    plan = state.sqlParser().parsePlan(text)
    name = state.sqlParser().parsePlan(f"CREATE TABLE {sql_name(reservation.table)} (a INT)").name()
    plan = placed(
        session, _changed(plan, name=name, query=rows._jdf.queryExecution().analyzed()), reservation
    )
    spec, options = plan.tableSpec(), plan.writeOptions()
    arguments = _fields(spec)
    for key, value in facts.properties.items():
        arguments[0] = arguments[0].updated(key, value)
    for key, value in facts.summary.items():
        options = options.updated(f"snapshot-property.{key}", value)
    java_dataset(session, _changed(plan, spec=spec.copy(*arguments), options=options))


def _staged(session: SparkSession, table: tuple[str, ...]) -> Any:
    staged = own_class(session, "freshtable.iceberg.StagedTables")
    return staged.name(_plugin(session, table[0]), spark_identifier(session, table[1:]))


def _located(session: SparkSession, plan: Any, folder: str) -> Any:
    arguments = _fields(plan.tableSpec())
    arguments[3] = static_member(session, "scala.Option.apply")(folder)
    return plan.tableSpec().copy(*arguments)


def _fields(product: Any) -> list[Any]:
    return [product.productElement(index) for index in range(product.productArity())]


def _changed(plan: Any, *, name: Any = None, query: Any = None, spec: Any = None, options: Any = None) -> Any:
    """Return a copy of a CREATE or REPLACE TABLE … AS plan with some parts replaced."""
    replaces = str(plan.productPrefix()) == _REPLACES
    return plan.copy(
        plan.name() if name is None else name,
        plan.partitioning(),
        plan.query() if query is None else query,
        plan.tableSpec() if spec is None else spec,
        plan.writeOptions() if options is None else options,
        plan.orCreate() if replaces else plan.ignoreIfExists(),
        plan.isAnalyzed(),
    )


def explained(session: SparkSession, text: str) -> str:
    """Return the EXPLAIN section about the atomicity of *text*; empty if it does not create a table."""
    creation = creation_of(session, text)
    return "" if creation is None else f"\n== Table of a Query ==\n{creation.seen}\n"


def creation_of(session: SparkSession, text: str) -> Creation | None:
    """Return the table creation in *text*, or None for other statements. Does not run it."""
    plan = state_of(session).sqlParser().parsePlan(text)
    if str(plan.productPrefix()) not in (_CREATES, _REPLACES):
        return None
    if str(plan.name().productPrefix()) != "UnresolvedIdentifier":
        return None
    names = Names(session)
    parts = tuple(map(str, scala_items(plan.name().nameParts())))
    if not (len(parts) > 2 and names.is_catalog(parts[0])):
        parts = names.qualify(parts, *names.current())
    return Creation(session, plan, parts)


@dataclass(frozen=True)
class Creation:
    """A parsed CREATE or REPLACE TABLE … AS, with the full name of its table."""

    session: SparkSession
    plan: Any
    parts: tuple[str, ...]

    @property
    def replaces(self) -> bool:
        return str(self.plan.productPrefix()) == _REPLACES

    @cached_property
    def exists(self) -> bool:
        return bool(self._plugin.tableExists(spark_identifier(self.session, self.parts[1:])))

    @cached_property
    def has_file_io(self) -> bool:
        """True if the catalog writes files through a configured FileIO, to a store without folders."""
        return IO_IMPL in self._settings

    @cached_property
    def atomicity(self) -> Atomicity:
        if self._is_iceberg:
            return Atomicity.ATOMIC
        return Atomicity.CLEANED_UP if self._is_files or self.parts[0] != SESSION_CATALOG else Atomicity.NONE

    @property
    def seen(self) -> str:
        """A description of what readers see while the statement runs and after a failure."""
        in_database = not (self._is_iceberg or self._is_files) and self.atomicity is Atomicity.CLEANED_UP
        return _SEEN_IN_DATABASE if in_database else _SEEN[self.atomicity]

    def folder(self, job_id: str) -> str | None:
        """Return the folder of the table, or None if it cannot be known before the table is created."""
        written = self._written_location
        if self._is_iceberg and self._is_served:
            return None
        if self._is_iceberg:
            return self._of_iceberg(job_id) if written is None else written.rstrip("/")
        if not self._is_files:
            return None
        if written is None:
            identifier = static_member(self.session, "org.apache.spark.sql.catalyst.TableIdentifier")
            database = static_member(self.session, "scala.Option.apply")(self.parts[1])
            written = str(
                state_of(self.session).catalog().defaultTablePath(identifier(self.parts[2], database))
            )
        return Files(self.session).full_path(written)

    def _of_iceberg(self, job_id: str) -> str | None:
        warehouse, kind = self._settings.get("warehouse", "").rstrip("/"), self._settings.get("type", "")
        if not warehouse:
            return None
        if kind in _FREE_FOLDERS:
            levels = "/".join(_UNSAFE.sub("_", part) for part in self.parts[1:])
            return f"{warehouse}/{levels}-{job_id}"
        return f"{warehouse}/{'/'.join(self.parts[1:])}" if kind == "hadoop" and not self.replaces else None

    @property
    def _plugin(self) -> Any:
        return _plugin(self.session, self.parts[0])

    @cached_property
    def _is_iceberg(self) -> bool:
        return str(self._plugin.getClass().getName()) == _ICEBERG_PLUGIN

    @property
    def _is_served(self) -> bool:
        """True if the server of the catalog chooses the folders of tables."""
        return self._settings.get("type") == _REST or self._settings.get("catalog-impl") == _REST_CATALOG

    @cached_property
    def _is_files(self) -> bool:
        provider = self.plan.tableSpec().provider()
        named = (
            str(provider.get())
            if provider.isDefined()
            else str(self.session.conf.get("spark.sql.sources.default"))
        )
        return self.parts[0] == SESSION_CATALOG and named.lower() in _FILES

    @cached_property
    def _settings(self) -> dict[str, str]:
        return dict(settings_of(self.session, self.parts[0]))

    @property
    def _written_location(self) -> str | None:
        """The LOCATION in the statement, or None."""
        location = self.plan.tableSpec().location()
        return str(location.get()) if location.isDefined() else None


def _folders(session: SparkSession, table: tuple[str, ...]) -> Iterator[str]:
    """Yield the current and previous folders of a table, or nothing if it does not exist."""
    plugin, identifier = _plugin(session, table[0]), spark_identifier(session, table[1:])
    plugin.invalidateTable(identifier)
    if not plugin.tableExists(identifier):
        return
    loaded = plugin.loadTable(identifier)
    location = loaded.properties().get("location")
    if location is not None:
        yield str(location)
    if str(plugin.getClass().getName()) == _ICEBERG_PLUGIN:
        # Another job may have replaced the table since. Its earlier snapshots still reference the files.
        for file in java_items(loaded.table().operations().current().previousFiles()):
            yield str(file.file()).rpartition("/metadata/")[0]


def _is_renamed(session: SparkSession, catalog: str, files: CatalogFiles, folder: str) -> bool:
    """Return whether a table of the catalog has *folder*, after it was published and renamed."""
    plugin = _plugin(session, catalog)
    namespaces = [*plugin.listNamespaces()]
    for namespace in namespaces:
        namespaces += plugin.listNamespaces(namespace)
        for identifier in plugin.listTables(namespace):
            location = plugin.loadTable(identifier).properties().get("location")
            if location is not None and files.is_same(str(location), folder):
                return True
    return False


def _plugin(session: SparkSession, catalog: str) -> Any:
    return state_of(session).catalogManager().catalog(catalog)
