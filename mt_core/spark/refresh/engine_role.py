"""The roles of the refresh engine: what each of them shares with the others of the same engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from mt_core.spark.catalogs.catalog_sync import CatalogSource, CatalogSync, no_catalogs
from mt_core.spark.catalogs.lookup import Catalogs
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.queries.contexts import QueryContexts
from mt_core.spark.queries.source_versions import SourceVersions


class EngineRole:
    """A role of the port `mt_core.tables.engine`, which documents the methods. Any thread.

    The driver's own session works on storage; the contexts' sessions analyse and run queries.
    """

    def __init__(self, driver: SparkDriver, catalogs: CatalogSource = no_catalogs) -> None:
        sync = CatalogSync(catalogs, driver.functions)
        self._driver = driver
        self._catalogs = Catalogs(driver, sync)
        self._contexts = QueryContexts(driver, sync)
        self._versions = SourceVersions(driver, self._contexts)

    @contextmanager
    def _working(self) -> Iterator[SparkSession]:
        """Make the driver's own session the active one of the block, and raise errors of Spark as ours."""
        with self._driver.translating(), active_session(self._driver.session):
            yield self._catalogs.session
