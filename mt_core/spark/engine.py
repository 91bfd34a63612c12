"""The refresh engine on Spark and Iceberg, put together from its roles."""

from __future__ import annotations

from collections.abc import Mapping

from mt_core.identifiers import Namespace
from mt_core.model.table import TableIdentifier
from mt_core.spark.jvm_objects import java_strings
from mt_core.spark.queries.analysis import QueryAnalysis
from mt_core.spark.queries.views import Names
from mt_core.spark.storage.housekeeping import Housekeeping
from mt_core.spark.storage.metadata import MetadataStore
from mt_core.spark.storage.storage_tables import StorageTables
from mt_core.spark.storage.writes import StagedWrites
from mt_core.tables.engine import Progress, RefreshEngine


class SparkEngine(QueryAnalysis, StorageTables, MetadataStore, Housekeeping, StagedWrites, RefreshEngine):
    """All roles on one Spark driver; of its own are the lookup of names and the state of the driver."""

    def check_catalog(self, identifier: TableIdentifier) -> None:
        with self._working():
            self._catalogs.iceberg_catalog(identifier.catalog)

    def relation_exists(self, identifier: TableIdentifier) -> bool:
        with self._working() as session:
            self._catalogs.plugin(identifier.catalog)
            return Names(session).relation_exists(identifier.parts)

    def namespace_exists(self, catalog: str, namespace: Namespace) -> bool:
        with self._working() as session:
            return bool(self._catalogs.plugin(catalog).namespaceExists(java_strings(session, namespace)))

    def cancel(self, job_id: str) -> None:
        self._driver.cancel(job_id)

    def progress(self, job_id: str) -> Progress | None:
        return self._driver.progress(job_id)

    def ready(self) -> bool:
        return self._driver.answers()

    def trouble(self) -> str:
        return self._driver.trouble()

    def cluster_info(self) -> Mapping[str, str]:
        with self._driver.translating():
            return {"execution.target": str(self._driver.session.sparkContext.master)}
