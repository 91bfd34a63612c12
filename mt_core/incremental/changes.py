"""Changes of a source between two of its versions, as its snapshot log tells them without a job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from mt_core.base.plural import plural
from mt_core.model.storage import RUN_ID

ADDED_FILES = "added-data-files"
_INCOMPARABLE = re.compile("map<|variant|geometry|geography")
_MAP = "map<"


def can_be_looked_up(type_: str) -> bool:
    """Return whether rows are found by their values of a type, which is in SQL."""
    return _INCOMPARABLE.search(type_.lower()) is None


def can_be_told_apart(type_: str) -> bool:
    """Return whether two values of a type, which is in SQL, can be told apart:
    those of a map by its entries in their order.
    """
    return can_be_looked_up(type_.lower().removeprefix(_MAP))


class ChangeKind(IntEnum):
    """What happened to the rows of a source; of several commits the greatest counts."""

    NOTHING = 0
    COMPACTION = 1
    APPENDS = 2
    ROWS = 3
    UNKNOWN = 4

    @property
    def changes_rows(self) -> bool:
        return self > ChangeKind.COMPACTION


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One snapshot of a source's log, made at `at` (UTC).

    `operation` and `summary` are those of the Iceberg specification.
    """

    snapshot_id: str
    parent_id: str | None
    operation: str
    summary: Mapping[str, str]
    at: datetime | None = None

    def count(self, key: str) -> int:
        """Return a number of the summary, 0 where the writer recorded none."""
        return int(self.summary.get(key) or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChange:
    """What happened to a source: rows added and deleted, bytes added; None where the log does not tell them.

    `reason` says in words why nothing certain is known, None otherwise. `base_live`: whether the old version
    can be read; `since`: when the oldest of the commits was made that changed rows, None where that is not
    known. `from_nothing`: nobody had committed to the source before, and all its rows are appended ones.
    """

    kind: ChangeKind
    rows: int | None = 0
    size: int | None = 0
    base_live: bool = True
    reason: str | None = None
    since: datetime | None = None
    from_nothing: bool = False

    def __str__(self) -> str:
        """What happened, in words."""
        match self.kind:
            case ChangeKind.NOTHING:
                return "nothing changed"
            case ChangeKind.COMPACTION:
                return "compacted, no row changed"
            case ChangeKind.UNKNOWN:
                return f"not known: {self.reason}"
            case kind:
                rows = "rows" if self.rows is None else f"{self.rows:,} {plural(self.rows, 'row')}"
                size = "" if self.size is None else f", {self.size:,} {plural(self.size, 'byte')}"
                return f"{rows} {'appended' if kind is ChangeKind.APPENDS else 'changed'}{size}"


_ROW_COUNTS = (
    "added-records",
    "deleted-records",
    "added-delete-files",
    "removed-delete-files",
    "deleted-data-files",
)


def change_between(log: Mapping[str, Commit], old: str, new: str) -> SourceChange:
    """Return what happened between two snapshots of a source, given all of them that are live.

    The append reader of Iceberg leaves out what `overwrite` and `delete` commits did, also rows that
    they only added, so one of them makes all of it ROWS. A version that is no ancestor of the new one (a
    rollback, the publish of a branch that does not descend from it) can still be compared with it by their
    files, if both are live.
    """
    if old == new:
        return SourceChange(kind=ChangeKind.NOTHING)
    if new not in log:
        return _unknown(new)
    commits, parent = _commits_since(log, old, new)
    kind = max((_kind_of(commit) for commit in commits), default=ChangeKind.NOTHING)
    if old not in log:
        # What was appended since can be read if only the old version itself has expired:
        # its id is compared, not read.
        if parent != old or kind > ChangeKind.APPENDS:
            return _unknown(old)
    elif parent != old:
        return SourceChange(kind=ChangeKind.ROWS, rows=None, size=None)
    changing = [commit for commit in commits if _kind_of(commit).changes_rows]
    return SourceChange(
        kind=kind,
        rows=sum(commit.count("added-records") + commit.count("deleted-records") for commit in changing),
        size=sum(commit.count("added-files-size") for commit in changing),
        base_live=old in log,
        since=min((commit.at for commit in changing if commit.at is not None), default=None),
    )


def change_from_nothing(log: Mapping[str, Commit], new: str) -> SourceChange:
    """Return what happened to a source that had no snapshot before *new*: all its rows came."""
    if new not in log:
        return _unknown(new)
    rows = log[new].count("total-records")
    return SourceChange(
        kind=ChangeKind.APPENDS if rows else ChangeKind.COMPACTION,
        rows=rows,
        size=log[new].count("total-files-size"),
        since=log[new].at,
        from_nothing=True,
    )


def _commits_since(log: Mapping[str, Commit], old: str, new: str) -> tuple[list[Commit], str | None]:
    """Return the commits from *new* down to before *old*, and the parent of the last one:
    *old*, or where the log ends.
    """
    commits: list[Commit] = []
    current: str | None = new
    while current is not None and current != old and current in log:
        commits.append(log[current])
        current = log[current].parent_id
    return commits, current


def _kind_of(commit: Commit) -> ChangeKind:
    match commit.operation:
        case "append" if appends_nothing(commit.summary):
            return ChangeKind.COMPACTION
        case "append":
            return ChangeKind.APPENDS
        case "replace":
            return ChangeKind.COMPACTION
        case _:
            touched = any(commit.count(key) for key in _ROW_COUNTS)
            return ChangeKind.ROWS if touched else ChangeKind.COMPACTION


def appends_nothing(summary: Mapping[str, str]) -> bool:
    """Return whether an append with *summary* is of a refresh that had no rows to add.

    Other writers may record no files.
    """
    return RUN_ID in summary and ADDED_FILES not in summary


def _unknown(snapshot_id: str) -> SourceChange:
    return SourceChange(
        kind=ChangeKind.UNKNOWN,
        rows=None,
        size=None,
        base_live=False,
        reason=f"snapshot {snapshot_id} has expired",
    )
