"""The difference of two snapshots of a table by their files: what a change of rows touched, without a job."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import java_function, java_items, json_of
from mt_core.spark.iceberg.staged_files import planned
from mt_core.spark.incremental.known_changes import Known
from mt_core.spark.queries.lineage import Shape, shape_of

MOST_FILES = 1000
"""Files of a snapshot up to which two of them are compared."""
_EQUALITY_DELETES = "EQUALITY_DELETES"
_Deletes = frozenset[tuple[str, int | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedFile:
    """A data file of a snapshot with the delete files that apply to it, and Iceberg's task that reads both."""

    tasks: Any
    index: int
    deletes: _Deletes

    @property
    def task(self) -> Any:
        return self.tasks.get(self.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """The files that one snapshot has and another has not, or has with other deletes.

    `size` is in bytes. `rows` is the number of rows that can differ; None if files were rewritten, which also have rows that stay.
    """

    old: tuple[Any, ...]
    new: tuple[Any, ...]
    size: int
    rows: int | None


# A run asks for a difference when it decides, and again when it writes; then runs of other tables that read the same source do.
_differences: Known[FileDifference] = Known(16)
# The next change of a source begins at the version at which the last one ended.
_listings: Known[dict[str, ScannedFile]] = Known(8)


def files_between(session: SparkSession, table: Any, old: str, new: str) -> FileDifference | str:
    """Return the difference of two live snapshots of *table*, or why there is none."""
    shape = shape_of(table)
    found = _differences.of(session, shape, old, new)
    if found is not None:
        return found
    before, after = (_files_of(session, table, shape, snapshot) for snapshot in (old, new))
    if before is None or after is None:
        return f"it has more than {MOST_FILES} files"
    difference = _between(before, after)
    _differences.keep(difference, session, shape, old, new)
    return difference


def _between(before: Mapping[str, ScannedFile], after: Mapping[str, ScannedFile]) -> FileDifference:
    gone = {name: each for name, each in before.items() if name not in after or after[name].deletes != each.deletes}
    come = {name: each for name, each in after.items() if name not in before or before[name].deletes != each.deletes}
    earlier, later = (tuple(each.task for each in files.values()) for files in (gone, come))
    return FileDifference(
        old=earlier,
        new=later,
        size=sum(task.sizeBytes() for task in (*earlier, *later)),
        rows=_rows(gone, come),
    )


def _files_of(session: SparkSession, table: Any, shape: Shape, snapshot: str) -> dict[str, ScannedFile] | None:
    """Return the files of a snapshot by their location; None if there are too many."""
    files = _listings.of(session, shape, snapshot)
    if files is None:
        files = _listed(session, table, snapshot)
        if files is not None:
            _listings.keep(files, session, shape, snapshot)
    return files


def _listed(session: SparkSession, table: Any, snapshot: str) -> dict[str, ScannedFile] | None:
    summary = table.snapshot(int(snapshot)).summary()
    if int(summary.get("total-data-files") or 0) > MOST_FILES:
        return None
    tasks = planned(session, table.newScan().useSnapshot(int(snapshot)))
    locations = _of_each(
        session, tasks, "org.apache.iceberg.ContentScanTask.file", "org.apache.iceberg.ContentFile.location"
    )
    if len(locations) > MOST_FILES:
        return None
    files = _of_each(session, tasks, "org.apache.iceberg.ScanTask.filesCount")
    return {
        location: ScannedFile(
            tasks=tasks, index=index, deletes=frozenset() if files[index] == 1 else _deletes(tasks.get(index))
        )
        for index, location in enumerate(locations)
    }


def _of_each(session: SparkSession, tasks: Any, *methods: str) -> list[Any]:
    """Return what *methods*, the next of what the one before gives, give for each task; all come with one answer."""
    stream = tasks.stream()
    for method in methods:
        stream = stream.map(java_function(session, method))
    found: list[Any] = json.loads(json_of(session, stream.toList()))
    return found


def _deletes(task: Any) -> _Deletes:
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
