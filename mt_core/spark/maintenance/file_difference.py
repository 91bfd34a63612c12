"""The difference of two snapshots of a table by their files: what a change of rows touched, without a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import java_items, static_member

MOST_FILES = 1000
"""Files of a snapshot up to which two of them are compared: each takes a few calls of the JVM."""
_NEW_LIST = "org.apache.iceberg.relocated.com.google.common.collect.Lists.newArrayList"
_EQUALITY_DELETES = "EQUALITY_DELETES"
_Deletes = frozenset[tuple[str, int | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedFile:
    """A data file of a snapshot with the delete files that apply to it, and Iceberg's task that reads both."""

    task: Any
    deletes: _Deletes


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """The files that one snapshot has and another has not, or has with other deletes.

    `size` is in bytes. `rows` is the number of rows that can differ; None if files were rewritten, which also have rows that stay.
    """

    old: tuple[Any, ...]
    new: tuple[Any, ...]
    size: int
    rows: int | None


def files_between(session: SparkSession, table: Any, old: str, new: str) -> FileDifference | str:
    """Return the difference of two live snapshots of *table*, or why there is none."""
    before, after = (_files_of(session, table, snapshot) for snapshot in (old, new))
    if before is None or after is None:
        return f"it has more than {MOST_FILES} files"
    gone = {name: each for name, each in before.items() if name not in after or after[name].deletes != each.deletes}
    come = {name: each for name, each in after.items() if name not in before or before[name].deletes != each.deletes}
    tasks = [each.task for each in (*gone.values(), *come.values())]
    return FileDifference(
        old=tuple(each.task for each in gone.values()),
        new=tuple(each.task for each in come.values()),
        size=sum(task.sizeBytes() for task in tasks),
        rows=_rows(gone, come),
    )


def _files_of(session: SparkSession, table: Any, snapshot: str) -> dict[str, ScannedFile] | None:
    """Return the files of a snapshot by their location; None if there are too many."""
    summary = table.snapshot(int(snapshot)).summary()
    if int(summary.get("total-data-files") or 0) > MOST_FILES:
        return None
    tasks = planned_tasks(session, table.newScan().useSnapshot(int(snapshot)))
    if len(tasks) > MOST_FILES:
        return None
    return {task.file().location(): ScannedFile(task=task, deletes=_deletes(task)) for task in tasks}


def planned_tasks(session: SparkSession, scan: Any) -> list[Any]:
    """Return the tasks of an Iceberg scan, each of which reads a file."""
    planned = scan.planFiles()
    try:
        return java_items(static_member(session, _NEW_LIST)(planned))
    finally:
        planned.close()


def _deletes(task: Any) -> _Deletes:
    if task.filesCount() == 1:
        return frozenset()
    return frozenset((each.location(), each.contentOffset()) for each in java_items(task.deletes()))


def _rows(gone: Mapping[str, ScannedFile], come: Mapping[str, ScannedFile]) -> int | None:
    """Return how many rows two sets of files can differ by; None if that cannot be said."""
    rewritten = gone.keys() - come.keys(), come.keys() - gone.keys()
    if all(rewritten):
        return None
    files = sum(each.task.file().recordCount() for each in _only(gone, come))
    deletes: dict[tuple[str, int | None], Any] = {}
    for name in gone.keys() & come.keys():
        differing = gone[name].deletes ^ come[name].deletes
        for task in (gone[name].task, come[name].task):
            found = {(each.location(), each.contentOffset()): each for each in java_items(task.deletes())}
            deletes |= {key: each for key, each in found.items() if key in differing}
    if any(str(each.content()) == _EQUALITY_DELETES for each in deletes.values()):
        return None
    return int(files + sum(each.recordCount() for each in deletes.values()))


def _only(gone: Mapping[str, ScannedFile], come: Mapping[str, ScannedFile]) -> Iterable[ScannedFile]:
    return (each for name, each in (*gone.items(), *come.items()) if (name in gone) != (name in come))
