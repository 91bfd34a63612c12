"""Partition values: the partitions of a table in which rows may have changed, by the keys of the change."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from pyspark.sql import DataFrame, SparkSession

from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.incremental.appended_partitions import values_in_manifests
from mt_core.spark.incremental.key_rows import KeyRows
from mt_core.spark.incremental.maintained_block import changes_of_run
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.readings.reading_versions import check_unchanged
from mt_core.tables.engine import Maintenance, SourceVector


def changed_keys(
    session: SparkSession, lineage: Lineage, vector: SourceVector, maintenance: Maintenance
) -> frozenset[tuple[str | None, ...]]:
    """Return the keys at which rows of a query changed up to *vector*, each as the texts of its values.

    Raises SourcesChanged or NotApplied if they are not known.
    """
    strategy = maintenance.strategy
    assert strategy.rows is not None
    assert strategy.division is not None
    check_unchanged(lineage, vector)
    tables = strategy.division.source.tables
    changed = (number for number, each in maintenance.changes.by_reading().items() if each.kind.changes_rows)
    columns = {number: tables.get(number) for number in changed}
    known = values_in_manifests(session, lineage, vector, maintenance, columns)
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
