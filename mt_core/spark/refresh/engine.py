"""The refresh engine on Spark and Iceberg, composed of its roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

from pyspark.sql.functions import col

from mt_core.base.identifiers import Namespace, quote
from mt_core.errors import QueryFailed
from mt_core.model.table import Column, TableIdentifier
from mt_core.spark.catalogs.columns import check_assignable, stored_type
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.conf import REFRESH_POOL
from mt_core.spark.driver.jvm_objects import active_session, java_strings
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.queries.analysis import OWN_SESSION, analysis_of
from mt_core.spark.queries.commits import Commits
from mt_core.spark.queries.views import Names
from mt_core.spark.refresh.comparisons import Comparisons
from mt_core.spark.refresh.housekeeping import Housekeeping
from mt_core.spark.refresh.metadata import MetadataStore
from mt_core.spark.refresh.source_changes import SourceLogs
from mt_core.spark.refresh.storage_tables import StorageTables, new_location
from mt_core.spark.refresh.writes import StagedWrites
from mt_core.tables.engine import (
    AnalysedQuery,
    CatalogLookup,
    EngineState,
    EngineWorkload,
    Query,
    QueryAnalysis,
    RefreshEngine,
    SourceReader,
    SourceVector,
    UnreadSources,
)

_SESSION_BOUND = frozenset({"TABLE_OR_VIEW_NOT_FOUND", "UNRESOLVED_ROUTINE", "UNRESOLVED_VARIABLE"})


def spark_engine(spark: SparkContexts) -> RefreshEngine:
    """Return the refresh engine that runs on a Spark driver."""
    return RefreshEngine(
        catalogs=_Catalogs(spark),
        queries=_Queries(spark),
        sources=_Sources(spark),
        changes=SourceLogs(spark),
        storage=StorageTables(spark),
        metadata=MetadataStore(spark),
        housekeeping=Housekeeping(spark),
        writes=StagedWrites(spark),
        comparisons=Comparisons(spark),
        jobs=spark.driver,
        state=_State(spark.driver),
    )


class _Catalogs(CatalogLookup):
    def __init__(self, spark: SparkContexts) -> None:
        self._spark = spark

    def check_catalog(self, identifier: TableIdentifier) -> None:
        with self._spark.working():
            self._spark.table_catalogs.check(identifier)

    def location_of(self, identifier: TableIdentifier, table_id: str) -> str:
        with self._spark.working():
            return new_location(self._spark.table_catalogs, identifier, table_id)

    def namespace_exists(self, catalog: str, namespace: Namespace) -> bool:
        with self._spark.working() as session:
            return bool(
                self._spark.catalogs.plugin(catalog).namespaceExists(java_strings(session, namespace))
            )

    def relation_exists(self, identifier: TableIdentifier) -> bool:
        with self._spark.working() as session:
            self._spark.catalogs.plugin(identifier.catalog)
            return Names(session).relation_exists(identifier.parts)


class _Queries(QueryAnalysis):
    def __init__(self, spark: SparkContexts) -> None:
        self._spark = spark

    def analyse(self, query: Query) -> AnalysedQuery:
        try:
            with self._spark.driver.translating():
                session = self._spark.queries.session(query)
                with active_session(session):
                    return analysis_of(session, query.text)
        except QueryFailed as cause:
            if cause.error_class not in _SESSION_BOUND:
                raise
            raise cause.reworded(
                f"{cause.message} {OWN_SESSION}", line=cause.line, position=cause.position
            ) from cause

    def check_columns(self, identifier: TableIdentifier, columns: Sequence[Column]) -> tuple[Column, ...]:
        with self._spark.working() as session:
            return tuple(replace(column, type=stored_type(session, column)) for column in columns)

    def check_assignable(self, produced: Sequence[Column], declared: Sequence[Column]) -> None:
        with self._spark.working() as session:
            for source, target in zip(produced, declared, strict=True):
                check_assignable(session, source, target)

    def partition_values(
        self, query: Query, identifier: TableIdentifier, column: str
    ) -> frozenset[str | None]:
        with self._spark.driver.run_tagged(uuid4().hex, REFRESH_POOL, f"partitions of {identifier}"):
            session = self._spark.queries.session(query)
            with active_session(session):
                value = col(quote(column)).cast("string")
                produced = session.sql(query.text).select(value)
                values = produced.union(session.table(identifier.sql).select(value)).distinct()
                return frozenset(row[0] for row in values.collect())


class _Sources(SourceReader):
    def __init__(self, spark: SparkContexts) -> None:
        self._spark, self._commits = spark, Commits()

    def read_vector(self, query: Query) -> SourceVector:
        with self._spark.working():
            return self._spark.versions.vector(query)

    def source_fingerprints(self, queries: Sequence[Query]) -> Sequence[str | UnreadSources | None]:
        with self._spark.working():
            return self._spark.versions.source_fingerprints(queries)

    def next_commit(self, timeout_s: float) -> str | None:
        with self._spark.driver.translating():
            return self._commits.next(self._spark.driver.session, timeout_s)


class _State(EngineState):
    def __init__(self, driver: SparkDriver) -> None:
        self._driver = driver

    def ready(self) -> bool:
        return self._driver.answers()

    def trouble(self) -> str:
        return self._driver.trouble()

    def note(self) -> str:
        return self._driver.note

    def cluster_info(self) -> Mapping[str, str]:
        with self._driver.translating():
            return {"execution.target": str(self._driver.session.sparkContext.master)}

    def workload(self) -> EngineWorkload | None:
        return self._driver.workload()

    def starts(self) -> int:
        return self._driver.generation
