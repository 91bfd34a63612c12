"""Storage catalogs: the Iceberg catalogs that can contain materialized tables, and their tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import CatalogUnsupported, DefinitionInvalid, MtError, StorageMissing
from mt_core.model.table import TableIdentifier
from mt_core.spark.catalogs.catalog_sync import CatalogSync
from mt_core.spark.driver.conf import SESSION_CATALOG
from mt_core.spark.driver.failures import SPARK_ERRORS, java_classes, translate
from mt_core.spark.driver.file_systems import settings_of
from mt_core.spark.driver.jvm_objects import own_class, state_of
from mt_core.spark.driver.spark_driver import SparkDriver

COMMIT_FAILED = "org.apache.iceberg.exceptions.CommitFailedException"
NO_SUCH_TABLE = "org.apache.iceberg.exceptions.NoSuchTableException"
ALREADY_EXISTS = "org.apache.iceberg.exceptions.AlreadyExistsException"
# The class of a table whose scans the server of its catalog plans, and may restrict.
SERVER_PLANNED = "org.apache.iceberg.rest.RESTTable"
# Iceberg adds these to a session for its reader and its rewrite procedures.
ICEBERG_INTERNAL = frozenset({"default_iceberg", "default_cache_iceberg", "default_rewrite_catalog"})

_ICEBERG_PLUGIN = "org.apache.iceberg.spark.SparkCatalog"
_CACHING = "org.apache.iceberg.CachingCatalog"
_CATALOGS = "freshtable.iceberg.Catalogs"
_CATALOG_KEY = re.compile(r"spark\.sql\.catalog\.([^.]+)")


@contextmanager
def translating(errors: Mapping[str, MtError]) -> Iterator[None]:
    """Translate Spark's errors in the block, by *errors* if it has their Java class, or by `translate`."""
    try:
        yield
    except SPARK_ERRORS as cause:
        classes = java_classes(cause)
        raise (errors.get(classes[0]) if classes else None) or translate(cause) from cause


class Catalogs:
    """The configured and created catalogs in the driver's own session. Raises Spark's errors untranslated."""

    def __init__(self, driver: SparkDriver, sync: CatalogSync) -> None:
        self._driver, self._sync = driver, sync

    @property
    def session(self) -> SparkSession:
        return self._sync.apply(self._driver.session)

    def plugin(self, name: str) -> Any:
        """Return Spark's catalog plug-in with that name.

        Raises DefinitionInvalid with a list of the known catalogs if there is none.
        """
        manager = state_of(self.session).catalogManager()
        if not manager.isCatalogRegistered(name):
            keys = map(_CATALOG_KEY.fullmatch, self.session.conf.getAll)
            names = {SESSION_CATALOG, *(match[1] for match in keys if match)} - ICEBERG_INTERNAL
            raise DefinitionInvalid(
                f"There is no catalog {name}; known catalogs: {', '.join(sorted(names))}.", catalog=name
            )
        return manager.catalog(name)

    def iceberg_catalog(self, name: str) -> Any:
        """Return the Iceberg catalog behind the plug-in *name*.

        Raises CatalogUnsupported if its class is not known to compare branches in a commit.
        """
        session = self.session
        catalog = own_class(session, _CATALOGS).of(state_of(session).catalogManager(), name)
        if catalog is not None:
            return catalog
        plugin = self.plugin(name)
        kind = str(plugin.getClass().getName())
        if kind == _ICEBERG_PLUGIN:
            kind = str(plugin.icebergCatalog().getClass().getName())
        if kind == _CACHING:
            refusal = (
                f"Catalog {name} caches table metadata and cannot hold materialized tables; "
                f"set spark.sql.catalog.{name}.cache-enabled to false."
            )
        else:
            refusal = (
                f"Catalog {name} ({kind.rsplit('.', 1)[-1]}) cannot hold materialized tables: "
                "it does not swap a table's metadata by compare-and-set. "
                f"Use an Iceberg catalog ({_ICEBERG_PLUGIN}) of type jdbc or rest; "
                f"sources may live in {name}."
            )
        raise CatalogUnsupported(refusal, catalog=name)

    def iceberg_identifier(self, identifier: TableIdentifier) -> Any:
        """Return *identifier* as Iceberg's TableIdentifier."""
        return own_class(self.session, _CATALOGS).identifier(json.dumps(identifier.parts[1:]))

    def load_table(self, identifier: TableIdentifier) -> Any:
        """Load the Iceberg table with its current metadata. Raises StorageMissing."""
        catalog = self.iceberg_catalog(identifier.catalog)
        with translating({NO_SUCH_TABLE: storage_missing(identifier)}):
            return catalog.loadTable(self.iceberg_identifier(identifier))

    def refresh_table(self, identifier: TableIdentifier, table: Any) -> None:
        """Refresh *table* to its current metadata, which is read only if it has changed.

        Raises StorageMissing.
        """
        with translating({NO_SUCH_TABLE: storage_missing(identifier)}):
            table.refresh()

    def setting(self, name: str, key: str) -> str:
        """Return a setting of a catalog, or an empty string if it is not set."""
        return settings_of(self.session, name).get(key, "")


def storage_missing(identifier: TableIdentifier) -> StorageMissing:
    """Return the error for a materialized table whose storage is missing."""
    return StorageMissing(
        f"There is no storage table {identifier}; ALTER MATERIALIZED TABLE … RESUME recreates it.",
        table=str(identifier),
    )
