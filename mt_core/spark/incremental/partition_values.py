"""Partition values: the partitions of a table in which rows may have changed, by the keys of the change."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from pyspark.sql import DataFrame, SparkSession

from mt_core.incremental.changes import ChangeKind
from mt_core.incremental.stages.key_source import KeySource
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.incremental.appended_partitions import appended_values
from mt_core.spark.incremental.key_rows import KeyRows
from mt_core.spark.incremental.maintained_block import changes_of_run
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.queries.source_versions import pins
from mt_core.spark.readings.reading_versions import check_unchanged
from mt_core.tables.engine import Maintenance, SourceVector

Values = frozenset[tuple[str | None, ...]]
"""Different keys, each as the texts of its values."""


def changed_keys(
    session: SparkSession, lineage: Lineage, vector: SourceVector, maintenance: Maintenance
) -> Values:
    """Return the keys at which rows of a query changed up to *vector*.

    Raises SourcesChanged or NotApplied if they are not known.
    """
    strategy = maintenance.strategy
    assert strategy.rows is not None
    assert strategy.division is not None
    check_unchanged(lineage, vector)
    known = _in_manifests(session, lineage, vector, maintenance, strategy.division.source)
    if known is not None:
        return known
    with ExitStack() as stack:
        changes = changes_of_run(session, lineage, vector, maintenance, stack)
        keys = KeyRows(changes=changes, blocks=strategy.rows, division=strategy.division).keys()
        items = [f"CAST({name} AS STRING) AS {name}" for name in keys.columns]

        def texts(at: Mapping[str, str]) -> DataFrame:
            return session.table(at["keys"]).selectExpr(*items)

        few = PLANS.run(session, lineage, f"texts {items}", texts, {"keys": keys})
        rows = None if few is None else few.rows
        if rows is None:
            return frozenset(map(tuple, keys.frame.selectExpr(*items).distinct().collect()))
        return frozenset(tuple(row.values()) for row in rows.to_pylist())


def _in_manifests(
    session: SparkSession, lineage: Lineage, vector: SourceVector, maintenance: Maintenance, keys: KeySource
) -> Values | None:
    """Return the keys from the sources' manifests, or None if manifests do not contain them.

    They do if rows were only appended to sources that are partitioned by the key. After an update, a
    rewritten file also has rows that have not changed.
    """
    changes, old, new = maintenance.changes, pins(maintenance.since), pins(vector)
    tables = {source.name: source.table for source in lineage.sources}
    distinct = set[tuple[str | None, ...]]()
    for number, change in changes.by_reading().items():
        if not change.kind.changes_rows:
            continue
        columns = keys.tables.get(number)
        if columns is None or change.kind is not ChangeKind.APPENDS or change.from_nothing:
            return None
        source = changes.readings[number]
        with lineage.lock:
            values = appended_values(session, tables[source], old[source], new[source], columns)
        if values is None:
            return None
        distinct |= values
    return frozenset(distinct)
