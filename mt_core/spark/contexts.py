"""State shared by the engines on one Spark driver: catalogs, query sessions and source versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from mt_core.spark.catalogs.catalog_sync import CatalogSource, CatalogSync, no_catalogs
from mt_core.spark.catalogs.storage_catalogs import Catalogs
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.iceberg.catalog_probe import AbilityStore, StoredHere, TableCatalogs
from mt_core.spark.queries.contexts import QueryContexts
from mt_core.spark.queries.source_versions import SourceVersions


class SparkContexts:
    """The contexts of one driver, shared by its refreshes, streams and statements. Thread-safe.

    The driver's own session reads and writes storage tables. The sessions of `queries` analyse and run
    queries.
    """

    def __init__(
        self,
        driver: SparkDriver,
        catalogs: CatalogSource = no_catalogs,
        abilities: AbilityStore | None = None,
    ) -> None:
        self.driver = driver
        self.sync = CatalogSync(catalogs, driver.functions)
        self.catalogs = Catalogs(driver, self.sync)
        self.table_catalogs = TableCatalogs(self.catalogs, abilities or StoredHere())
        self.queries = QueryContexts(driver, self.sync)
        self.versions = SourceVersions(driver, self.queries)

    @contextmanager
    def working(self) -> Iterator[SparkSession]:
        """Activate the driver's own session in the block and translate Spark's errors."""
        with self.driver.translating(), active_session(self.driver.session):
            yield self.catalogs.session
