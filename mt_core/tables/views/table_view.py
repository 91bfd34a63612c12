"""TableView: a materialized table as users see it, with the state of its runs, its workflow and its storage.

Three questions are answered from facts that the ledger already has, without reading any data. As of when does
the table show its sources (`data_as_of`, `stale_for`)? Does it meet its freshness (`health`)? If not, what
delays it (`lateness`)? They are answered at one instant within one transaction, so that the columns of a row
agree with each other. The facts of many tables are read together (`ReadAhead`), since SHOW MATERIALIZED
TABLES may list thousands.

For health and lateness, the age of a table counts only while it is active: after RESUME it begins at the
resume. Runs that merely answered a tick (SUSPENDED, CONTINUOUS) say nothing about rows and are passed over.
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
from mt_core.tables.views.data_as_of import HAS_PUBLISHED, DataAsOf, DataAsOfReader, Vector
from mt_core.tables.views.lateness import Lateness, SourceTimes, lateness_of, oldest_allowed
from mt_core.tables.views.read_ahead import PAGE, ReadAhead
from mt_core.tables.views.run_view import RunView, SourceView
from mt_core.tables.workflows.observer import ObservedWorkflow

ENDED = DONE | {RunStatus.FAILED}
# The kinds of sources without rows of their own.
_DEFINITIONS = frozenset({"view", "function"})
_RECENT = 50


class Health(StrEnum):
    """Whether a table meets its freshness, and whether any of its partitions is in doubt."""

    OK = "OK"
    LATE = "LATE"
    DOUBTED = "DOUBTED"
    LATE_AND_DOUBTED = "LATE, DOUBTED"
    FAILING = "FAILING"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """A table at an instant.

    `done` is its newest run that succeeded, was skipped or is publishing batches; `ended` is the newest of
    these or of the failed ones. `data_as_of` is as of when it shows its ultimate sources, and `stale_for` the
    time since then; both are None before the first such run. `next_run` is the next schedule time, None
    without a schedule.

    `health` is None for an inactive table without failures, `lateness` for one that is not late, and
    `workflow` for one that was not observed.
    """

    table: MaterializedTable
    done: RefreshRun | None
    ended: RefreshRun | None
    data_as_of: DataAsOf | None
    stale_for: timedelta | None
    health: Health | None
    lateness: Lateness | None
    next_run: datetime | None
    workflow: ObservedWorkflow | None

    @classmethod
    def read(
        cls, reader: DataAsOfReader, table: MaterializedTable, workflow: ObservedWorkflow | None
    ) -> TableView:
        """Return the view of *table*, from the ledger's facts about its runs and its upstream tables."""
        facts = reader.facts
        done, ended, now = (
            _last_run(facts, table, HAS_PUBLISHED),
            _last_run(facts, table, ENDED | HAS_PUBLISHED),
            facts.now,
        )
        fresh_at = _fresh_at(done, workflow)
        vector = done.vector or () if done is not None else ()
        data_as_of = None if fresh_at is None else reader.of(table, vector, fresh_at)
        return cls(
            table=table,
            done=done,
            ended=ended,
            data_as_of=data_as_of,
            stale_for=max(timedelta(0), now - data_as_of.until) if data_as_of else None,
            health=_stream_health(facts, table)
            if table.definition.streams
            else _health(table, fresh_at, ended, now),
            lateness=_lateness(reader, table, vector, data_as_of, fresh_at),
            next_run=table.definition.grid().after(now) if is_scheduled(table) else None,
            workflow=workflow,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDetails:
    """Further facts about a table, for DESCRIBE EXTENDED.

    `last` is its latest run that has left the queue, `waiting` the oldest that waits for other tables, and
    `sources` those of the latest run that read any. `storage` is the error if it could not be read.
    `objection` says why a missing workflow cannot be recreated, and `engine_trouble` what is wrong with the
    engine; both are "" if nothing is.
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
        """Return the details of *table*, from the ledger, the storage and the keeper."""
        runs, view = in_transaction(
            services.registry,
            lambda tx: (
                tx.runs.newest(table_id=table.table_id, limit=_RECENT),
                TableView.read(
                    DataAsOfReader(facts=ReadAhead.of(tx, [table]), fresh_at=dict(services.fresh_at)),
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
    """Return the newest run in one of *statuses*, except runs that only answered a tick."""
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
    """Return the health of a table that a streaming job maintains: whether the job fails.

    How far it lags is unknown.
    """
    job = facts.job(stream_job(table.table_id))
    if job is not None and job.error is not None:
        return Health.FAILING
    return Health.OK if table.status is RefreshStatus.ACTIVATED else None


def _lateness(
    reader: DataAsOfReader,
    table: MaterializedTable,
    vector: Vector,
    data_as_of: DataAsOf | None,
    fresh_at: datetime | None,
) -> Lateness | None:
    """Return how late an active table is.

    The upstream table that read the sources may itself be behind them.
    """
    if table.status is not RefreshStatus.ACTIVATED or table.definition.streams:
        return None
    facts = reader.facts
    read_at = _read_at(table, fresh_at, facts.now)
    shows, below = (data_as_of.until, data_as_of.by) if data_as_of is not None else (read_at, None)
    upstream = None if below is None else facts.named(below)
    if upstream is not None:
        shows = upstream.definition.fresh_until(shows)
    seen = SourceTimes(
        read_at=read_at,
        shows=read_at if upstream is None else shows,
        written_at=_written_at(facts, vector),
        looked=table.table_id in reader.fresh_at,
    )
    return lateness_of(table, islice(facts.runs(table.table_id), PAGE), seen, now=facts.now)


def _read_at(table: MaterializedTable, fresh_at: datetime | None, now: datetime) -> datetime:
    """Return the instant from which the age of a table counts; the time while it was suspended does not."""
    read_at = fresh_at or table.created_at
    # A status time in the future dates from before the clock was set back.
    return read_at if table.status_at > now else max(read_at, table.status_at)


def _written_at(facts: ReadAhead, vector: Vector) -> datetime | None:
    """Return the time of the latest commit to any source of *vector*: a source that rarely changes makes no
    table late.

    None if it is unknown, or if a materialized table is among the sources, whose own sources count then.
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
    """Return the latest instant as of which the table is known to show its sources: when *done* read them, or
    as its keeper reports.
    """
    reported = workflow.report.fresh_at if workflow is not None and workflow.report is not None else None
    read = (done.started_at or done.requested_at) if done is not None else None
    if done is not None and done.recent:
        read = done.recent[-1].began_at
    return max(filter(None, (reported, read)), default=None)
