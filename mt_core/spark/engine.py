"""The refresh engine on Spark and Iceberg: the port of the manager, put together from its parts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from mt_core.identifiers import Namespace
from mt_core.model.storage import Snapshot
from mt_core.model.table import Column, TableIdentifier
from mt_core.spark.catalogs.catalog_sync import CatalogSource, CatalogSync, no_catalogs
from mt_core.spark.catalogs.columns import check_assignable, stored_type
from mt_core.spark.catalogs.lookup import Catalogs
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.jvm_objects import active_session
from mt_core.spark.queries.analysis import QueryAnalysis
from mt_core.spark.queries.contexts import QueryContexts
from mt_core.spark.queries.source_versions import SourceVersions
from mt_core.spark.queries.views import Names
from mt_core.spark.storage.housekeeping import Housekeeping
from mt_core.spark.storage.metadata import MetadataStore, ancestors
from mt_core.spark.storage.storage_tables import StorageTables
from mt_core.spark.storage.writes import StagedWrites
from mt_core.tables.engine import (
    AnalysedQuery,
    MetadataChange,
    Progress,
    Query,
    RefreshEngine,
    SourceVector,
    Staged,
    StorageMetadata,
    StorageSpec,
    Write,
)


class SparkEngine(RefreshEngine):
    """Queries and storage on one Spark driver. Every method may be called from any thread."""

    def __init__(self, driver: SparkDriver, catalogs: CatalogSource = no_catalogs) -> None:
        self._driver, sync = driver, CatalogSync(catalogs)
        self._catalogs = Catalogs(driver, sync)
        contexts = QueryContexts(driver, sync)
        self._analysis = QueryAnalysis(driver, contexts)
        self._versions = SourceVersions(driver, contexts)
        self._metadata = MetadataStore(self._catalogs)
        self._storage = StorageTables(self._catalogs)
        self._housekeeping = Housekeeping(self._catalogs)
        self._writes = StagedWrites(driver, self._catalogs, contexts, self._versions)

    @contextmanager
    def _working(self) -> Iterator[None]:
        with self._driver.translating(), active_session(self._driver.session):
            yield

    def ready(self) -> bool:
        return self._driver.answers()

    def check_catalog(self, identifier: TableIdentifier) -> None:
        with self._working():
            self._catalogs.iceberg_catalog(identifier.catalog)

    def analyse(self, query: Query) -> AnalysedQuery:
        return self._analysis.analyse(query)

    def check_columns(self, identifier: TableIdentifier, columns: Sequence[Column]) -> tuple[Column, ...]:
        with self._working():
            session = self._catalogs.session
            return tuple(replace(column, type=stored_type(session, column)) for column in columns)

    def check_assignable(self, produced: Sequence[Column], declared: Sequence[Column]) -> None:
        with self._working():
            for source, target in zip(produced, declared, strict=True):
                check_assignable(self._driver.session, source, target)

    def read_vector(self, query: Query) -> SourceVector:
        with self._working():
            return self._versions.vector(query)

    def relation_exists(self, identifier: TableIdentifier) -> bool:
        with self._working():
            self._catalogs.plugin(identifier.catalog)
            return Names(self._driver.session).relation_exists(identifier.parts)

    def namespace_exists(self, catalog: str, namespace: Namespace) -> bool:
        with self._working():
            self._catalogs.plugin(catalog)
            return Names(self._driver.session).namespace_exists(catalog, namespace)

    def create_storage(self, spec: StorageSpec) -> None:
        with self._working():
            self._storage.create(spec)

    def drop_storage(self, identifier: TableIdentifier, table_id: str, location: str) -> None:
        with self._working():
            self._storage.drop(identifier, table_id, location)

    def add_columns(self, identifier: TableIdentifier, columns: Sequence[Column]) -> None:
        with self._working():
            self._storage.add_columns(identifier, columns)

    def set_properties(self, spec: StorageSpec, *, forgotten: Collection[str]) -> None:
        with self._working():
            self._storage.set_properties(spec, forgotten)

    def has_expired(self, identifier: TableIdentifier, older_than: datetime) -> bool:
        with self._working():
            return self._housekeeping.has_expired(identifier, older_than)

    def expire(self, identifier: TableIdentifier, older_than: datetime) -> None:
        with self._working():
            self._housekeeping.expire(identifier, older_than)

    def remove_orphans(self, identifier: TableIdentifier, older_than: datetime) -> None:
        with self._working():
            self._housekeeping.remove_orphans(identifier, older_than)

    def load(self, identifier: TableIdentifier) -> StorageMetadata:
        with self._working():
            return self._metadata.load(identifier)

    def swap(self, identifier: TableIdentifier, metadata: StorageMetadata, change: MetadataChange) -> None:
        with self._working():
            self._metadata.swap(identifier, metadata, change)

    def ancestors(self, metadata: StorageMetadata) -> Iterator[Snapshot]:
        snapshots = ancestors(metadata)
        while True:
            with self._working():
                snapshot = next(snapshots, None)
            if snapshot is None:
                return
            yield snapshot

    def partition_values(self, query: Query, identifier: TableIdentifier, column: str) -> frozenset[str | None]:
        with self._working():
            return self._writes.partition_values(query, identifier, column)

    def write(self, write: Write) -> Staged:
        return self._writes.write(write)

    def cancel(self, job_id: str) -> None:
        self._driver.cancel(job_id)

    def progress(self, job_id: str) -> Progress | None:
        return self._driver.progress(job_id)

    def trouble(self) -> str:
        return self._driver.trouble()

    def cluster_info(self) -> Mapping[str, str]:
        with self._driver.translating():
            return {"execution.target": str(self._driver.session.sparkContext.master)}
