"""The number of rows that a statement inserted, updated and deleted, from Spark and Iceberg metrics."""

from __future__ import annotations

import logging
from itertools import takewhile
from typing import Any

from pyspark.sql import DataFrame

from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.results.local_rows import COMMAND_RESULT

log = logging.getLogger(__name__)

# Writes whose output rows are exactly the affected rows.
_WRITES = frozenset({"AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic"})
# These run an inner statement, whose row count is only in the table's snapshot.
_TABLES_OF_QUERIES = frozenset({"AtomicCreateTableAsSelect", "AtomicReplaceTableAsSelect"})
_COMMITTED = ("addedRecords", "removedRecords", "totalDeleteFiles", "removedDeleteFiles")
_MERGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
_SPARK_TABLE = "org.apache.iceberg.spark.source.SparkTable"


def affected_rows(frame: DataFrame, started_ms: int) -> int | None:
    """Return how many rows the statement behind *frame* changed, or None if it is unknown or not a change.

    *started_ms* is the start time of the statement in milliseconds since 1970. Errors while counting are
    only logged, because the change has been made.
    """
    try:
        return _counted(frame, started_ms)
    except SPARK_ERRORS as error:
        log.warning("rows of a change were not counted: %s", error, extra={"action": "rows_not_counted"})
        return None


def _counted(frame: DataFrame, started_ms: int) -> int | None:
    execution: Any = frame._jdf.queryExecution()
    command = execution.commandExecuted()
    if command.nodeName() != COMMAND_RESULT:
        return None
    plan = command.commandPhysicalPlan()
    match str(plan.nodeName()):
        case kind if kind in _WRITES:
            return _written(plan)
        case "ReplaceData" | "WriteDelta" as kind:
            return _changed(command.commandLogicalPlan(), plan, rewrites=kind == "ReplaceData")
        case "DeleteFromTable":
            return _in_snapshot(plan.table(), "deleted-records", started_ms)
        case kind if kind in _TABLES_OF_QUERIES:
            # IF NOT EXISTS does not add a snapshot to an existing table.
            absent = 0 if kind.startswith("AtomicCreate") and plan.ifNotExists() else None
            return _in_snapshot(plan.catalog().loadTable(plan.ident()), "added-records", started_ms, absent)
        case _:
            return None


def _written(plan: Any) -> int | None:
    progress = plan.commitProgress()
    return int(progress.get().numOutputRows()) if progress.isDefined() else None


def _changed(statement: Any, plan: Any, *, rewrites: bool) -> int | None:
    """Return the number of rows affected by an UPDATE, DELETE or MERGE.

    *rewrites* means that the statement rewrote files (copy-on-write) instead of adding delete files
    (merge-on-read).
    """
    written = _written(plan)
    added, removed, *delete_files = _metrics(plan, _COMMITTED)
    if written == 0 and removed == 0:
        return 0
    match str(statement.operation().command()), rewrites:
        case "MERGE", _:
            merged = _merge_rows(plan)
            return None if merged is None else sum(_metrics(merged, _MERGED))
        case "DELETE", True:
            # The record count of a file includes records that delete files had already removed from it.
            return None if any(delete_files) else removed - added
        case "DELETE", False:
            return written
        case "UPDATE", True:
            # With a condition, unchanged rows of rewritten files were also written.
            return written if str(statement.condition().toString()) == "true" else None
        case "UPDATE", False:
            return added
        case _:
            return None


def _merge_rows(plan: Any) -> Any:
    """Return the MergeRows node of *plan*, or None if the optimizer removed it."""
    nodes = [plan]
    for node in nodes:
        if str(node.nodeName()) == "MergeRows":
            return node
        children = plan.allChildren(node)
        nodes += (children.apply(index) for index in range(children.size()))
    return None


def _metrics(plan: Any, names: tuple[str, ...]) -> list[int]:
    metrics = plan.metrics()
    values = (metrics.get(name) for name in names)
    return [max(0, int(metric.get().value())) if metric.isDefined() else 0 for metric in values]


def _in_snapshot(table: Any, key: str, started_ms: int, absent: int | None = None) -> int | None:
    """Return the number *key* in the summary of the only snapshot since *started_ms*, or *absent*.

    Return None if concurrent statements also committed, or if the number includes records that delete files
    had already removed.
    """
    if str(table.getClass().getName()) != _SPARK_TABLE:
        return None
    since = list(
        takewhile(lambda each: each.timestampMillis() >= started_ms, reversed(table.table().snapshots()))
    )
    if len(since) != 1:
        return None if since else absent
    summary = since[0].summary()
    if key == "deleted-records" and summary.containsKey("removed-delete-files"):
        return None
    return int(summary.getOrDefault(key, "0"))
