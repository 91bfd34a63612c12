"""The source watcher: detects changed sources of CONTINUOUS tables and starts the batches that are due.

Polling is cheap only if the sources of many tables are read together, and if the engine is not called in
between. So one thread polls, at multiples of an interval that depends on the freshness; a commit of this
gateway only makes the next poll earlier. A table is due when the fingerprint of its sources differs from that
at the start of its last batch. The batch itself determines what has changed, and publishes nothing if nothing
has. So a lost notification or an unnecessary batch costs time, but never rows.

The watcher stores nothing that cannot be recovered: only the last fingerprint of each table, and its
continuous run. After a restart, each table is due once. While a thread works on a table, its entry is `busy`:
that thread owns the run and its outcome, and the poller only sets `blocked` and `poll_at`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from mt_core.errors import IllegalStatus, TableBusy, TableNotFound
from mt_core.model.run import DONE, RunStatus
from mt_core.model.table import MaterializedTable
from mt_core.tables.commands.lifecycle import suspend_failing
from mt_core.tables.continuous.continuous_run import ContinuousRun, Submit
from mt_core.tables.continuous.pace import SHORTEST_PAUSE, batch_gap, next_poll_at, pause_after, poll_interval
from mt_core.tables.engine import UnreadSources
from mt_core.tables.refresh.step_times import IDLE
from mt_core.tables.refresh.workers import Watch, unwatched
from mt_core.tables.registry import Transaction, in_transaction
from mt_core.tables.runs.ledger import why_no_batch
from mt_core.tables.runs.losses import Losses
from mt_core.tables.services import TableServices, query_of

LONGEST_IDLE = timedelta(minutes=1)
LONGEST_WAIT = timedelta(seconds=5)
log = logging.getLogger(__name__)


@dataclass(eq=False, kw_only=True)
class _WatchedTable:
    """A CONTINUOUS table, with the time of its next poll and the earliest start of its next batch.

    `seen` is the fingerprint of its sources when the last batch began, and `due` the current one if it
    differs. `blocked` is the reason why no batch may begin, or "" if a batch may begin. `failures` is the
    number of consecutive failed batches, and `unread` that of failed polls; `losses` are the consecutive
    losses of Spark. `busy` is set while a thread works on the table.
    """

    table: MaterializedTable
    poll_at: timedelta
    batch_at: timedelta
    seen: str | None = None
    due: str | None = None
    is_due: bool = False
    blocked: str = ""
    failures: int = 0
    losses: Losses = field(default_factory=Losses)
    unread: int = 0
    run: ContinuousRun | None = None
    steps: Iterator[str] = field(default_factory=lambda: iter(()))
    idle_since: timedelta | None = None
    busy: bool = False


class SourceWatcher:
    """The source watcher of a gateway, for all its tables.

    Only one thread at a time may call `poll`. It passes batches to *submit*, and work that no batch waits for
    to *beside*. All times are elapsed time, so that changes of the system clock have no effect. The tables
    are read again after each change of the registry, but not more than once per *read_every*.
    """

    def __init__(
        self,
        services: TableServices,
        *,
        submit: Submit,
        beside: Submit | None = None,
        watch: Watch | None = None,
        read_every: timedelta = timedelta(0),
    ) -> None:
        self._services, self._submit, self._read_every = services, submit, read_every
        self._beside, self._watch = beside or submit, watch or unwatched
        self._watched: dict[str, _WatchedTable] = {}
        self._read: tuple[int, timedelta] | None = None

    def renew_leases(self) -> None:
        """Renew the leases of open continuous runs and cancel batches that exceed their timeout."""
        ledger = self._services.ledger
        for entry in list(self._watched.values()):
            if (continuous_run := entry.run) is not None:
                ledger.renew_lease(continuous_run.claimed)
                if entry.busy and ledger.is_overdue(continuous_run.claimed):
                    self._services.engine.jobs.cancel(continuous_run.claimed.run.job_id or "")

    def is_busy(self) -> bool:
        """Return whether a thread is working on any table."""
        return any(entry.busy for entry in list(self._watched.values()))

    @property
    def watches_any(self) -> bool:
        """Whether any table is watched."""
        return bool(self._watched)

    def notify(self, source: str) -> bool:
        """Record a commit to *source* and return whether a watched table reads it. Thread-safe."""
        if not any(source in entry.table.definition.sources for entry in list(self._watched.values())):
            return False
        self._services.changed_tables.put(source)
        return True

    def poll(self) -> timedelta:
        """Poll the sources that are due, begin the batches that are due, and return when to poll again."""
        services = self._services
        now = services.clock.elapsed()
        if now >= self._reads_at(now):
            self._read_tables(now)
        if self._watched and not services.engine.state.ready():
            return now + LONGEST_WAIT
        self._bring_forward(now)
        free = [entry for entry in self._watched.values() if not entry.busy]
        # The engine is not called if no poll is due.
        if polled := [entry for entry in free if not entry.blocked and entry.poll_at <= now]:
            self._poll_sources(polled, now)
        for entry in free:
            why_end = entry.blocked or (_has_idled(entry, now) and "nothing changed for a minute") or ""
            if why_end and entry.run is not None:
                entry.run.ending = why_end
                self._begin(entry)
            elif entry.blocked or not entry.is_due:
                services.at_work.stop_waiting(entry.table.table_id)
            elif entry.batch_at <= now:
                self._begin_batch(entry, now)
        waiting = [entry for entry in self._watched.values() if not entry.busy and not entry.blocked]
        return min([self._reads_at(now), *map(_wakes_at, waiting)])

    def end(self, why: str) -> None:
        """End the idle continuous runs one after the other, in this thread."""
        for entry in list(self._watched.values()):
            if entry.run is not None and not entry.busy:
                entry.run.ending = why
                self._work(entry)

    # --------------------------------------------------------------------------------------------------- poll

    def _reads_at(self, now: timedelta) -> timedelta:
        """Return when to read the tables again.

        This is soon if the registry has changed, because a table may have been created, altered or dropped,
        or a refresh may have been requested.
        """
        if self._read is None:
            return now
        generation, at = self._read
        return at + (LONGEST_WAIT if generation == self._services.signal.generation else self._read_every)

    def _read_tables(self, now: timedelta) -> None:
        self._read = (self._services.signal.generation, now)
        claimed = [table_id for table_id, entry in self._watched.items() if entry.run is not None]
        tables, waiting = in_transaction(
            self._services.registry, partial(_tables_and_waiting, claimed=claimed)
        )
        current = {table.table_id: table for table in tables}
        for table_id, table in current.items():
            entry = self._watched.get(table_id)
            if entry is None or (
                entry.table.definition != table.definition and entry.run is None and not entry.busy
            ):
                entry = self._watched[table_id] = _WatchedTable(table=table, poll_at=now, batch_at=now)
            if entry.table.continuous_job != table.continuous_job and not entry.busy:
                # The table was suspended and resumed, so its job has a new id.
                entry.losses = Losses()
            entry.blocked = _why_blocked(entry, table, waiting)
        for table_id in self._watched.keys() - current.keys():
            self._watched[table_id].blocked = "the table is not refreshed continuously any more"
            if self._watched[table_id].run is None and not self._watched[table_id].busy:
                del self._watched[table_id]
                self._services.at_work.stop_waiting(table_id)
                self._services.fresh_at.pop(table_id, None)

    def _bring_forward(self, now: timedelta) -> None:
        """Bring forward the polls of tables that read recent commits, unless they pause after failures."""
        queue = self._services.changed_tables
        published = {queue.get() for _ in range(queue.qsize())}
        for entry in self._watched.values() if published else ():
            if published & set(entry.table.definition.sources):
                entry.poll_at = min(
                    entry.poll_at, now if entry.busy or entry.unread else max(now, entry.batch_at)
                )

    def _poll_sources(self, polled: list[_WatchedTable], now: timedelta) -> None:
        polled_at = self._services.clock.now()
        fingerprints = self._services.engine.sources.source_fingerprints(
            [query_of(entry.table.definition) for entry in polled]
        )
        for entry, sources in zip(polled, fingerprints, strict=True):
            if isinstance(sources, UnreadSources):
                self._note_unread(entry, sources.reason, now)
                continue
            if entry.unread:
                # The source that could not be read can be read again, so the pause ends.
                entry.unread, entry.batch_at = 0, now
            # Sources without versions may have changed at any time, so they count as changed.
            entry.due, entry.is_due = sources, sources is None or sources != entry.seen
            at_rest = entry.run is None and not entry.is_due
            entry.poll_at = next_poll_at(entry.table.definition.interval, now, at_rest=at_rest)
            if not entry.is_due:
                self._services.fresh_at[entry.table.table_id] = polled_at

    def _note_unread(self, entry: _WatchedTable, reason: str, now: timedelta) -> None:
        """Record that the sources of a table could not be read, or did not respond in time.

        Its batch will fail and report the reason. A source may be unreadable only because it is being
        recreated, so the pauses begin with the second failure.
        """
        freshness, entry.poll_at = (
            entry.table.definition.interval,
            next_poll_at(entry.table.definition.interval, now),
        )
        if not reason:
            return
        if not entry.unread:
            facts = {"action": "source_unread", "table": str(entry.table.identifier)}
            log.warning("a source of %s cannot be read: %s", entry.table.identifier, reason, extra=facts)
        else:
            entry.poll_at = max(entry.poll_at, now + pause_after(freshness, entry.unread))
        entry.unread += 1
        entry.due, entry.is_due = reason, True

    # --------------------------------------------------------------------------------------------------- work

    def _begin_batch(self, entry: _WatchedTable, now: timedelta) -> None:
        """Begin a batch that is due, or try again soon if other refreshes must end first."""
        table_id = entry.table.table_id
        alone = entry.losses.must_be_alone
        if self._services.at_work.begin(table_id, alone=alone, waits_as=table_id, elapsed=now):
            self._begin(entry)
        else:
            entry.batch_at = now + poll_interval(entry.table.definition.interval)

    def _begin(self, entry: _WatchedTable) -> None:
        entry.busy = True
        self._submit(partial(self._work, entry))

    def _work(self, entry: _WatchedTable) -> None:
        """Carry out one batch, or end the continuous run."""
        # The default, so that an unexpected error is not retried without a pause.
        entry.batch_at = self._services.clock.elapsed() + SHORTEST_PAUSE
        try:
            self._drive(entry)
        finally:
            entry.busy = False
            self._services.at_work.end(entry.table.table_id)
            self._services.signal.set()

    def _drive(self, entry: _WatchedTable) -> None:
        clock = self._services.clock
        began, began_at = clock.elapsed(), clock.now()
        # A loss of Spark before the claim does not count as a loss of this batch.
        continuous_run = entry.run or (self._new_run(entry) if self._services.engine.state.ready() else None)
        if continuous_run is None:
            entry.batch_at = began + poll_interval(entry.table.definition.interval)
            return
        entry.run, entry.idle_since, continuous_run.way = continuous_run, None, None
        goes_on = False
        try:
            for step in entry.steps:
                self._watch(continuous_run.claimed, step)
                if step == IDLE:
                    goes_on = True
                    break
        finally:
            if not goes_on:
                entry.run, entry.steps = None, iter(())
        self._note_end(entry, continuous_run, began, began_at)

    def _new_run(self, entry: _WatchedTable) -> ContinuousRun | None:
        """Claim the table and return a new continuous run, or None while other work on the table is open."""
        services = self._services
        claimed = services.ledger.claim_continuous(entry.table.table_id)
        if claimed is None:
            return None
        continuous_run = ContinuousRun(
            claimed,
            services,
            beside=self._beside,
            losses=entry.losses,
            on_step=partial(services.events.step_done, claimed.run),
        )
        entry.steps = continuous_run.steps()
        return continuous_run

    def _note_end(
        self, entry: _WatchedTable, continuous_run: ContinuousRun, began: timedelta, began_at: datetime
    ) -> None:
        """Determine after a batch when the next one may begin."""
        entry.losses = continuous_run.losses
        services, freshness, table = self._services, entry.table.definition.interval, entry.table
        run = services.ledger.shown(continuous_run.claimed.run.run_id) if entry.run is None else None
        if run is not None and run.status is RunStatus.FAILED:
            entry.failures += 1
            entry.batch_at = services.clock.elapsed() + pause_after(freshness, entry.failures)
            # A command in progress takes precedence; the next failure tries to suspend the table again.
            with suppress(TableBusy, TableNotFound, IllegalStatus):
                suspend_failing(services, table.table_id)
        elif run is not None and run.status not in DONE:
            # The process, engine or claim was lost; the next run continues the work.
            entry.batch_at = services.clock.elapsed() + poll_interval(freshness)
        else:
            entry.seen, entry.is_due, entry.failures = entry.due, False, 0
            entry.idle_since, entry.batch_at = (
                services.clock.elapsed(),
                began + batch_gap(freshness, continuous_run.way),
            )
            services.fresh_at[table.table_id] = began_at
        if continuous_run.way is not None:
            services.changed_tables.put(str(table.identifier))


def _wakes_at(entry: _WatchedTable) -> timedelta:
    """Return when the watcher must handle a table next: at its next poll, or when its batch may begin."""
    if not entry.is_due:
        return entry.poll_at
    return min(entry.batch_at, entry.poll_at) if entry.unread else entry.batch_at


def _tables_and_waiting(
    tx: Transaction, claimed: Iterable[str]
) -> tuple[Iterable[MaterializedTable], Mapping[str, str]]:
    """Return all CONTINUOUS tables and, by table id, why *claimed* tables have queued refreshes."""
    queued = [run for table_id in claimed for run in tx.runs.queued(table_id)]
    return tx.tables.continuous(), {run.table_id: f"a {run.kind} refresh is due" for run in queued}


def _why_blocked(entry: _WatchedTable, table: MaterializedTable, waiting: Mapping[str, str]) -> str:
    changed = "the definition changed" if table.definition != entry.table.definition else ""
    return why_no_batch(table) or changed or waiting.get(table.table_id, "") or _why_another_job(entry, table)


def _why_another_job(entry: _WatchedTable, table: MaterializedTable) -> str:
    resumed = entry.run is not None and entry.run.claimed.run.continuous_job != table.continuous_job
    return "the table was suspended and resumed" if resumed else ""


def _has_idled(entry: _WatchedTable, now: timedelta) -> bool:
    return entry.idle_since is not None and now - entry.idle_since >= LONGEST_IDLE and not entry.is_due
