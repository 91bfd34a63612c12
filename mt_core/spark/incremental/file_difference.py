"""The difference of two snapshots of a table by their files: what a change of rows touched, without a job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import own_class
from mt_core.spark.iceberg.scan_tasks import SCAN_TASKS, Extent, planned_tasks
from mt_core.spark.incremental.known_changes import Known
from mt_core.spark.queries.lineage import Shape, shape_of

MOST_FILES = 1000
"""Files of a snapshot up to which two of them are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedDelete:
    """A delete file, or the part of one at `offset`, with the number of rows that it has;
    it may be by `equality`.
    """

    location: str
    offset: int | None
    rows: int
    equality: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedFile:
    """A data file of a snapshot with the delete files that apply to it, and the place of the task
    that reads both.
    """

    place: int
    size: int
    rows: int
    deletes: frozenset[ScannedDelete]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedFiles:
    """The files of a snapshot by their location, and Iceberg's tasks that read them, a list of the JVM."""

    tasks: Any
    files: Mapping[str, ScannedFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """The files that one snapshot has and another has not, or has with other deletes.

    `old` and `new` are the tasks that read them, lists of the JVM; `extent` is that of both. `rows` is the
    number of rows that can differ; None if files were rewritten, which also have rows that stay.
    """

    old: Any
    new: Any
    extent: Extent
    rows: int | None


# A run asks for a difference when it decides, and again when it writes;
# then runs of other tables that read the same source do.
_differences: Known[FileDifference] = Known(16)
# The next change of a source begins at the version at which the last one ended.
_listings: Known[ScannedFiles] = Known(8)


def files_between(session: SparkSession, table: Any, old: str, new: str) -> FileDifference | str:
    """Return the difference of two live snapshots of *table*, or why there is none."""
    shape = shape_of(table)
    found = _differences.of(session, shape, old, new)
    if found is not None:
        return found
    before, after = (_files_of(session, table, shape, snapshot) for snapshot in (old, new))
    if before is None or after is None:
        return f"it has more than {MOST_FILES} files"
    difference = _between(session, before, after)
    _differences.keep(difference, session, shape, old, new)
    return difference


def _between(session: SparkSession, before: ScannedFiles, after: ScannedFiles) -> FileDifference:
    gone, come = _others(before.files, after.files), _others(after.files, before.files)
    files = [*gone.values(), *come.values()]
    return FileDifference(
        old=_tasks(session, before, gone),
        new=_tasks(session, after, come),
        extent=Extent(
            files=len(files), size=sum(each.size for each in files), rows=sum(each.rows for each in files)
        ),
        rows=_rows(gone, come),
    )


def _others(files: Mapping[str, ScannedFile], than: Mapping[str, ScannedFile]) -> dict[str, ScannedFile]:
    """Return those of *files* that are not the same in others."""
    return {
        name: each for name, each in files.items() if name not in than or than[name].deletes != each.deletes
    }


def _tasks(session: SparkSession, listing: ScannedFiles, files: Mapping[str, ScannedFile]) -> Any:
    places = json.dumps([each.place for each in files.values()])
    return own_class(session, SCAN_TASKS).chosen(listing.tasks, places)


def _files_of(session: SparkSession, table: Any, shape: Shape, snapshot: str) -> ScannedFiles | None:
    """Return the files of a snapshot; None if there are too many."""
    files = _listings.of(session, shape, snapshot)
    if files is None:
        files = _listed(session, table, snapshot)
        if files is not None:
            _listings.keep(files, session, shape, snapshot)
    return files


def _listed(session: SparkSession, table: Any, snapshot: str) -> ScannedFiles | None:
    summary = table.snapshot(int(snapshot)).summary()
    if int(summary.get("total-data-files") or 0) > MOST_FILES:
        return None
    tasks = planned_tasks(session, table.newScan().useSnapshot(int(snapshot)))
    if len(tasks) > MOST_FILES:
        return None
    files = {
        each["location"]: ScannedFile(
            place=place,
            size=each["size"],
            rows=each["rows"],
            deletes=frozenset(
                ScannedDelete(location=location, offset=offset, rows=rows, equality=equality)
                for location, offset, rows, equality in each["deletes"]
            ),
        )
        for place, each in enumerate(json.loads(own_class(session, SCAN_TASKS).facts(tasks)))
    }
    return ScannedFiles(tasks=tasks, files=files)


def _rows(gone: Mapping[str, ScannedFile], come: Mapping[str, ScannedFile]) -> int | None:
    """Return how many rows two sets of files can differ by; None if that cannot be said."""
    rewritten = gone.keys() - come.keys(), come.keys() - gone.keys()
    if all(rewritten):
        return None
    deletes = {each for name in gone.keys() & come.keys() for each in gone[name].deletes ^ come[name].deletes}
    if any(each.equality for each in deletes):
        return None
    files = {**gone, **come}
    return sum(files[name].rows for names in rewritten for name in names) + sum(each.rows for each in deletes)
