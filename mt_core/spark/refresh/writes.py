"""Row writes of refresh runs: the query at pinned versions, in a snapshot that a publish adds to the table.

There are three kinds of writes: all rows of the scope, all rows of the partitions with changed rows, or a
change of single rows (`maintained_rows`). Each write is exactly one snapshot, whose summary names the run and
the batch. It follows the main on which the rows are based. Readers see nothing until it is published, and
only the files of an attempt that fails remain, which housekeeping removes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from mt_core.base.identifiers import quote
from mt_core.errors import QueryFailed, RequestInvalid, SourcesChanged
from mt_core.incremental.strategy import ResultUnchanged, Way
from mt_core.model.partition import PartitionSpec, Scope
from mt_core.model.storage import StorageMetadata, state_summary
from mt_core.model.table import Column
from mt_core.spark.catalogs.columns import sql_type
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.conf import REFRESH_POOL
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.iceberg.held_commit import HeldCommit
from mt_core.spark.iceberg.metadata import ancestors, facts_of, metadata_of
from mt_core.spark.iceberg.recent_files import RecentFilesCache
from mt_core.spark.iceberg.replace_rows import AllRows, Change, DeleteModes, replace_rows
from mt_core.spark.incremental.maintained_block import maintained_block
from mt_core.spark.incremental.maintained_rows import changed_key_values, maintained_rows
from mt_core.spark.incremental.maintained_stages import staged_rows
from mt_core.spark.incremental.partition_values import changed_keys
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.states.kept_states import KeptStates
from mt_core.tables.definition.options import execution_settings, write_options
from mt_core.tables.definition.shape import stored_order
from mt_core.tables.engine import Comparison, Maintenance, Query, RowWriter, SourceVector, Staged, Write

MOST_TOUCHED = 1000
"""The maximum number of changed partitions that are replaced by name."""
_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})


class StagedWrites(RowWriter):
    """Stages rows in pending snapshots."""

    def __init__(self, spark: SparkContexts) -> None:
        self._spark = spark
        self._recent = RecentFilesCache()

    def write(self, write: Write) -> Staged:
        # Execution settings apply only to the run, not to the analysis of its query.
        settings = {**write.query.settings, **execution_settings(write.options)}
        with (
            self._reading(write.query, write.vector, str(write.table)),
            self._spark.driver.run_tagged(write.job_id, REFRESH_POOL, f"refresh of {write.table}"),
        ):
            session = self._spark.queries.session(replace(write.query, settings=settings))
            with active_session(session):
                return self._staged(session, write)

    def touched_partitions(
        self, job_id: str, query: Query, vector: SourceVector, maintenance: Maintenance
    ) -> frozenset[tuple[str | None, ...]]:
        with (
            self._reading(query, vector, "the query"),
            self._spark.driver.run_tagged(job_id, REFRESH_POOL, "partitions with changed rows"),
        ):
            session = self._spark.queries.session(query)
            with active_session(session):
                return _changed_keys(session, self._spark.versions.lineage(query), vector, maintenance)

    @contextmanager
    def _reading(self, query: Query, vector: SourceVector, of: str) -> Iterator[None]:
        """Raise SourcesChanged instead of QueryFailed if a source of *query* was lost."""
        try:
            yield
        except QueryFailed as cause:
            if self._spark.versions.lost(query, vector) is not None:
                raise SourcesChanged(
                    f"A source of {of} was dropped, or the version being read expired during the refresh; "
                    "run it again."
                ) from cause
            # Omit the line and position, because they refer to the pinned text and not to the user's.
            raise cause.reworded(cause.message) from cause

    def _staged(self, session: SparkSession, write: Write) -> Staged:
        """Write the rows of the scope and return the pending snapshot."""
        table = self._spark.catalogs.load_table(write.table)
        maintenance = write.maintenance
        metadata = metadata_of(session, table)
        if write.stages is not None:
            return self._staged_with_states(session, write, table, metadata)
        commit = _commit(session, write, metadata)
        if maintenance is None:
            replace_rows(commit, self._all(session, write, predicate_of(write.scope, write.columns)), None)
        elif maintenance.strategy.way is Way.PARTITIONS:
            touched = _changed_keys(
                session, self._spark.versions.lineage(write.query), write.vector, maintenance
            )
            if not touched:
                raise ResultUnchanged
            replace_rows(commit, self._all(session, write, _touched(touched, write, maintenance)), None)
        else:
            modes = _delete_modes(session, table, write, maintenance)
            lineage = self._spark.versions.lineage(write.query)
            maintained = maintained_rows if maintenance.strategy.rows is None else maintained_block
            with maintained(session, lineage, write, maintenance, table, modes) as (change, modes):
                return self._changed(session, metadata, commit, change, modes)
        return _staged(session, metadata, commit)

    def _changed(
        self,
        session: SparkSession,
        metadata: StorageMetadata,
        commit: HeldCommit,
        change: Change,
        modes: DeleteModes | None,
    ) -> Staged:
        """Write a change, also into the files of the changes before."""
        before = self._recent.of(session, commit.name, commit.base or "")
        recent = replace_rows(commit, change, modes, before)
        staged = _staged(session, metadata, commit)
        if recent is not None:
            self._recent.store(session, commit.name, staged.snapshot.snapshot_id, recent)
        return staged

    def _staged_with_states(
        self, session: SparkSession, write: Write, table: Any, metadata: StorageMetadata
    ) -> Staged:
        """Write the states of the stages and then the rows of the query over them."""
        described = next((each for each in ancestors(session, metadata) if each.describes_rows), None)
        kept = KeptStates(session, self._spark, write.table, metadata, described)
        lineage, maintenance = self._spark.versions.lineage(write.query), write.maintenance
        modes = None if maintenance is None else _delete_modes(session, table, write, maintenance)
        with staged_rows(session, lineage, write, kept, table, modes) as rows:
            named = replace(write, summary={**write.summary, **rows.states.summary})
            commit = _commit(session, named, metadata)
            staged = self._changed(session, metadata, commit, rows.change, rows.modes)
        return replace(staged, states=rows.states.text)

    def repeat(self, write: Write, staged: Staged, metadata: StorageMetadata) -> Staged:
        with self._spark.working() as session:
            named = replace(write, summary={**write.summary, **state_summary(staged.snapshot.states)})
            commit = _commit(session, named, metadata)
            commit.repeat(staged.pending)
            return replace(_staged(session, metadata, commit), states=staged.states)

    def _all(self, session: SparkSession, write: Write, scope: SparkColumn | None) -> AllRows:
        """Return the replacement of all table rows in *scope* by the query's rows.

        If *scope* is None, it is the whole table.
        """
        rows = shaped(session.sql(self._spark.versions.pinned_text(write.query, write.vector)), write)
        return AllRows(rows=rows if scope is None else rows.filter(scope), where=scope)


def _changed_keys(
    session: SparkSession, lineage: Lineage, vector: SourceVector, maintenance: Maintenance
) -> frozenset[tuple[str | None, ...]]:
    keys = changed_key_values if maintenance.strategy.division is None else changed_keys
    return keys(session, lineage, vector, maintenance)


def _touched(
    values: Collection[tuple[str | None, ...]], write: Write, maintenance: Maintenance
) -> SparkColumn | None:
    """Return the condition that selects the partitions with *values*.

    Raises QueryFailed if there are too many, or if a value is invalid. The run then recomputes all rows.
    """
    if len(values) > MOST_TOUCHED:
        raise QueryFailed(f"{len(values)} partitions changed")
    names = [maintenance.changes.columns[position].name for position in maintenance.strategy.keys]
    scope = Scope.of(PartitionSpec.of(dict(zip(names, each, strict=True))) for each in values)
    try:
        return predicate_of(scope, write.columns)
    except RequestInvalid as cause:
        raise QueryFailed(str(cause)) from cause


def _delete_modes(
    session: SparkSession, table: Any, write: Write, maintenance: Maintenance
) -> DeleteModes | None:
    """Return the methods to delete rows of the table in place, or None if it is certainly rewritten."""
    # Deletes in place are SQL statements, which do not accept write options.
    if not (maintenance.in_place or maintenance.most_in_place) or write_options(write.options):
        return None
    return DeleteModes.of(session, table)


def _commit(session: SparkSession, write: Write, metadata: StorageMetadata) -> HeldCommit:
    options = write_options(write.options)
    return HeldCommit.on(session, write.table, metadata, write.base, write.summary, options)


def _staged(session: SparkSession, metadata: StorageMetadata, commit: HeldCommit) -> Staged:
    assert commit.pending is not None, "a write of rows always commits"
    return Staged(snapshot=facts_of(session, commit.pending), metadata=metadata, pending=commit.pending)


def shaped(rows: DataFrame, write: Write | Comparison) -> DataFrame:
    """Return *rows* with the table's columns, matched by name and in the table's order."""
    produced = tuple(Column(name=field.name, type=sql_type(field.dataType)) for field in rows.schema.fields)
    names = stored_order(write.table, produced, write.columns, write.query_types)
    if [column.name for column in produced] == [column.name for column in write.columns]:
        return rows
    return rows.select(
        *(col(quote(name)).alias(column.name) for name, column in zip(names, write.columns, strict=True))
    )


def predicate_of(scope: Scope, columns: Sequence[Column]) -> SparkColumn | None:
    """Return the condition that selects exactly *scope*, or None for the whole table."""
    if scope.specs is None:
        return None
    by_name = {column.name.lower(): column for column in columns}
    # Do not use IN, because Iceberg fails to look up a NULL partition in the set of values.
    return _any([_partition_condition(spec, by_name) for spec in sorted(scope.specs)])


def _any(conditions: Sequence[SparkColumn]) -> SparkColumn:
    """Return the OR of *conditions* as a balanced tree, because a long chain overflows Spark's stack."""
    if len(conditions) < 2:
        return conditions[0] if conditions else lit(False)
    middle = len(conditions) // 2
    return _any(conditions[:middle]) | _any(conditions[middle:])


def _partition_condition(spec: PartitionSpec, columns: Mapping[str, Column]) -> SparkColumn:
    condition = lit(True)
    for name, value in spec.items:
        column = columns.get(name.lower())
        if column is None:
            raise RequestInvalid(f"PARTITION ({name} = …): the table has no column {name}.")
        stored = col(quote(column.name))
        condition &= stored.isNull() if value is None else stored == _literal(column, value)
    return condition


def _literal(column: Column, value: str) -> SparkColumn:
    """Return a partition value as a literal of the column's type.

    Iceberg does not evaluate expressions.
    """
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
