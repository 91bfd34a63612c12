"""The standing of a table: what the registry says about it and its runs, reduced to instants.

The overview has one standing for each of thousands of tables, so a standing contains what is shown of a table
and no more: not the columns and the query of its definition, and of its runs only what the newest ones say
about its rows. Nothing in a standing depends on the time at which it was read. What does is computed from it
when it is shown (`judgement.py`), so a table becomes late without being read again.

Runs that were skipped only because the table was suspended or CONTINUOUS say nothing about rows and are
ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from mt_core.model.cadence import Cadence
from mt_core.model.partition import WHOLE, Scope
from mt_core.model.run import DONE, OPEN, SCHEDULED, RefreshRun, RunStatus
from mt_core.model.storage import COMMITTED
from mt_core.model.table import MaterializedTable, RefreshStatus, SuspendedBy, TableIdentifier
from mt_core.tables.overview.facts import LastRun, Read
from mt_core.tables.overview.lateness import Promise, Running, Work
from mt_core.tables.runs.decide import CONTINUOUS, SUSPENDED
from mt_core.tables.runs.upstream import table_in

# A continuous run publishes while it is RUNNING.
HAS_PUBLISHED = DONE | {RunStatus.RUNNING}
ENDED = HAS_PUBLISHED | {RunStatus.FAILED}
# The kinds of sources that have no rows of their own.
_DEFINITIONS = frozenset({"view", "function"})
# How many of a table's publications are remembered, for the tables that read an earlier one.
REMEMBERED = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadVersion:
    """A table that was read, at a snapshot, None if it had none or that is unknown."""

    table: TableIdentifier
    snapshot: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Showing:
    """What a table showed from `since` on, after a refresh that read `reads` at `read_at`.

    `first_commit` is the time of the oldest source commit that it was the first to show, None if unknown.
    """

    run_id: str
    snapshot: str | None
    read_at: datetime
    since: datetime
    first_commit: datetime | None
    reads: tuple[ReadVersion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshes:
    """What the newest refreshes of a table say.

    The last one that succeeded, was skipped or is publishing batches read the sources at `read_at`, None if
    none is known. `reads` are the tables among them, and `written_at` is the last commit to any of them,
    None if that is unknown. `sources` are those of the last refresh that read any, None if none did.
    `showings` are the publications, newest first; older ones have not been read if it `has_older`. How old
    the table's data is depends on the standings of `names_read`. `longest` is the longest time from the
    request to the end of a refresh.
    """

    read_at: datetime | None = None
    reads: tuple[ReadVersion, ...] = ()
    written_at: datetime | None = None
    refreshed_at: datetime | None = None
    only: Scope = WHOLE
    sources: tuple[Read, ...] | None = None
    showings: tuple[Showing, ...] = ()
    has_older: bool = False
    names_read: frozenset[TableIdentifier] = frozenset()
    last: LastRun | None = None
    work: Work = field(default_factory=Work)
    queued: int = 0
    longest: timedelta = timedelta(0)

    @classmethod
    def of(cls, runs: Sequence[RefreshRun], *, has_older: bool) -> Refreshes:
        """Return what *runs* say, which are the newest ones, newest first."""
        done, ended = _newest(runs, HAS_PUBLISHED), _newest(runs, ENDED)
        vector = (done.vector if done is not None else None) or ()
        sources = next((run.vector for run in runs if run.vector), None)
        reads = _reads(vector)
        showings = tuple(showing for run in runs for showing in _showings(run))[:REMEMBERED]
        return cls(
            read_at=None if done is None else _read_at(done),
            reads=reads,
            written_at=_written_at(vector),
            refreshed_at=None if done is None else done.published_at,
            only=WHOLE if done is None else done.scope,
            sources=None if sources is None else tuple(_read(source) for source in sources),
            showings=showings,
            has_older=has_older,
            names_read=_names_read(reads, showings),
            last=None if ended is None else _last(ended),
            work=_work(runs),
            queued=sum(run.status is RunStatus.QUEUED for run in runs),
            longest=max(map(_duration, runs), default=timedelta(0)),
        )

    def with_remembered(self, before: Refreshes) -> Refreshes:
        """Return these with the publications that *before* remembers of runs older than those just read.

        If a run was missed in between, they are forgotten.
        """
        read = {showing.run_id for showing in self.showings}
        if not self.has_older or not any(showing.run_id in read for showing in before.showings):
            return self
        older = [showing for showing in before.showings if showing.run_id not in read]
        showings = (*self.showings, *older)[:REMEMBERED]
        return replace(
            self,
            showings=showings,
            has_older=before.has_older,
            names_read=_names_read(self.reads, showings),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is known about a table, without the time.

    `row` is the stored table without columns, query and options, for observing its workflow. `failing` is the
    number of its schedule times that are retried separately. `doubt` says which rows are in doubt and why;
    `doubted` is True if this is about partitions. `streams` is True if a streaming job maintains the table,
    and `job_error` is its error.
    """

    row: MaterializedTable
    table_id: str
    identifier: TableIdentifier
    promise: Promise
    streams: bool
    status: RefreshStatus
    status_by: str
    status_reason: str | None
    suspended_by: SuspendedBy | None
    status_at: datetime
    created_at: datetime
    failing: int
    doubt: str | None
    doubted: bool
    declared_sources: tuple[Read, ...]
    rebuild_due: bool
    refreshes: Refreshes = field(default_factory=Refreshes)
    job_error: str | None = None

    @classmethod
    def of(cls, table: MaterializedTable) -> Standing:
        """Return the standing of *table* before any refresh."""
        definition = table.definition
        return cls(
            row=_without_query(table),
            table_id=table.table_id,
            identifier=table.identifier,
            promise=Promise(mode=definition.refresh_mode, cadence=definition.cadence, zone=definition.zone),
            streams=bool(definition.streams),
            status=table.status,
            status_by=table.status_by,
            status_reason=table.status_reason,
            suspended_by=table.suspended_by,
            status_at=table.status_at,
            created_at=table.created_at,
            failing=len(table.failing),
            doubt=table.doubt or doubted_text(table),
            doubted=table.doubted is not None,
            declared_sources=(
                *(Read(name=name, kind="table") for name in definition.sources),
                *(Read(name=name, kind="stream") for name in definition.streams),
            ),
            rebuild_due=table.rebuild_due is not None,
        )

    @property
    def is_watched(self) -> bool:
        """Whether the source watcher refreshes the table when its sources change."""
        return self.promise.interval is not None and not self.streams

    @property
    def cadence(self) -> Cadence:
        return self.promise.cadence

    @property
    def sources(self) -> tuple[Read, ...]:
        """What the last refresh of the current definition read, or else what the definition names."""
        read = self.refreshes.sources
        return self.declared_sources if read is None or self.rebuild_due else read


def _without_query(table: MaterializedTable) -> MaterializedTable:
    """Return a table without the facts that take up the most memory and concern only its refreshes."""
    definition = replace(
        table.definition,
        columns=(),
        original_query="",
        expanded_query="",
        options={},
        settings={},
        query_types={},
    )
    return replace(table, definition=definition, failing=(), covered=(), doubted=None)


def kind_of(run: RefreshRun) -> str:
    """Return the origin of a run.

    This is the kind of the run. If something other than its schedule triggered the scheduler's own run, it is
    that trigger.
    """
    return run.kind.value if run.trigger in (None, SCHEDULED) else run.trigger.upper()


def says_something(run: RefreshRun) -> bool:
    """Return whether a run says something about the rows of its table."""
    return run.decision not in (SUSPENDED, CONTINUOUS) and (
        run.status is not RunStatus.RUNNING or bool(run.recent)
    )


def doubted_text(table: MaterializedTable) -> str | None:
    """Return which partitions are in doubt, why, and what to do about it, or None if none are."""
    if table.doubted is None:
        return None
    name = f"MATERIALIZED TABLE {table.identifier}"
    return (
        f"it is not known whether the rows of their sources changed in {table.doubted}: "
        f"{table.doubted.reason}; VERIFY {name} compares them, ALTER {name} REFRESH computes them again"
    )


def _names_read(reads: Iterable[ReadVersion], showings: Iterable[Showing]) -> frozenset[TableIdentifier]:
    every = (reads, *(showing.reads for showing in showings))
    return frozenset(read.table for reads in every for read in reads)


def _newest(runs: Iterable[RefreshRun], statuses: frozenset[RunStatus]) -> RefreshRun | None:
    return next((run for run in runs if run.status in statuses and says_something(run)), None)


def _read_at(run: RefreshRun) -> datetime:
    return run.recent[-1].began_at if run.recent else run.started_at or run.requested_at


def _last(run: RefreshRun) -> LastRun:
    return LastRun(
        run_id=run.run_id,
        status=run.status,
        kind=kind_of(run),
        requested_at=run.requested_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        strategy=run.strategy,
        rows=run.rows,
        reason=run.why,
        reason_code=run.reason_code,
        error=run.error,
        attempt=run.attempt,
    )


def _read(source: Mapping[str, Any]) -> Read:
    return Read(name=str(source["name"]), kind=str(source["kind"]))


def _reads(vector: Iterable[Mapping[str, Any]]) -> tuple[ReadVersion, ...]:
    """Return the tables of a source vector, which may be materialized tables."""
    return tuple(
        ReadVersion(table=table, snapshot=_snapshot(source["version"]))
        for source in vector
        if source["kind"] == "table" and (table := _table_in(str(source["name"]))) is not None
    )


def _snapshot(version: Mapping[str, Any] | None) -> str | None:
    snapshot = (version or {}).get("snapshot")
    return None if snapshot is None else str(snapshot)


@lru_cache(maxsize=50_000)
def _table_in(source: str) -> TableIdentifier | None:
    return table_in(source)


def _written_at(vector: Iterable[Mapping[str, Any]]) -> datetime | None:
    """Return the time of the latest commit to any source of *vector*, None if it is unknown.

    It is the latest, so that a source that rarely changes does not count.
    """
    commits = {
        (source["version"] or {}).get(COMMITTED, "")
        for source in vector
        if source["kind"] not in _DEFINITIONS
    }
    return datetime.fromisoformat(max(commits)) if commits and "" not in commits else None


def _showings(run: RefreshRun) -> Iterable[Showing]:
    """Yield what a table showed after *run* and its batches, newest first."""
    if run.status not in HAS_PUBLISHED:
        return
    reads = _reads(run.vector or ())
    for batch in reversed(run.recent):
        since = batch.began_at + timedelta(seconds=batch.seconds)
        first = None if batch.lag is None else since - timedelta(seconds=batch.lag)
        yield Showing(
            run_id=run.run_id,
            snapshot=batch.snapshot_id,
            read_at=batch.began_at,
            since=since,
            first_commit=first,
            reads=reads,
        )
        # The ledger does not store the versions that earlier batches read.
        reads = tuple(ReadVersion(table=read.table, snapshot=None) for read in reads)
    if not run.recent and run.finished_at is not None and says_something(run):
        yield Showing(
            run_id=run.run_id,
            snapshot=run.snapshot_id,
            read_at=run.started_at or run.requested_at,
            since=run.finished_at,
            first_commit=None,
            reads=reads,
        )


def _work(runs: Iterable[RefreshRun]) -> Work:
    runs = list(runs)
    running = next((run for run in runs if run.status is RunStatus.RUNNING), None)
    ended = next((run for run in runs if run.status not in OPEN), None)
    return Work(
        running=None
        if running is None
        else Running(
            requested_at=running.requested_at,
            started_at=running.started_at,
            batch_s=running.recent[-1].seconds if running.recent else None,
        ),
        waiting_since=min((run.requested_at for run in runs if run.status is RunStatus.QUEUED), default=None),
        failed=ended is not None and ended.status is RunStatus.FAILED,
    )


def _duration(run: RefreshRun) -> timedelta:
    """Return the time from the request of a refresh to its end, or that of its longest batch."""
    if run.recent:
        return timedelta(seconds=max(batch.seconds for batch in run.recent))
    if run.status not in DONE or run.finished_at is None:
        return timedelta(0)
    return run.finished_at - run.requested_at
