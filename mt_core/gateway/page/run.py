"""One refresh: everything that the ledger knows of it, as the page shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256

from fastapi import APIRouter, Request, Response

from mt_core.base.secrets import masked
from mt_core.errors import EngineUnavailable, FactUnreadable, OperationNotFound
from mt_core.gateway.facts.refreshes import view_of
from mt_core.gateway.page.formats import clock_text, count_text, number_text, span_text
from mt_core.gateway.page.page import Page
from mt_core.model.progress import Progress
from mt_core.model.run import DONE, OPEN, QUEUE, STEPS, RefreshRun, RunKind, RunStatus
from mt_core.model.table import TableIdentifier
from mt_core.tables.registry import Transaction
from mt_core.tables.views.run_view import RunView, SourceView, UnreadableRun

# How many newer and older runs are read to find those that belong to this one.
_AROUND = 50
# The bar of a running refresh grows.
_REDRAWN_S = 5
_DURING = {
    "decide": "while it compared its sources",
    "write": "while it wrote",
    "publish": "while it published",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A part of a run's time, with its begin and its length as shares of the whole time from 0 to 1."""

    name: str
    seconds: float
    begin: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChange:
    """A source at the version that the run read, and at the one that the last run before it had read.

    A version is "" if that run did not read the source, or if it is unknown.
    """

    name: str
    kind: str
    before: str
    after: str
    is_versioned: bool

    @property
    def changed(self) -> bool | None:
        """Whether the versions differ; None if that is unknown."""
        return None if not (self.is_versioned and self.before and self.after) else self.before != self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What the page shows of a refresh.

    `before` is the last run before it that refreshed the table and whose sources are known. `retried_by` are
    the ids of later runs that retry it, and `covers` those of the requests that it answers. `older` and
    `newer` are the ids of its neighbours in the ledger. `progress` is that of its Spark job, None if unknown.
    """

    view: RunView | UnreadableRun
    run_id: str
    table_id: str
    table: TableIdentifier | None
    zone: str
    now: datetime
    before: RefreshRun | None = None
    retried_by: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()
    older: str | None = None
    newer: str | None = None
    progress: Progress | None = None

    @property
    def run(self) -> RefreshRun | None:
        """The run, None if it cannot be read."""
        return self.view.run if isinstance(self.view, RunView) else None

    @property
    def error(self) -> str | None:
        """The whole text of the error; for a run that cannot be read, why it cannot."""
        return str(self.view.error) if isinstance(self.view, UnreadableRun) else self.view.run.error

    @property
    def is_open(self) -> bool:
        return self.run is not None and self.run.status in OPEN

    @property
    def version(self) -> str:
        """Text that changes whenever the facts do."""
        running = self.run is not None and self.run.status is RunStatus.RUNNING
        tick = int(self.now.timestamp()) // _REDRAWN_S if running else 0
        shown = (self.view, self.retried_by, self.covers, self.newer, self.progress, tick)
        return sha256(repr(shown).encode()).hexdigest()[:16]

    @property
    def options(self) -> dict[str, str]:
        return masked(self.run.options) if self.run is not None else {}

    @property
    def sources(self) -> list[SourceChange]:
        """The sources of this run and of the one before, in their order."""
        if not isinstance(self.view, RunView):
            return []
        before = () if self.before is None else RunView.of(self.before, None).sources
        return source_changes(before, self.view.sources)

    @property
    def rows(self) -> str | None:
        """The number of rows that the run wrote, and how many of them it inserted, updated and deleted."""
        run = self.run
        if run is None or run.rows is None:
            return None
        parts = {
            "inserted": run.rows_inserted,
            "updated": run.rows_updated,
            "deleted": run.rows_deleted,
        }
        known = [f"{number_text(number)} {what}" for what, number in parts.items() if number is not None]
        return number_text(run.rows) + (f" ({', '.join(known)})" if known else "")

    def clock(self, at: datetime) -> str:
        """Return an instant to the second in the zone of the table, with the day unless it is today."""
        return clock_text(at, self.zone, self.now)

    @property
    def duration(self) -> timedelta | None:
        """The time from the request of the run to its end or, while it is open, to now."""
        if self.run is None:
            return None
        return max((self.run.finished_at or self.now) - self.run.requested_at, timedelta(0))

    @property
    def delay(self) -> timedelta | None:
        """The time from the schedule time to the request, None if the run was not scheduled."""
        if self.run is None or self.run.schedule_time is None or self.run.kind is not RunKind.PERIODIC:
            return None
        return max(self.run.requested_at - self.run.schedule_time, timedelta(0))

    @property
    def steps(self) -> list[Step]:
        """The steps of the run in their order, then what none of them accounts for."""
        return [] if self.run is None else steps_of(self.run, self.now)

    @property
    def headline(self) -> str:
        """The outcome of the run, or what it does now, in one sentence."""
        if not isinstance(self.view, RunView):
            return "The ledger's entry cannot be read: another release wrote it, or it is damaged."
        return headline(self.view, self.now)


def run_router(page: Page) -> APIRouter:
    """Return the endpoint of one refresh."""
    router = page.router()

    @router.get("/runs/{run_id}")
    def get_run(run_id: str, request: Request) -> Response:
        page.query(request)
        refresh = read_run(page, run_id)
        return page.answer(request, "run.html", lambda: {"refresh": refresh}, version=refresh.version)

    return router


def read_run(page: Page, run_id: str) -> RunFacts:
    """Return what is known of a refresh. Raises OperationNotFound."""
    with page.services.facts.reading() as tx:
        facts = _read(tx, run_id)
    if facts.run is None or facts.run.status is not RunStatus.RUNNING:
        return facts
    return _with_progress(page, facts)


# ------------------------------------------------------------------------------------------------ the ledger


def _read(tx: Transaction, run_id: str) -> RunFacts:
    try:
        run = tx.runs.get(run_id)
    except FactUnreadable as error:
        return _unreadable(tx, error)
    if run is None:
        raise OperationNotFound(
            f"Refresh {run_id} is not in the ledger. It keeps the refreshes of the last weeks; "
            "those of a dropped table are removed too."
        )
    with tx.past_unreadable():
        table = tx.tables.get(run.table_id)
        view = RunView.of(run, table)
        newer = _newer(tx, run)
        older = tx.runs.newest(table_id=run.table_id, kinds=tuple(RunKind), before=run_id, limit=1)
        covers = tx.runs.covered_by(run_id)
        return RunFacts(
            view=view,
            run_id=run_id,
            table_id=run.table_id,
            table=view.table,
            zone=view.zone,
            now=tx.now(),
            before=_before(tx, run),
            retried_by=tuple(each.run_id for each in newer if each.retry_of == run_id),
            covers=tuple(each.run_id for each in covers),
            older=next((each.run_id for each in older), None),
            newer=newer[-1].run_id if newer else None,
        )


def _unreadable(tx: Transaction, error: FactUnreadable) -> RunFacts:
    with tx.past_unreadable():
        table = tx.tables.get(str(error.columns["table_id"]))
    view = view_of(error, table)
    assert isinstance(view, UnreadableRun)
    zone = "UTC" if table is None else table.definition.zone
    return RunFacts(
        view=view, run_id=view.run_id, table_id=view.table_id, table=view.table, zone=zone, now=tx.now()
    )


def _before(tx: Transaction, run: RefreshRun) -> RefreshRun | None:
    """Return the last run before *run* that refreshed its table and whose sources the ledger has."""
    runs = tx.runs.newest(table_id=run.table_id, statuses=DONE, before=run.run_id, limit=_AROUND)
    return next((each for each in runs if each.vector is not None), None)


def _newer(tx: Transaction, run: RefreshRun) -> Sequence[RefreshRun]:
    """Return the runs after *run*, newest first; none if it is not among the last ones."""
    runs = tx.runs.newest(table_id=run.table_id, kinds=tuple(RunKind), limit=_AROUND)
    place = next((number for number, each in enumerate(runs) if each.run_id == run.run_id), 0)
    return runs[:place]


def _with_progress(page: Page, facts: RunFacts) -> RunFacts:
    try:
        return replace(facts, progress=page.services.runs.progress(facts.run_id))
    except EngineUnavailable:
        return facts


# ----------------------------------------------------------------------------------------------- pure parts


def source_changes(before: Sequence[SourceView], after: Sequence[SourceView]) -> list[SourceChange]:
    """Return the sources of a run, then those that only the run before had read."""
    earlier, later = {each.name: each for each in before}, {each.name: each for each in after}
    return [
        SourceChange(
            name=name,
            kind=(later.get(name) or earlier[name]).kind,
            before=_version(earlier.get(name)),
            after=_version(later.get(name)),
            is_versioned=(later.get(name) or earlier[name]).versioned,
        )
        for name in dict.fromkeys((*later, *earlier))
    ]


def _version(source: SourceView | None) -> str:
    return "" if source is None or source.version is None else str(source.version)


def steps_of(run: RefreshRun, now: datetime) -> list[Step]:
    """Return the steps of a run, and `other` for the rest of its time.

    For a run with batches, these are the steps of its last one.
    """
    known = {step: run.steps[step] for step in STEPS if step in run.steps}
    if run.recent:
        total = sum(known.values())
    else:
        if QUEUE not in known:
            waited = ((run.started_at or run.finished_at or now) - run.requested_at).total_seconds()
            known = {QUEUE: max(waited, 0.0), **known}
        end = run.finished_at or now
        total = max((end - run.requested_at).total_seconds(), sum(known.values()))
    rest = total - sum(known.values())
    if rest > max(total * 0.005, 0.001):
        known["other"] = rest
    steps, begin = list[Step](), 0.0
    for name, seconds in known.items():
        share = seconds / total if total else 0.0
        steps.append(Step(name=name, seconds=seconds, begin=begin, share=share))
        begin += share
    return steps


def headline(view: RunView, now: datetime) -> str:
    """Return the outcome of a run, or what it does now, in one sentence; the whole error is elsewhere."""
    run = view.run
    took = span_text(max((run.finished_at or now) - (run.started_at or run.requested_at), timedelta(0)))
    match run.status:
        case RunStatus.SUCCEEDED:
            return _success(run, took)
        case RunStatus.SKIPPED:
            return f"Skipped: {run.why}." if run.why else "Skipped."
        case RunStatus.FAILED:
            during = next(
                (_DURING[step] for step in reversed(STEPS) if step in run.steps and step in _DURING), ""
            )
            return f"Failed after {took} {during}." if during else f"Failed after {took}."
        case RunStatus.CANCELED:
            return f"Cancelled: {run.why}." if run.why else "Cancelled."
        case RunStatus.COALESCED:
            return "Another refresh covers this request, and its result is the result of this one."
        case RunStatus.RUNNING:
            since = clock_text(run.started_at or run.requested_at, view.zone, now)
            batches = f", with {count_text(run.batches, 'batch', 'batches')} so far" if run.batches else ""
            ending = " It has been asked to stop." if run.cancel_requested else ""
            return f"Running since {since}{batches}.{ending}"
        case RunStatus.QUEUED if view.is_waiting:
            return f"Waiting for the refresh of {', '.join(sorted(run.waits_for.values()))}."
        case RunStatus.QUEUED:
            return f"Waiting for a worker since {clock_text(run.requested_at, view.zone, now)}."


def _success(run: RefreshRun, took: str) -> str:
    if run.kind is RunKind.VERIFY:
        return f"Verified in {took}: {run.why}."
    if run.kind is RunKind.COMPACTION:
        return f"Compacted in {took}."
    how = f" by {run.strategy}" if run.strategy else ""
    if run.batches:
        return f"Published {count_text(run.batches, 'batch', 'batches')} in {took}."
    if run.rows is None:
        return f"Succeeded in {took}{how}."
    return f"Wrote {count_text(run.rows, 'row')}{how} in {took}."
