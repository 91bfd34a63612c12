"""The facts about tables at one instant, as SHOW MATERIALIZED TABLES, JSON and the status command show them.

Everything that depends on the time has been computed for that instant. What a fact was computed from, and
when it changes, is in `standing.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mt_core.model.partition import Scope
from mt_core.model.run import ReasonCode, RunStatus
from mt_core.model.table import RefreshMode, RefreshStatus, SuspendedBy, TableIdentifier
from mt_core.tables.overview.lateness import Fault, State

Words = tuple[str | datetime | TableIdentifier, ...]
"""A sentence in parts, so that instants can be written in any time zone, and names as links."""


def searched_text(text: str) -> str:
    """Return *text* as it is compared in a search: quoting and case are irrelevant."""
    return text.replace("`", "").casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The newest ended refresh that says something about the rows of its table.

    `kind` is its origin, as in SHOW REFRESHES. A continuous run counts once it has published, before it ends.
    """

    run_id: str
    status: RunStatus
    kind: str
    requested_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    strategy: str | None
    rows: int | None
    reason: str | None
    reason_code: ReasonCode | None
    error: str | None
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A source of a table. `kind` is table, view, function, unversioned or stream."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """The facts about a table at one instant; instants are UTC.

    The table shows its ultimate sources as they were at `shows`, None if no refresh is known. It is late from
    `late_at` on, unless it is refreshed before. `late_at` is None only while the table is being created, is
    suspended, or is maintained by a streaming job. If it is `inherited`, the table itself is refreshed in
    time, but a table below it is late.

    A table whose sources had no commit is not late. From `silent_at` on, this is reported as fault WRITER.
    `fault` is the cause of either, and `below` the lowest table below that causes it. `because` is one
    sentence with times in the table's zone, "" if nothing is wrong; `words` are its parts, without since when
    the table is late. The facts hold for a while, so they contain no ages; methods return these.

    `refreshed_at` is the end of the last SUCCEEDED or SKIPPED refresh, and `only` the partitions to which it
    was restricted. `doubt` says which rows are in doubt, and why. `shows_by` is the table below that read
    its sources at `shows`, None if the table itself did. `cadence` is the freshness or cron expression as it
    was declared, and `freshness` the same in words. `searched` has the names in which a search looks.
    """

    table_id: str
    identifier: TableIdentifier
    mode: RefreshMode
    status: RefreshStatus
    freshness: str
    freshness_s: float
    cadence: str
    zone: str
    state: State
    shows: datetime | None
    shows_by: TableIdentifier | None
    late_at: datetime | None
    silent_at: datetime | None
    inherited: bool
    fault: Fault | None
    below: TableIdentifier | None
    because: str
    doubt: str | None
    last: LastRun | None
    refreshed_at: datetime | None
    only: Scope
    next_run: datetime | None
    running: bool
    queued: int
    reads: tuple[Read, ...]
    status_by: str
    status_reason: str | None
    suspended_by: SuspendedBy | None
    status_at: datetime
    created_at: datetime
    words: Words = ()
    searched: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = [".".join(self.identifier.parts), *(read.name for read in self.reads)]
        # Joined once, because a search looks at all tables at each key that a user presses.
        object.__setattr__(self, "searched", searched_text("\n".join(names)))

    def late_by(self, now: datetime) -> timedelta | None:
        """Return the time since the table was late, None if it is not late."""
        return now - self.late_at if self.state is State.LATE and self.late_at is not None else None

    def silent_by(self, now: datetime) -> timedelta | None:
        """Return the time since the sources have had no commit for too long.

        Return None if they had one, or if the table is late anyway.
        """
        if self.state is State.LATE or self.silent_at is None or now < self.silent_at:
            return None
        return now - self.silent_at

    def overdue_by(self, now: datetime) -> timedelta | None:
        """Return how long the table has been late, or else its sources silent; None if neither holds."""
        late_by = self.late_by(now)
        return self.silent_by(now) if late_by is None else late_by
