"""The look-out: it sees which CONTINUOUS tables have changed sources, and has a batch carried out
where one is due.

It keeps nothing that is not found again: what it has seen of the sources of a table, and the stretch
that goes on. After a restart each table is due once, and its first batch finds out whether anything changed.
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
from mt_core.tables.continuous.pace import SHORTEST_PAUSE, apart, look_every, next_look, pause_after
from mt_core.tables.continuous.stretch import IDLE, Stretch, Submit
from mt_core.tables.engine import UnreadSources
from mt_core.tables.refresh.workers import Watch, unwatched
from mt_core.tables.registry import Transaction, in_transaction
from mt_core.tables.runs.ledger import why_no_batch
from mt_core.tables.runs.losses import Losses
from mt_core.tables.services import TableServices, query_of

LONGEST_IDLE = timedelta(minutes=1)
LONGEST_WAIT = timedelta(seconds=5)
log = logging.getLogger(__name__)


@dataclass(eq=False, kw_only=True)
class _Kept:
    """A table that is kept fresh: when its sources are looked at next, and when its next batch may
    begin at the earliest.

    `seen` is what its sources were when its last batch began, `due` what they are now if that differs; `held`
    is why no batch may begin, "" if one may. So many `failures` there were in a row, of batches, `losses` of
    Spark by them, and `unread` of looks. `busy` while a thread works on it: all else is then that thread's.
    """

    table: MaterializedTable
    look_at: timedelta
    batch_at: timedelta
    seen: str | None = None
    due: str | None = None
    is_due: bool = False
    held: str = ""
    failures: int = 0
    losses: Losses = field(default_factory=Losses)
    unread: int = 0
    stretch: Stretch | None = None
    steps: Iterator[str] = field(default_factory=lambda: iter(()))
    idle_since: timedelta | None = None
    busy: bool = False


class LookOut:
    """One for all tables of a gateway. `look` is called by one thread at a time, and hands batches
    to *submit*, and what no batch waits for to *beside*. It goes by the time elapsed, which no
    jump of the clock changes.

    The tables are read again after each change of the registry, but only once within *read_every*.
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
        self._kept: dict[str, _Kept] = {}
        self._read: tuple[int, timedelta] | None = None

    def look_after(self) -> None:
        """Renew the leases of the stretches that go on, and cancel batches that take longer than they may."""
        ledger = self._services.ledger
        for kept in list(self._kept.values()):
            if (stretch := kept.stretch) is not None:
                ledger.renew_lease(stretch.claimed)
                if kept.busy and ledger.is_overdue(stretch.claimed):
                    self._services.engine.jobs.cancel(stretch.claimed.run.job_id or "")

    def is_busy(self) -> bool:
        """Whether a thread works on a table."""
        return any(kept.busy for kept in list(self._kept.values()))

    @property
    def keeps_any(self) -> bool:
        """Whether there is a table to look out for."""
        return bool(self._kept)

    def hears(self, source: str) -> bool:
        """Note that rows were committed to *source*; return whether a table reads it, and a look is due.

        Any thread.
        """
        if not any(source in kept.table.definition.sources for kept in list(self._kept.values())):
            return False
        self._services.published.put(source)
        return True

    def look(self) -> timedelta:
        """Look at the sources that are to be looked at, begin the batches that are due,
        and return when to look again.
        """
        services = self._services
        now = services.clock.elapsed()
        if now >= self._reads_at(now):
            self._read_tables(now)
        if self._kept and not services.engine.state.ready():
            return now + LONGEST_WAIT
        self._hurry(now)
        free = [kept for kept in self._kept.values() if not kept.busy]
        # Other passes call nothing of the engine.
        if looking := [kept for kept in free if not kept.held and kept.look_at <= now]:
            self._look_at(looking, now)
        for kept in free:
            why_end = kept.held or (_has_idled(kept, now) and "nothing changed for a minute") or ""
            if why_end and kept.stretch is not None:
                kept.stretch.ending = why_end
                self._begin(kept)
            elif kept.held or not kept.is_due:
                services.at_work.gives_up(kept.table.table_id)
            elif kept.batch_at <= now:
                self._begin_batch(kept, now)
        waiting = [kept for kept in self._kept.values() if not kept.busy and not kept.held]
        return min([self._reads_at(now), *map(_wakes_at, waiting)])

    def end(self, why: str) -> None:
        """End the stretches that are idle, each after the other, in this thread."""
        for kept in list(self._kept.values()):
            if kept.stretch is not None and not kept.busy:
                kept.stretch.ending = why
                self._work(kept)

    # --------------------------------------------------------------------------------------------------- look

    def _reads_at(self, now: timedelta) -> timedelta:
        """Return when the tables are to be read: soon if one may have been created, changed or dropped,
        or a refresh requested.
        """
        if self._read is None:
            return now
        generation, at = self._read
        return at + (LONGEST_WAIT if generation == self._services.signal.generation else self._read_every)

    def _read_tables(self, now: timedelta) -> None:
        self._read = (self._services.signal.generation, now)
        held = [table_id for table_id, kept in self._kept.items() if kept.stretch is not None]
        tables, waiting = in_transaction(self._services.registry, partial(_tables_and_waiting, held=held))
        found = {table.table_id: table for table in tables}
        for table_id, table in found.items():
            kept = self._kept.get(table_id)
            if kept is None or (
                kept.table.definition != table.definition and kept.stretch is None and not kept.busy
            ):
                kept = self._kept[table_id] = _Kept(table=table, look_at=now, batch_at=now)
            if kept.table.continuous_job != table.continuous_job and not kept.busy:
                # It was suspended and resumed.
                kept.losses = Losses()
            kept.held = _why_held(kept, table, waiting)
        for table_id in self._kept.keys() - found.keys():
            self._kept[table_id].held = "the table is not refreshed continuously any more"
            if self._kept[table_id].stretch is None and not self._kept[table_id].busy:
                del self._kept[table_id]
                self._services.at_work.gives_up(table_id)
                self._services.fresh_at.pop(table_id, None)

    def _hurry(self, now: timedelta) -> None:
        """Look at the tables that read what was committed since, at once if their next batch may begin
        or only pauses.
        """
        queue = self._services.published
        published = {queue.get() for _ in range(queue.qsize())}
        for kept in self._kept.values() if published else ():
            if published & set(kept.table.definition.sources):
                kept.look_at = min(kept.look_at, now if kept.busy or kept.unread else max(now, kept.batch_at))

    def _look_at(self, looking: list[_Kept], now: timedelta) -> None:
        looked_at = self._services.clock.now()
        seen = self._services.engine.sources.look([query_of(kept.table.definition) for kept in looking])
        for kept, sources in zip(looking, seen, strict=True):
            if isinstance(sources, UnreadSources):
                self._note_unread(kept, sources.reason, now)
                continue
            if kept.unread:
                # The pauses were because of a source that can be read again.
                kept.unread, kept.batch_at = 0, now
            # Sources without versions may have changed at any time.
            kept.due, kept.is_due = sources, sources is None or sources != kept.seen
            at_rest = kept.stretch is None and not kept.is_due
            kept.look_at = next_look(kept.table.definition.interval, now, at_rest=at_rest)
            if not kept.is_due:
                self._services.fresh_at[kept.table.table_id] = looked_at

    def _note_unread(self, kept: _Kept, reason: str, now: timedelta) -> None:
        """Note that the sources of a table could not be read, or do not answer yet;
        its batch fails, and tells why.

        The first time may have met a table while it was recreated, so the pauses begin with the second.
        """
        freshness, kept.look_at = (
            kept.table.definition.interval,
            next_look(kept.table.definition.interval, now),
        )
        if not reason:
            return
        if not kept.unread:
            facts = {"action": "source_unread", "table": str(kept.table.identifier)}
            log.warning("a source of %s cannot be read: %s", kept.table.identifier, reason, extra=facts)
        else:
            kept.look_at = max(kept.look_at, now + pause_after(freshness, kept.unread))
        kept.unread += 1
        kept.due, kept.is_due = reason, True

    # --------------------------------------------------------------------------------------------------- work

    def _begin_batch(self, kept: _Kept, now: timedelta) -> None:
        """Begin a batch that is due, or look again soon if it has to wait for other refreshes."""
        table_id = kept.table.table_id
        alone = kept.losses.must_be_alone
        if self._services.at_work.begin(table_id, alone=alone, waits_as=table_id, elapsed=now):
            self._begin(kept)
        else:
            kept.batch_at = now + look_every(kept.table.definition.interval)

    def _begin(self, kept: _Kept) -> None:
        kept.busy = True
        self._submit(partial(self._work, kept))

    def _work(self, kept: _Kept) -> None:
        """Carry out one batch, or the end of the stretch."""
        # Unless it comes to an end that says otherwise: an error of any kind must not be tried again
        # without a pause.
        kept.batch_at = self._services.clock.elapsed() + SHORTEST_PAUSE
        try:
            self._drive(kept)
        finally:
            kept.busy = False
            self._services.at_work.end(kept.table.table_id)
            self._services.signal.set()

    def _drive(self, kept: _Kept) -> None:
        clock = self._services.clock
        began, began_at = clock.elapsed(), clock.now()
        # Spark that has been lost since the batch was handed over is no loss of this one.
        stretch = kept.stretch or (self._begun(kept) if self._services.engine.state.ready() else None)
        if stretch is None:
            kept.batch_at = began + look_every(kept.table.definition.interval)
            return
        kept.stretch, kept.idle_since, stretch.way = stretch, None, None
        goes_on = False
        try:
            for step in kept.steps:
                self._watch(stretch.claimed, step)
                if step == IDLE:
                    goes_on = True
                    break
        finally:
            if not goes_on:
                kept.stretch, kept.steps = None, iter(())
        self._note_end(kept, stretch, began, began_at)

    def _begun(self, kept: _Kept) -> Stretch | None:
        """Claim the table for a new stretch; None while something else is done with it."""
        services = self._services
        claimed = services.ledger.begin_stretch(kept.table.table_id)
        if claimed is None:
            return None
        stretch = Stretch(claimed, services, beside=self._beside, losses=kept.losses)
        kept.steps = stretch.steps()
        return stretch

    def _note_end(self, kept: _Kept, stretch: Stretch, began: timedelta, began_at: datetime) -> None:
        """Note when the next batch may begin, after the end of one."""
        kept.losses = stretch.losses
        services, freshness, table = self._services, kept.table.definition.interval, kept.table
        run = services.ledger.shown(stretch.claimed.run.run_id) if kept.stretch is None else None
        if run is not None and run.status is RunStatus.FAILED:
            kept.failures += 1
            kept.batch_at = services.clock.elapsed() + pause_after(freshness, kept.failures)
            error = services.errors.text(str(table.identifier), run.error)
            log.warning("refresh of %s failed: %s", table.identifier, error, extra={"action": "batch_failed"})
            # A command that is under way on the table decides; the next failure tries again.
            with suppress(TableBusy, TableNotFound, IllegalStatus):
                suspend_failing(services, table.table_id)
        elif run is not None and run.status not in DONE:
            # Its process, its engine or its claim was lost: the next stretch goes on.
            kept.batch_at = services.clock.elapsed() + look_every(freshness)
        else:
            kept.seen, kept.is_due, kept.failures = kept.due, False, 0
            services.errors.forget(str(table.identifier))
            kept.idle_since, kept.batch_at = services.clock.elapsed(), began + apart(freshness, stretch.way)
            services.fresh_at[table.table_id] = began_at
        if stretch.way is not None:
            services.published.put(str(table.identifier))


def _wakes_at(kept: _Kept) -> timedelta:
    """Return when a table needs the look-out next: a due one waits for its batch, and for its sources
    if they were not read.
    """
    if not kept.is_due:
        return kept.look_at
    return min(kept.batch_at, kept.look_at) if kept.unread else kept.batch_at


def _tables_and_waiting(
    tx: Transaction, held: Iterable[str]
) -> tuple[Iterable[MaterializedTable], Mapping[str, str]]:
    """Return the tables that are refreshed continuously, and those of *held* for which a refresh
    of another kind waits.
    """
    queued = [run for table_id in held for run in tx.runs.queued(table_id)]
    return tx.tables.continuous(), {run.table_id: f"a {run.kind} refresh is due" for run in queued}


def _why_held(kept: _Kept, table: MaterializedTable, waiting: Mapping[str, str]) -> str:
    changed = "the definition changed" if table.definition != kept.table.definition else ""
    return why_no_batch(table) or changed or waiting.get(table.table_id, "") or _why_another_job(kept, table)


def _why_another_job(kept: _Kept, table: MaterializedTable) -> str:
    resumed = kept.stretch is not None and kept.stretch.claimed.run.continuous_job != table.continuous_job
    return "the table was suspended and resumed" if resumed else ""


def _has_idled(kept: _Kept, now: timedelta) -> bool:
    return kept.idle_since is not None and now - kept.idle_since >= LONGEST_IDLE and not kept.is_due
