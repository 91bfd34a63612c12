"""The page of jobs: what runs, what waits and for what, the streams, and what has ended or failed lately.

Refreshes are read from the ledger, statements and streaming jobs from the list of jobs, and CONTINUOUS tables
from the overview. Nothing here takes part in a transaction. Each part shows up to `MOST` rows and says how
many there are.

The browser asks every second. What it has is right as long as the digest of the same facts is, in which the
lists that cost most stand for the registry's number of the last change.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import APIRouter, Request, Response

from mt_core.base.secrets import without_passwords
from mt_core.errors import MtError
from mt_core.gateway.facts.json_form import session_id
from mt_core.gateway.facts.query import AFTER, cursor, not_a_cursor
from mt_core.gateway.page.actions.forms import DONE, Done
from mt_core.gateway.page.page import Page
from mt_core.gateway.services import GatewayServices
from mt_core.model.job import OPEN, TERMINAL, Job, JobStatus
from mt_core.model.progress import Progress
from mt_core.model.run import RefreshRun, RunKind, RunStatus
from mt_core.model.table import RefreshMode, RefreshStatus
from mt_core.sessions.operations.jobs import place_of
from mt_core.streaming.table_keeper import KIND as CONTINUOUS_JOB
from mt_core.tables.overview.facts import TableFacts
from mt_core.tables.overview.lateness import State
from mt_core.tables.overview.standing import kind_of
from mt_core.tables.registry import JobPlace, Transaction

# Rows of a part, of the list of ended jobs, and of that of failed refreshes.
MOST, ENDED, FAILED = 100, 50, 20
RECENT = timedelta(hours=24)
# Jobs and failed refreshes that are looked at for those that ended lately, because they are sorted by their
# start.
LOOKED_AT = 300
_MOST_OPEN, _MOST_QUEUED = 500, 2000
_KIND = "ended jobs"
_WORDS = {
    "PERIODIC": "scheduled refresh",
    "MANUAL": "manual refresh",
    "REBUILD": "rebuild",
    "INITIAL": "first refresh",
    "CONTINUOUS": "continuous refresh",
    "VERIFY": "comparison",
    "COMPACTION": "compaction",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLink:
    """A table by its name, with its id and its zone if it is a materialized table that exists."""

    name: str
    table_id: str | None = None
    zone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWork:
    """A refresh or a statement that runs.

    `run_id` is None for a statement. `progress` is None if unknown. `session` is the id of the session, not
    its handle.
    """

    job_id: str
    kind: str
    name: str
    table: TableLink | None
    run_id: str | None
    since: datetime
    user: str
    session: str | None = None
    attempt: int = 1
    progress: Progress | None = None
    is_ending: bool = False

    @property
    def cancel(self) -> str:
        """The address of the form that cancels it, below the page."""
        return f"/jobs/{self.job_id}/cancel" if self.run_id is None else f"/runs/{self.run_id}/cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRefresh:
    """A refresh that waits: for the refreshes of `tables` until `until`, or else for `what`.

    `position` is its place among the refreshes that wait for a worker, None if it waits for something else.
    """

    run_id: str
    table: TableLink
    kind: str
    position: int | None
    since: datetime
    user: str
    attempt: int
    tables: tuple[TableLink, ...]
    until: datetime | None
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A streaming job, or a CONTINUOUS table.

    `lag` is the number of seconds from a commit of a source to its publication by the last batch. `batches`
    is the number of the last batch of a job, or of batches since the last restart of a table's refresh.
    `restarts` is None for a CONTINUOUS table. What is unknown is None.
    """

    job_id: str | None
    name: str
    table: TableLink | None
    state: State | JobStatus
    since: datetime
    shows: datetime | None = None
    lag: float | None = None
    batches: int | None = None
    batch_at: datetime | None = None
    batch_s: float | None = None
    batch_rows: int | None = None
    restarts: int | None = None
    failures: int = 0
    start_at: datetime | None = None
    trouble: str = ""

    @property
    def is_job(self) -> bool:
        return self.job_id is not None

    @property
    def is_suspended(self) -> bool:
        return self.state is JobStatus.SUSPENDED

    @property
    def is_in_trouble(self) -> bool:
        return bool(self.trouble) or self.failures > 0

    @property
    def cancel(self) -> str:
        """The address of the form that stops it, below the page."""
        if self.table is not None and self.table.table_id is not None:
            return f"/tables/{self.table.table_id}/suspend"
        return f"/jobs/{self.job_id}/cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRefresh:
    """The last refresh of a table that has failed, and how many have failed lately with this error.

    `error` is its first line.
    """

    run_id: str
    table: TableLink
    kind: str
    at: datetime
    seconds: float | None
    error: str
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJob:
    """A job that has ended, with the first line of its error."""

    job_id: str
    name: str
    kind: str
    target: str | None
    status: JobStatus
    user: str
    session: str | None
    at: datetime
    seconds: float
    rows_read: int | None
    rows_written: int | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What runs, waits and streams now, with how many there are of those of which `MOST` are listed.

    `busy` is the number of refreshes that run.
    """

    running: tuple[RunningWork, ...]
    running_total: int
    busy: int
    waiting: tuple[WaitingRefresh, ...]
    waiting_total: int
    streams: tuple[Stream, ...]
    streams_total: int
    failed: tuple[FailedRefresh, ...]


def jobs_router(page: Page) -> APIRouter:
    """Return the endpoint of the page of jobs."""
    router = page.router()

    @router.get("/jobs")
    def get_jobs(request: Request) -> Response:
        query = page.query(request, (AFTER, DONE))
        before, done = _place(query.position(_KIND, str, str)), query.choice(DONE.name, Done)
        now = page.now()
        reading = JobsReading(page.services, now)

        def facts() -> Mapping[str, Any]:
            ended, following = reading.ended(before)
            return {
                "work": None if before else reading.work(),
                "ended": ended,
                "older": None if following is None else f"{page.base}/jobs?{AFTER.name}={following}",
                "workers": page.services.facts.workers,
                "most_failed": FAILED,
                "done": "" if done is None else done.words,
            }

        return page.answer(request, "jobs.html", facts, version=reading.version())

    return router


class JobsReading:
    """Reads what the page shows, for one request at the instant *now*."""

    def __init__(self, services: GatewayServices, now: datetime) -> None:
        self._services, self._now = services, now
        with services.facts.reading() as tx, tx.past_unreadable():
            self._changes = tx.changes.newest()
            kinds = frozenset(RunKind)
            self._runs = tx.runs.newest(statuses=(RunStatus.RUNNING,), kinds=kinds, limit=_MOST_OPEN)
            open_jobs = services.jobs.page(tx, before=None, limit=_MOST_OPEN, statuses=OPEN)
            self._newest = services.jobs.page(tx, before=None, limit=1, statuses=TERMINAL)
        refreshes = {run.job_id for run in self._runs}
        facts = [each for each in services.facts.overview.facts(now) if isinstance(each, TableFacts)]
        self._facts: Mapping[str, TableFacts] = {each.table_id: each for each in facts}
        self._jobs = [
            job
            for job in open_jobs
            if job.job_id not in refreshes and (job.definition is not None or job.kind != CONTINUOUS_JOB)
        ]
        self._progress = self._progresses()

    def version(self) -> str:
        """Return text that changes whenever the page would show something else, apart from ages."""
        overview = self._services.facts.overview
        jobs = [(job.job_id, job.status, job.restarts, job.stream, job.error) for job in self._jobs]
        ended = [(job.job_id, job.status) for job in self._newest]
        shown = (
            overview.version(self._now),
            self._changes,
            jobs,
            ended,
            sorted(self._progress.items(), key=lambda each: each[0]),
            self._services.engine_trouble(),
        )
        return hashlib.sha256(repr(shown).encode()).hexdigest()[:32]

    def work(self) -> Work:
        """Return everything that has not ended, and what has failed lately."""
        with self._services.facts.reading() as tx, tx.past_unreadable():
            backlog = tx.runs.backlog()
            queued = tx.runs.newest(
                statuses=(RunStatus.QUEUED,), kinds=frozenset(RunKind), limit=_MOST_QUEUED
            )
            failed = tx.runs.newest(statuses=(RunStatus.FAILED,), kinds=frozenset(RunKind), limit=LOOKED_AT)
            links = self._links(tx, [*self._runs, *queued, *failed])
        refreshes = [run for run in self._runs if run.kind is not RunKind.CONTINUOUS]
        streams = [job for job in self._jobs if job.definition is not None]
        statements = [job for job in self._jobs if job.definition is None]
        running = [
            *(self._running_refresh(run, links) for run in refreshes),
            *(self._running_statement(job) for job in statements),
        ]
        every_stream = sorted(
            (*map(self._stream, streams), *self._continuous_tables(streams)),
            key=lambda each: (not each.is_in_trouble, each.name),
        )
        waiting = [*self._waiting(queued, links)]
        return Work(
            running=tuple(sorted(running, key=lambda each: each.since)[:MOST]),
            running_total=len(running),
            busy=len(refreshes),
            waiting=tuple(waiting[:MOST]),
            waiting_total=max(sum(backlog.queued.values()), len(waiting)),
            streams=tuple(every_stream[:MOST]),
            streams_total=len(every_stream),
            failed=tuple(self._failures(failed, links)),
        )

    def ended(self, before: JobPlace | None) -> tuple[tuple[EndedJob, ...], str | None]:
        """Return the jobs that ended lately after the place *before*, and the cursor of the next page."""
        ended, place = list[EndedJob](), before
        with self._services.facts.reading() as tx, tx.past_unreadable():
            for job in self._ended_since(tx, place):
                place = place_of(job)
                if job.finished_at is not None and self._now - job.finished_at < RECENT:
                    ended.append(_ended(job))
                if len(ended) == ENDED:
                    break
            else:
                place = None
            following = place is not None and self._services.jobs.page(
                tx, before=place, limit=1, statuses=TERMINAL
            )
        if not following or place is None:
            return tuple(ended), None
        started_at, job_id = place
        return tuple(ended), cursor(_KIND, started_at.isoformat(), job_id)

    # -------------------------------------------------------------------------------------------------- parts

    def _ended_since(self, tx: Transaction, before: JobPlace | None) -> Iterator[Job]:
        yield from self._services.jobs.page(tx, before=before, limit=LOOKED_AT, statuses=TERMINAL)

    def _progresses(self) -> Mapping[str, Progress]:
        """Return the progress of running refreshes and statements by job id, as far as Spark knows it."""
        if self._services.engine_trouble():
            # It would not answer.
            return {}
        found: dict[str, Progress] = {}
        for run in self._runs[:MOST]:
            if run.kind is not RunKind.CONTINUOUS and run.job_id is not None:
                with suppress(MtError):
                    if (progress := self._services.runs.progress(run.run_id)) is not None:
                        found[run.job_id] = progress
        wanted = {job.job_id for job in self._jobs[:MOST] if job.definition is None}
        for operation in self._services.sessions.operations() if wanted else ():
            if operation.planned_job_id in wanted:
                with suppress(MtError):
                    if (measured := operation.progress()) is not None:
                        found[operation.planned_job_id] = measured.tasks
        return found

    def _links(self, tx: Transaction, runs: Collection[RefreshRun]) -> Mapping[str, TableLink]:
        links = dict[str, TableLink]()
        for table_id in {run.table_id for run in runs}:
            facts = self._facts.get(table_id)
            # The overview may not have been built yet.
            table = facts or tx.tables.get(table_id)
            zone = None if facts is None else facts.zone
            links[table_id] = (
                TableLink(name="a dropped table")
                if table is None
                else TableLink(name=str(table.identifier), table_id=table_id, zone=zone)
            )
        return links

    def _running_refresh(self, run: RefreshRun, links: Mapping[str, TableLink]) -> RunningWork:
        link = links[run.table_id]
        return RunningWork(
            job_id=run.job_id or "",
            kind=_kind(run),
            name=link.name,
            table=link,
            run_id=run.run_id,
            since=run.started_at or run.requested_at,
            user=run.requested_by or "",
            attempt=run.attempt,
            progress=self._progress.get(run.job_id or ""),
            is_ending=run.cancel_requested,
        )

    def _running_statement(self, job: Job) -> RunningWork:
        return RunningWork(
            job_id=job.job_id,
            kind=job.kind.lower(),
            name=job.name,
            table=None,
            run_id=None,
            since=job.started_at,
            user=job.user,
            session=session_id(job.session) if job.session else None,
            progress=self._progress.get(job.job_id),
        )

    def _waiting(
        self, queued: Sequence[RefreshRun], links: Mapping[str, TableLink]
    ) -> Iterator[WaitingRefresh]:
        """Yield the queued refreshes as workers take them, then those that cannot begin yet."""
        what = "Spark" if self._services.engine_trouble() else "a worker"
        busy = {run.table_id for run in self._runs}
        later: list[tuple[RefreshRun, str]] = []
        position = 0
        in_order = [run for solo in (False, True) for run in reversed(queued) if run.solo is solo]
        for run in in_order:
            if self._is_held(run):
                later.append((run, ""))
            elif run.table_id in busy:
                later.append((run, "the refresh of this table that is running"))
            else:
                position += 1
                yield self._waiting_refresh(run, links, position=position, what=what)
        for run, reason in later:
            yield self._waiting_refresh(run, links, position=None, what=reason)

    def _failures(
        self, runs: Sequence[RefreshRun], links: Mapping[str, TableLink]
    ) -> Iterator[FailedRefresh]:
        """Yield what failed lately, up to `FAILED` entries: one for each table and error."""
        recent = [run for run in runs if run.finished_at is not None and self._now - run.finished_at < RECENT]
        times = Counter((run.table_id, _first_line(run.error)) for run in recent)
        newest: dict[tuple[str, str], RefreshRun] = {}
        for run in recent:
            newest.setdefault((run.table_id, _first_line(run.error)), run)
        for key, run in [*newest.items()][:FAILED]:
            yield _failed(run, links[run.table_id], times[key])

    def _is_held(self, run: RefreshRun) -> bool:
        return run.waits_until is not None and run.waits_until > self._now

    def _waiting_refresh(
        self, run: RefreshRun, links: Mapping[str, TableLink], *, position: int | None, what: str
    ) -> WaitingRefresh:
        held = self._is_held(run)
        return WaitingRefresh(
            run_id=run.run_id,
            table=links[run.table_id],
            kind=_kind(run),
            position=position,
            since=run.requested_at,
            user=run.requested_by or "",
            attempt=run.attempt,
            tables=tuple(
                TableLink(name=text, table_id=table_id if table_id in self._facts else None)
                for table_id, text in sorted(run.waits_for.items(), key=lambda each: each[1])
            )
            if held
            else (),
            until=run.waits_until if held else None,
            what=what or ("" if run.waits_for else "its next attempt"),
        )

    def _stream(self, job: Job) -> Stream:
        definition, state = job.definition, job.stream
        kept = None if definition is None or definition.keeps is None else self._facts.get(definition.keeps)
        return Stream(
            job_id=job.job_id,
            name=job.name if kept is None else str(kept.identifier),
            table=TableLink(name=str(kept.identifier), table_id=kept.table_id) if kept is not None else None,
            state=job.status,
            since=job.started_at,
            shows=None if kept is None else kept.shows,
            batches=None if state is None else state.batch,
            restarts=job.restarts,
            failures=0 if state is None else state.failures,
            start_at=None if state is None else state.start_at,
            trouble=_first_line(job.error),
        )

    def _continuous_tables(self, streams: Sequence[Job]) -> Iterator[Stream]:
        kept = {job.definition.keeps for job in streams if job.definition is not None}
        runs = {run.table_id: run for run in self._runs if run.kind is RunKind.CONTINUOUS}
        for facts in self._facts.values():
            if (
                facts.mode is RefreshMode.CONTINUOUS
                and facts.status is RefreshStatus.ACTIVATED
                and facts.table_id not in kept
            ):
                yield _continuous_table(facts, runs.get(facts.table_id))


def _continuous_table(facts: TableFacts, run: RefreshRun | None) -> Stream:
    batch = run.recent[-1] if run is not None and run.recent else None
    return Stream(
        job_id=None,
        name=str(facts.identifier),
        table=TableLink(name=str(facts.identifier), table_id=facts.table_id, zone=facts.zone),
        state=facts.state,
        since=facts.status_at,
        shows=facts.shows,
        lag=None if batch is None else batch.lag,
        batches=None if run is None else run.batches,
        batch_at=None if batch is None else batch.began_at,
        batch_s=None if batch is None else batch.seconds,
        batch_rows=None if batch is None else batch.rows,
        # Silent sources are no trouble of the table.
        trouble="" if facts.state is State.OK else facts.because,
    )


def _failed(run: RefreshRun, link: TableLink, times: int) -> FailedRefresh:
    assert run.finished_at is not None, "a refresh that failed has ended"
    began = run.started_at
    return FailedRefresh(
        run_id=run.run_id,
        table=link,
        kind=_kind(run),
        at=run.finished_at,
        seconds=None if began is None else (run.finished_at - began).total_seconds(),
        error=_first_line(run.error),
        times=times,
    )


def _ended(job: Job) -> EndedJob:
    assert job.finished_at is not None, "a job that has ended says when"
    return EndedJob(
        job_id=job.job_id,
        name=job.name,
        kind=job.kind.lower(),
        target=job.target,
        status=job.status,
        user=job.user,
        session=session_id(job.session) if job.session else None,
        at=job.finished_at,
        seconds=(job.finished_at - job.started_at).total_seconds(),
        rows_read=job.rows_read,
        rows_written=job.rows_written,
        error=_first_line(job.error),
    )


def _kind(run: RefreshRun) -> str:
    kind = kind_of(run)
    return _WORDS.get(kind, kind.lower().replace("_", " "))


def _first_line(error: str | None) -> str:
    return without_passwords((error or "").strip().partition("\n")[0])


def _place(position: list[Any] | None) -> JobPlace | None:
    if position is None:
        return None
    started_at, job_id = position
    try:
        return datetime.fromisoformat(started_at).astimezone(UTC), job_id
    except (ValueError, OverflowError) as cause:
        raise not_a_cursor() from cause
