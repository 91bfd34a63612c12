"""A materialized table as users see it, with the state of its runs, its workflow and its storage.

Three questions are answered from facts in the ledger, without reading any data. How old is the source data
that the table shows (`data_as_of`, `stale_for`)? Does it meet its freshness (`health`)? If not, what delays
it (`lateness`)? All three are answered for the same instant in one transaction, so that the columns of a row
are consistent. The facts about many tables are read together (`ReadAhead`), because SHOW MATERIALIZED TABLES
may list thousands.

For health and lateness, the age of a table counts only while it is active: after RESUME it counts from the
resume. Runs that were skipped only because the table was suspended or CONTINUOUS say nothing about rows and
are ignored.
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
# The kinds of sources that have no rows of their own.
_DEFINITIONS = frozenset({"view", "function"})
_RECENT = 50


class Health(StrEnum):
    """Whether a table meets its freshness, and whether any of its partitions are in doubt."""

    OK = "OK"
    LATE = "LATE"
    DOUBTED = "DOUBTED"
    LATE_AND_DOUBTED = "LATE, DOUBTED"
    FAILING = "FAILING"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """The state of a table at one instant.

    `done` is its newest run that succeeded, was skipped or is publishing batches; `ended` may also be a
    failed run. The table shows its ultimate sources as they were at `data_as_of`, which was `stale_for` ago;
    both are None if no refresh of the table is known. `next_run` is the next schedule time, or None if there
    is no schedule. `health` is None for an inactive table without failures, and `lateness` is None if the
    table is not late. `workflow` is None if the workflow was not observed.
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

    `last` is its latest run that is no longer queued, and `waiting` the oldest run that is waiting for other
    tables. `sources` are those of the latest run that has read any. If the storage could not be read,
    `storage` is the error. `objection` is the reason why a missing workflow cannot be recreated, and
    `engine_trouble` what is wrong with the engine; each is "" if there is no problem.
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
    """Return the newest run with one of *statuses* that says something about the table's rows.

    Runs that were skipped because of the table's status or mode, and running ones without a publish, are
    ignored.
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
    """Return the health of a table that a streaming job maintains: whether the job fails.

    How far the job lags behind is unknown.
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
    """Return how late an active table is, or None if it is not late.

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
    """Return the instant from which the age of a table counts, excluding the time while it was suspended."""
    read_at = fresh_at or table.created_at
    # If the status time is in the future, it dates from before the clock was set back.
    return read_at if table.status_at > now else max(read_at, table.status_at)


def _written_at(facts: ReadAhead, vector: Vector) -> datetime | None:
    """Return the time of the latest commit to any source of *vector*.

    It is the latest, so that a source that rarely changes does not make a table late. The result is None if
    it is unknown, or if a source is a materialized table, because the sources of that table count instead.
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
    """Return the latest time at which the table is known to have been up to date with its sources.

    This is when *done* read the sources, or a later time that the keeper reports.
    """
    reported = workflow.report.fresh_at if workflow is not None and workflow.report is not None else None
    read = (done.started_at or done.requested_at) if done is not None else None
    if done is not None and done.recent:
        read = done.recent[-1].began_at
    return max(filter(None, (reported, read)), default=None)
