"""Changes of a source between two versions, derived from its snapshot log without running a Spark job."""

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
    """Return whether rows can be looked up by values of the SQL type *type_*."""
    return _INCOMPARABLE.search(type_.lower()) is None


def can_be_compared(type_: str) -> bool:
    """Return whether two values of the SQL type *type_* can be compared. Maps are compared entry by entry."""
    return can_be_looked_up(type_.lower().removeprefix(_MAP))


class ChangeKind(IntEnum):
    """The kind of a change of a source. Several commits together have the highest kind among them."""

    NOTHING = 0
    COMPACTION = 1
    UNREAD = 2
    """Rows changed, but no value that the query reads."""
    APPENDS = 3
    ROWS = 4
    UNKNOWN = 5

    @property
    def changes_rows(self) -> bool:
        """Whether the change matters to the query."""
        return self > ChangeKind.UNREAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One snapshot in a source's log, committed `at` (UTC).

    The Iceberg specification defines `operation` and `summary`.
    """

    snapshot_id: str
    parent_id: str | None
    operation: str
    summary: Mapping[str, str]
    at: datetime | None = None

    def count(self, key: str) -> int:
        """Return a number from the summary, or 0 if the writer did not record it."""
        return int(self.summary.get(key) or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChange:
    """A change of a source: the number of `rows` added and deleted, and its `size` in bytes.

    Both are None if the log does not record them. `reason` says why the change is UNKNOWN. `base_live` is
    True if the old version can still be read. `since` is the time of the oldest commit that changed rows,
    None if unknown. `from_nothing` is True if the source had no snapshot before, so all its rows are
    appended.
    """

    kind: ChangeKind
    rows: int | None = 0
    size: int | None = 0
    base_live: bool = True
    reason: str | None = None
    since: datetime | None = None
    from_nothing: bool = False

    def __str__(self) -> str:
        """Describe the change for users."""
        match self.kind:
            case ChangeKind.NOTHING:
                return "nothing changed"
            case ChangeKind.COMPACTION:
                return "compacted, no row changed"
            case ChangeKind.UNREAD:
                return "no row changed that the query reads"
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
    """Return the change between two snapshots of a source, derived from its *log* of live snapshots.

    Iceberg's incremental append scan skips `overwrite` and `delete` commits, including the rows that they
    add. One such commit therefore makes the kind of the whole change ROWS. *old* may not be an ancestor of
    *new*, after a rollback or the publish of an unrelated branch. The files of the two can then still be
    compared while both are live.
    """
    if old == new:
        return SourceChange(kind=ChangeKind.NOTHING)
    if new not in log:
        return _unknown(new)
    commits, parent = _commits_since(log, old, new)
    kind = max((_kind_of(commit) for commit in commits), default=ChangeKind.NOTHING)
    if old not in log:
        # An append scan only needs the id of the old snapshot, which may itself have expired.
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


def first_change(log: Mapping[str, Commit], new: str) -> SourceChange:
    """Return the change of a source that had no snapshot before *new*: all its rows were appended."""
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
    """Return the commits from *new* back to *old* (exclusive) and the parent id of the oldest of them.

    That parent is *old*, unless the log ends earlier.
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
    """Return whether *summary* belongs to a refresh that appended no rows.

    The rule applies only to refreshes, because other writers may omit the number of files.
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
