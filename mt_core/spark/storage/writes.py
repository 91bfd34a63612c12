"""Writes of refresh runs: a query at fixed versions, staged on the run's branch, overwriting exactly its scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import reduce
from uuid import uuid4

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from mt_core.errors import EngineError, QueryFailed, RequestInvalid, SourcesChanged
from mt_core.identifiers import quote
from mt_core.model.partition import PartitionSpec, Scope
from mt_core.model.storage import RUN_ID
from mt_core.model.table import Column, TableIdentifier
from mt_core.spark.catalogs.columns import sql_type
from mt_core.spark.catalogs.lookup import Catalogs
from mt_core.spark.driver.conf import REFRESH_POOL
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.jvm_objects import active_session
from mt_core.spark.queries.contexts import QueryContexts
from mt_core.spark.queries.source_versions import SourceVersions
from mt_core.spark.storage.metadata import MetadataStore, summary_of
from mt_core.tables.definition.options import execution_settings, write_options
from mt_core.tables.definition.shape import stored_order
from mt_core.tables.engine import Query, Staged, Write

BRANCH_SELECTOR = "branch_"
_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})


class StagedWrites:
    """Stages rows on branches. Blocks; any thread."""

    def __init__(
        self, driver: SparkDriver, catalogs: Catalogs, contexts: QueryContexts, versions: SourceVersions
    ) -> None:
        self._driver = driver
        self._catalogs = catalogs
        self._metadata = MetadataStore(catalogs)
        self._contexts = contexts
        self._versions = versions

    def write(self, write: Write) -> Staged:
        """Stage rows; raises QueryFailed when the query fails and Canceled after `cancel(job_id)`."""
        try:
            with self._driver.run_tagged(write.job_id, REFRESH_POOL, f"refresh of {write.table}"):
                return self._staged(write)
        except QueryFailed as cause:
            if self._versions.has_lost(write.query, write.vector):
                raise SourcesChanged(
                    f"A source of {write.table} was dropped or a version of it expired while the refresh was reading it; "
                    "run it again."
                ) from cause
            # Line and position would be those of the pinned text, which nobody wrote.
            raise cause.reworded(cause.message) from cause

    def partition_values(self, query: Query, table: TableIdentifier, column: str) -> frozenset[str | None]:
        """Return the values of a partition column that the query gives now, and those that the table has."""
        session = self._contexts.session(query)
        with self._driver.run_tagged(uuid4().hex, REFRESH_POOL, f"partitions of {table}"), active_session(session):
            name = quote(column)
            given = session.sql(query.text).select(name).union(session.table(table.sql).select(name)).distinct()
            return frozenset(row[0] for row in given.collect())

    def _staged(self, write: Write) -> Staged:
        # The settings of one refresh hold where it runs, not where its query is understood.
        settings = {**write.query.settings, **execution_settings(write.options)}
        session = self._contexts.session(replace(write.query, settings=settings))
        with active_session(session):
            self._require_branch(write)
            self._overwrite(session, write)
            return self._found(write)

    def _overwrite(self, session: SparkSession, write: Write) -> None:
        rows = session.sql(self._versions.pinned_text(write.query, write.vector))
        shaped = _shaped(rows, write)
        scope = _predicate(write.scope, write.columns)
        target = ".".join((write.table.sql, quote(f"{BRANCH_SELECTOR}{write.branch}")))
        writer = (shaped if scope is None else shaped.filter(scope)).writeTo(target)
        for key, value in {**write_options(write.options), **_snapshot_properties(write.summary)}.items():
            writer = writer.option(key, value)
        writer.overwrite(lit(True) if scope is None else scope)

    def _require_branch(self, write: Write) -> None:
        if self._catalogs.load_table(write.table).refs().get(write.branch) is None:
            raise EngineError(
                f"{write.table} has no branch {write.branch} any more: another owner took the table over."
            )

    def _found(self, write: Write) -> Staged:
        metadata = self._metadata.load(write.table)
        snapshot_id = metadata.branches.get(write.branch)
        summary = {} if snapshot_id is None else summary_of(metadata, snapshot_id)
        if snapshot_id is None or summary.get(RUN_ID) != write.summary.get(RUN_ID):
            raise EngineError(f"Branch {write.branch} of {write.table} does not end with the rows of this run.")
        return Staged(snapshot_id=snapshot_id, rows=int(summary.get("added-records") or 0), metadata=metadata)


def _shaped(rows: DataFrame, write: Write) -> DataFrame:
    """Give *rows* the table's columns: matched by name, whatever their order."""
    produced = tuple(Column(name=field.name, type=sql_type(field.dataType)) for field in rows.schema.fields)
    names = stored_order(write.table, produced, write.columns, write.query_types)
    if [column.name for column in produced] == [column.name for column in write.columns]:
        return rows
    return rows.select(
        *(col(quote(name)).alias(column.name) for name, column in zip(names, write.columns, strict=True))
    )


def _predicate(scope: Scope, columns: Sequence[Column]) -> SparkColumn | None:
    """Return the condition of exactly *scope*, or None for the whole table."""
    if scope.specs is None:
        return None
    known = {column.name.lower(): column for column in columns}
    # No IN: Iceberg looks a NULL partition up in the set of values, and fails.
    return _any([_of_spec(spec, known) for spec in sorted(scope.specs)])


def _any(conditions: Sequence[SparkColumn]) -> SparkColumn:
    """Return the OR of *conditions* as a tree that is as flat as can be: a chain of hundreds overflows Spark's stack."""
    if len(conditions) < 2:
        return conditions[0] if conditions else lit(False)
    middle = len(conditions) // 2
    return _any(conditions[:middle]) | _any(conditions[middle:])


def _of_spec(spec: PartitionSpec, known: Mapping[str, Column]) -> SparkColumn:
    terms = []
    for name, value in spec.items:
        column = _column(known, name)
        named = col(quote(column.name))
        terms.append(named.isNull() if value is None else named == _literal(column, value))
    return reduce(lambda left, right: left & right, terms, lit(True))


def _column(known: Mapping[str, Column], name: str) -> Column:
    column = known.get(name.lower())
    if column is None:
        raise RequestInvalid(f"PARTITION ({name} = …): the table has no column {name}.")
    return column


def _literal(column: Column, value: str) -> SparkColumn:
    """Return a partition value in the column's type, as a literal: Iceberg understands no expressions."""
    kind = column.type.lower()
    try:
        if kind in _INTEGERS:
            return lit(int(value)).cast(kind)
        if kind == "date":
            return lit(date.fromisoformat(value))
        if kind.startswith("decimal"):
            return lit(Decimal(value)).cast(kind)
    except (ValueError, InvalidOperation) as cause:
        raise RequestInvalid(
            f"PARTITION ({column.name} = '{value}'): the value does not fit type {column.type}."
        ) from cause
    return lit(value) if kind == "string" else lit(value).cast(kind)


def _snapshot_properties(summary: Mapping[str, str]) -> dict[str, str]:
    return {f"snapshot-property.{key}": value for key, value in summary.items()}
