"""TableView: a materialized table as users see it, with what its runs, its workflow
and its storage say of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice

from mt_core.errors import MtError
from mt_core.model.run import DONE, RefreshRun, RunStatus
from mt_core.model.storage import COMMITTED, StorageMetadata
from mt_core.model.table import MaterializedTable, RefreshStatus, stream_job
from mt_core.tables.keeper import KeeperState
from mt_core.tables.registry import in_transaction
from mt_core.tables.runs.decide import CONTINUOUS, SUSPENDED
from mt_core.tables.runs.upstream import is_scheduled
from mt_core.tables.services import TableServices
from mt_core.tables.views.inclusion import PUBLISHED, Included, Inclusions, Vector
from mt_core.tables.views.lateness import Lateness, Seen, lateness_of, oldest_allowed
from mt_core.tables.views.read_ahead import PAGE, ReadAhead
from mt_core.tables.views.run_view import RunView, SourceView
from mt_core.tables.workflows.observer import ObservedWorkflow

ENDED = DONE | {RunStatus.FAILED}
# The kinds of sources that nobody writes rows to.
_DEFINITIONS = frozenset({"view", "function"})
_RECENT = 50


class Health(StrEnum):
    """Whether a table is refreshed as often as it should be, and all its partitions are known to have
    the rows of the query.
    """

    OK = "OK"
    LATE = "LATE"
    DOUBTED = "DOUBTED"
    LATE_AND_DOUBTED = "LATE, DOUBTED"
    FAILING = "FAILING"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """A table at an instant.

    `done` is its newest run that succeeded, was skipped, or publishes batch after batch, `ended` the newest
    of these or that failed; `included` is until when it shows the sources of its sources, None before the
    first of them, and `stale_for` how long ago that was; `health` is None for a table that is not kept fresh,
    `lateness` for one that is not behind, `next_run`, the next schedule time, for one that no schedule
    refreshes, `workflow` for one that was not observed.
    """

    table: MaterializedTable
    done: RefreshRun | None
    ended: RefreshRun | None
    included: Included | None
    stale_for: timedelta | None
    health: Health | None
    lateness: Lateness | None
    next_run: datetime | None
    workflow: ObservedWorkflow | None

    @classmethod
    def read(
        cls, inclusions: Inclusions, table: MaterializedTable, workflow: ObservedWorkflow | None
    ) -> TableView:
        """Return the view of *table* with its runs as the ledger has them,
        and what those of its sources say.
        """
        facts = inclusions.facts
        done, ended, now = (
            _last_run(facts, table, PUBLISHED),
            _last_run(facts, table, ENDED | PUBLISHED),
            facts.now,
        )
        fresh_at = _fresh_at(done, workflow)
        vector = done.vector or () if done is not None else ()
        included = None if fresh_at is None else inclusions.of(table, vector, fresh_at)
        return cls(
            table=table,
            done=done,
            ended=ended,
            included=included,
            stale_for=max(timedelta(0), now - included.until) if included else None,
            health=_stream_health(facts, table)
            if table.definition.streams
            else _health(table, fresh_at, ended, now),
            lateness=_lateness(inclusions, table, vector, included, fresh_at),
            next_run=table.definition.grid().after(now) if is_scheduled(table) else None,
            workflow=workflow,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDetails:
    """More of a table: its latest run that has left the queue, the oldest that waits for those of other
    tables, the sources of the latest run that read any (None: none did), its view, its storage or the error
    with which it could not be read, why its missing workflow cannot be recreated, and what is wrong with the
    engine; the texts are empty when nothing is.
    """

    table: MaterializedTable
    workflow: ObservedWorkflow | None
    last: RunView | None
    waiting: RunView | None
    sources: tuple[SourceView, ...] | None
    view: TableView
    storage: StorageMetadata | MtError
    objection: str
    engine_trouble: str

    @classmethod
    def read(
        cls, services: TableServices, table: MaterializedTable, workflow: ObservedWorkflow | None
    ) -> TableDetails:
        """Return the details of *table* from the ledger, the storage and the keeper."""
        runs, view = in_transaction(
            services.registry,
            lambda tx: (
                tx.runs.newest(table_id=table.table_id, limit=_RECENT),
                TableView.read(
                    Inclusions(facts=ReadAhead.of(tx, [table]), fresh_at=dict(services.fresh_at)),
                    table,
                    workflow,
                ),
            ),
        )
        views = [RunView.of(run, table) for run in runs]
        report = workflow.report if workflow is not None else None
        missing = report is not None and report.state is KeeperState.MISSING
        try:
            storage: StorageMetadata | MtError = services.engine.metadata.load(table.identifier)
        except MtError as error:
            storage = error
        return cls(
            table=table,
            workflow=workflow,
            last=next((view for view in views if view.run.status is not RunStatus.QUEUED), None),
            waiting=next((view for view in reversed(views) if view.is_waiting), None),
            sources=next((view.sources for view in views if view.sources), None),
            view=view,
            storage=storage,
            objection=services.keeper.objection(table) if missing else "",
            engine_trouble=services.engine.state.trouble(),
        )


def _last_run(
    facts: ReadAhead, table: MaterializedTable, statuses: frozenset[RunStatus]
) -> RefreshRun | None:
    """Return the newest run in one of *statuses*, leaving out those that only answered a tick,
    of which there may be many.
    """
    for run in facts.runs(table.table_id, statuses):
        if run.decision not in (SUSPENDED, CONTINUOUS) and (
            run.status is not RunStatus.RUNNING or run.recent
        ):
            return run
    return None


def _health(
    table: MaterializedTable, fresh_at: datetime | None, ended: RefreshRun | None, now: datetime
) -> Health | None:
    if table.failing or (ended is not None and ended.status is RunStatus.FAILED):
        return Health.FAILING
    if table.status is not RefreshStatus.ACTIVATED:
        return None
    is_late = _read_at(table, fresh_at, now) < oldest_allowed(table, now)
    if table.doubted is not None:
        return Health.LATE_AND_DOUBTED if is_late else Health.DOUBTED
    return Health.LATE if is_late else Health.OK


def _stream_health(facts: ReadAhead, table: MaterializedTable) -> Health | None:
    """Return the health of a table that a streaming job keeps: how far the stream lags is not known,
    but whether it fails is.
    """
    job = facts.job(stream_job(table.table_id))
    if job is not None and job.error is not None:
        return Health.FAILING
    return Health.OK if table.status is RefreshStatus.ACTIVATED else None


def _lateness(
    inclusions: Inclusions,
    table: MaterializedTable,
    vector: Vector,
    included: Included | None,
    fresh_at: datetime | None,
) -> Lateness | None:
    """Return how late an active table is.

    The materialized table below that read the sources may itself be behind them.
    """
    if table.status is not RefreshStatus.ACTIVATED or table.definition.streams:
        return None
    facts = inclusions.facts
    read_at = _read_at(table, fresh_at, facts.now)
    shows, below = (included.until, included.by) if included is not None else (read_at, None)
    upstream = None if below is None else facts.named(below)
    if upstream is not None:
        shows = upstream.definition.fresh_until(shows)
    seen = Seen(
        read_at=read_at,
        shows=read_at if upstream is None else shows,
        written_at=_written_at(facts, vector),
        looked=table.table_id in inclusions.fresh_at,
    )
    return lateness_of(table, islice(facts.runs(table.table_id), PAGE), seen, now=facts.now)


def _read_at(table: MaterializedTable, fresh_at: datetime | None, now: datetime) -> datetime:
    """Return the instant from which on the age of what a table shows counts:
    while it was suspended, it did not.
    """
    read_at = fresh_at or table.created_at
    # A status that was set later than now was set before the clock was put back.
    return read_at if table.status_at > now else max(read_at, table.status_at)


def _written_at(facts: ReadAhead, vector: Vector) -> datetime | None:
    """Return when any of the sources of *vector* was committed to last, so that one that seldom changes
    makes no table late.

    None where that is not known, or where a materialized table is among them:
    that one tells of its own sources.
    """
    tables = [source for source in vector if source["kind"] not in _DEFINITIONS]
    commits = {(source["version"] or {}).get(COMMITTED, "") for source in tables}
    if (
        not commits
        or "" in commits
        or any(facts.materialized(source["name"]) is not None for source in tables)
    ):
        return None
    return datetime.fromisoformat(max(commits))


def _fresh_at(done: RefreshRun | None, workflow: ObservedWorkflow | None) -> datetime | None:
    """Return the latest instant of which the table is known to show its sources:
    when *done* read them, or as its keeper knows.
    """
    kept = workflow.report.fresh_at if workflow is not None and workflow.report is not None else None
    read = (done.started_at or done.requested_at) if done is not None else None
    if done is not None and done.recent:
        read = done.recent[-1].began_at
    return max(filter(None, (kept, read)), default=None)
