"""The files that differ between two snapshots of a table, found without a Spark job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import own_class
from mt_core.spark.iceberg.scan_tasks import SCAN_TASKS, Extent, planned_tasks
from mt_core.spark.incremental.version_cache import VersionCache
from mt_core.spark.queries.lineage import Shape, shape_of

MOST_FILES = 1000
"""Snapshots with more data files than this are not compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedDelete:
    """A position or `equality` delete file, or a deletion vector at `offset` in a file."""

    location: str
    offset: int | None
    rows: int
    equality: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedFile:
    """A data file of a snapshot with its delete files; `place` is the index of its scan task."""

    place: int
    size: int
    rows: int
    deletes: frozenset[ScannedDelete]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedFiles:
    """The data files of a snapshot by location, and Iceberg's scan tasks for them (a JVM list)."""

    tasks: Any
    files: Mapping[str, ScannedFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """The files that only one of two snapshots has, or that have different deletes in each.

    `old` and `new` are JVM lists of the scan tasks for these files, and `extent` is their total extent.
    `rows` is the maximum number of rows that differ. It is None after a rewrite, which also copies
    unchanged rows.
    """

    old: Any
    new: Any
    extent: Extent
    rows: int | None


# A run needs each difference twice: to choose its strategy and to write. Runs of other tables that read the
# same source need it too.
_differences: VersionCache[FileDifference] = VersionCache(16)
# The new version of one change is the old version of the next.
_listings: VersionCache[ScannedFiles] = VersionCache(8)


def files_between(session: SparkSession, table: Any, old: str, new: str) -> FileDifference | str:
    """Return the difference between two unexpired snapshots of *table*, or why it is not computed."""
    shape = shape_of(table)
    cached = _differences.of(session, shape, old, new)
    if cached is not None:
        return cached
    before, after = (_files_of(session, table, shape, snapshot) for snapshot in (old, new))
    if before is None or after is None:
        return f"it has more than {MOST_FILES} files"
    difference = _between(session, before, after)
    _differences.store(difference, session, shape, old, new)
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
    """Return the *files* that are missing in *than* or have different deletes there."""
    return {
        name: each for name, each in files.items() if name not in than or than[name].deletes != each.deletes
    }


def _tasks(session: SparkSession, listing: ScannedFiles, files: Mapping[str, ScannedFile]) -> Any:
    places = json.dumps([each.place for each in files.values()])
    return own_class(session, SCAN_TASKS).chosen(listing.tasks, places)


def _files_of(session: SparkSession, table: Any, shape: Shape, snapshot: str) -> ScannedFiles | None:
    """Return the data files of a snapshot, or None if it has more than `MOST_FILES`."""
    files = _listings.of(session, shape, snapshot)
    if files is None:
        files = _listed(session, table, snapshot)
        if files is not None:
            _listings.store(files, session, shape, snapshot)
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
    """Return the maximum number of rows that differ, or None if it is unknown.

    It is unknown after a rewrite of files, which also copies unchanged rows, and if equality deletes differ.
    """
    rewritten = gone.keys() - come.keys(), come.keys() - gone.keys()
    if all(rewritten):
        return None
    deletes = {each for name in gone.keys() & come.keys() for each in gone[name].deletes ^ come[name].deletes}
    if any(each.equality for each in deletes):
        return None
    files = {**gone, **come}
    return sum(files[name].rows for names in rewritten for name in names) + sum(each.rows for each in deletes)
