"""Judges at one instant what a standing means: its state, by how much it is late, and why.

A `Judgement` holds until its next turn: the schedule time that passes next, or the instant from which the
table soon will be late, is late, has silent sources, or is late for another reason. It contains instants and
no ages, which would change each second. Sentences name times in the table's time zone, with the date of those
before today, so midnight in that zone is a turn of tables that have one.

The age of a table counts only while it is active: after RESUME it counts from the resume, and before its
first refresh from its creation.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta

from mt_core.base.ages import age_text
from mt_core.base.plural import plural
from mt_core.model.cadence import fresh_until, period_at
from mt_core.model.run import RunStatus
from mt_core.model.table import RefreshMode, RefreshStatus
from mt_core.model.zone import instant_at, zone_named
from mt_core.tables.brief import brief_text
from mt_core.tables.overview.chain import Chain, DataAsOf
from mt_core.tables.overview.facts import TableFacts, Words
from mt_core.tables.overview.lateness import Fault, State, fault_turns, own_fault
from mt_core.tables.overview.standing import Standing

# A refresh that begins now is assumed to take as long as the longest of the last ones, but at least a tenth
# and at most half of the time between what a table shows and its being late.
LEAST_SHARE, MOST_SHARE = 10, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The facts about a table at an instant, which hold until `turn`."""

    facts: TableFacts
    turn: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """When a table is late by itself, by a table below, and when its sources are silent; None means never."""

    own: datetime | None = None
    below: datetime | None = None
    silent: datetime | None = None

    @classmethod
    def of(cls, standing: Standing, chain: Chain, as_of: DataAsOf | None, now: datetime) -> Deadlines:
        if standing.status is not RefreshStatus.ACTIVATED or standing.streams:
            return cls()

        def counted(instant: datetime) -> datetime:
            # If the status time is in the future, it dates from before the clock was set back.
            return instant if standing.status_at > now else max(instant, standing.status_at)

        late_from = standing.promise.late_from
        own = late_from(counted(chain.read_at(standing) or standing.created_at))
        below = silent = None
        lowest = None if as_of is None or as_of.by is None else chain.standings.get(as_of.by)
        if as_of is not None and lowest is not None:
            fresh = fresh_until(lowest.cadence, lowest.promise.zone, as_of.until)
            below = late_from(counted(fresh))
        # If it reads a materialized table, the sources of that table count instead.
        if standing.refreshes.written_at is not None and not any(
            read.table in chain.standings for read in standing.refreshes.reads
        ):
            silent = late_from(standing.refreshes.written_at)
        return cls(own=own, below=below, silent=silent)

    @property
    def late(self) -> datetime | None:
        """From when on the table is late, by itself or by a table below."""
        return min((each for each in (self.own, self.below) if each is not None), default=None)


def judge(standing: Standing, chain: Chain, now: datetime) -> Judgement:
    """Return the judgement on a table at *now*; *chain* has the standings of the tables below it."""
    as_of = chain.data_as_of(standing)
    deadlines = Deadlines.of(standing, chain, as_of, now)
    return _Case(standing=standing, chain=chain, now=now, as_of=as_of, deadlines=deadlines).judgement()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A standing that is judged at *now*."""

    standing: Standing
    chain: Chain
    now: datetime
    as_of: DataAsOf | None
    deadlines: Deadlines

    def judgement(self) -> Judgement:
        standing, now, deadlines = self.standing, self.now, self.deadlines
        promise = standing.promise
        own, late, silent = map(self._passed, (deadlines.own, deadlines.late, deadlines.silent))
        # What the table shows is late because of a table below, though it was read in time.
        inherited = late is not None and own is None
        soon_at = self._soon_at()
        state = self._state(is_late=late is not None, is_soon=soon_at is not None and now >= soon_at)
        fault = self._fault(is_own=own is not None, inherited=inherited, is_silent=silent is not None)
        below = self._cause_below() if fault is Fault.SOURCE else None
        is_scheduled = promise.mode is RefreshMode.FULL and standing.status is RefreshStatus.ACTIVATED
        next_run = standing.cadence.grid(promise.zone).after(now) if is_scheduled else None
        words = self._words(state, fault, below)
        facts = TableFacts(
            table_id=standing.table_id,
            identifier=standing.identifier,
            mode=promise.mode,
            status=standing.status,
            freshness=standing.cadence.words,
            freshness_s=period_at(standing.cadence, promise.zone, now).total_seconds(),
            cadence=str(standing.cadence),
            zone=promise.zone,
            state=state,
            shows=None if self.as_of is None else self.as_of.until,
            shows_by=None if self.as_of is None else self.as_of.by,
            late_at=deadlines.late,
            silent_at=deadlines.silent,
            inherited=inherited,
            fault=fault,
            below=None if below is None else below.identifier,
            because=self._because(state, words),
            words=words,
            doubt=standing.doubt,
            last=standing.refreshes.last,
            refreshed_at=standing.refreshes.refreshed_at,
            only=standing.refreshes.only,
            next_run=next_run,
            running=standing.refreshes.work.running is not None,
            queued=standing.refreshes.queued,
            reads=standing.sources,
            status_by=standing.status_by,
            status_reason=standing.status_reason,
            suspended_by=standing.suspended_by,
            status_at=standing.status_at,
            created_at=standing.created_at,
        )
        turns = [next_run, soon_at, standing.status_at, deadlines.own, deadlines.below, deadlines.silent]
        turns += fault_turns(standing.refreshes.work, freshness=promise.interval)
        turns += [self._next_midnight()] if facts.because else []
        turn = min((each for each in turns if each is not None and each > now), default=None)
        return Judgement(facts=facts, turn=turn)

    def _passed(self, deadline: datetime | None) -> datetime | None:
        return deadline if deadline is not None and self.now >= deadline else None

    def _soon_at(self) -> datetime | None:
        """Return from when on a refresh may end too late, None if the table is never late."""
        late = self.deadlines.late
        if late is None:
            return None
        shows = self.standing.created_at if self.as_of is None else self.as_of.until
        span = max(late - shows, timedelta(0))
        return late - min(max(self.standing.refreshes.longest, span / LEAST_SHARE), span / MOST_SHARE)

    def _state(self, *, is_late: bool, is_soon: bool) -> State:
        standing = self.standing
        is_empty = standing.status is RefreshStatus.INITIALIZING or (
            self.as_of is None and not standing.streams
        )
        states = (
            (State.SUSPENDED, standing.status is RefreshStatus.SUSPENDED),
            (State.LATE, is_late),
            (State.FAILING, bool(self._failure())),
            (State.INITIALIZING, is_empty),
            (State.DOUBTED, standing.doubted),
            (State.SOON, is_soon),
        )
        return next((state for state, holds in states if holds), State.OK)

    def _fault(self, *, is_own: bool, inherited: bool, is_silent: bool) -> Fault | None:
        standing = self.standing
        if is_own:
            return own_fault(
                standing.refreshes.work,
                freshness=standing.promise.interval,
                now=self.now,
                looked=standing.table_id in self.chain.fresh_at,
            )
        if not inherited and not is_silent:
            return None
        # After a failed refresh, the sources may be up to date, but their new rows have not been read.
        if standing.refreshes.work.failed:
            return Fault.QUERY
        return Fault.SOURCE if inherited else Fault.WRITER

    def _cause_below(self) -> Standing | None:
        """Return the lowest table below that is late by itself or suspended.

        If there is none, return the table that read its sources at the time that the table shows.
        """
        standings = self.chain.standings
        found = standings.get(self.as_of.by) if self.as_of is not None and self.as_of.by is not None else None
        seen, level = {self.standing.identifier}, [self.standing]
        while level:
            level = [
                standings[name]
                for name in sorted({read.table for each in level for read in each.refreshes.reads} - seen)
                if name in standings
            ]
            seen.update(each.identifier for each in level)
            found = next((each for each in level if self._is_cause(each)), found)
        return found

    def _is_cause(self, below: Standing) -> bool:
        if below.status is RefreshStatus.SUSPENDED:
            return True
        own = Deadlines.of(below, self.chain, None, self.now).own
        return own is not None and self.now >= own

    # -------------------------------------------------------------------------------------------------- words

    def _words(self, state: State, fault: Fault | None, below: Standing | None) -> Words:
        """Return what is wrong, without since when the table is late."""
        standing = self.standing
        match state:
            case State.SUSPENDED:
                reason = f": {brief_text(standing.status_reason)}" if standing.status_reason else ""
                return (f"suspended by {standing.status_by}{reason}",)
            case State.LATE:
                return self._cause(fault, below)
            case State.FAILING:
                return (self._failure(),)
            case State.INITIALIZING:
                return ("it has no rows yet",)
            case State.DOUBTED:
                return (standing.doubt,) if standing.doubt else ()
            case State.SOON:
                late = self.deadlines.late
                return () if late is None else ("late at ", late, " unless it is refreshed before")
            case State.OK:
                return () if fault is None else self._cause(fault, below)

    def _because(self, state: State, words: Words) -> str:
        late = self.deadlines.late
        since: Words = ("late since ", late, ": ") if state is State.LATE and late is not None else ()
        return "".join(
            self._time(part) if isinstance(part, datetime) else str(part) for part in (*since, *words)
        )

    def _failure(self) -> str:
        """Return what failed, or "" if nothing did."""
        standing = self.standing
        if standing.streams:
            return f"its streaming job fails: {brief_text(standing.job_error)}" if standing.job_error else ""
        if standing.refreshes.last is not None and standing.refreshes.last.status is RunStatus.FAILED:
            return f"its last refresh failed: {brief_text(standing.refreshes.last.error)}"
        if not standing.failing:
            return ""
        times = f"{standing.failing} schedule {plural(standing.failing, 'time')}"
        return f"{times} failed and will be refreshed separately again"

    def _cause(self, fault: Fault | None, below: Standing | None) -> Words:
        match fault:
            case Fault.SOURCE:
                return self._source(below)
            case Fault.WRITER:
                written_at = self.standing.refreshes.written_at
                return ("its sources have had no commit since ", written_at or "?")
            case Fault.QUEUE:
                return self._queue()
            case Fault.QUERY:
                return self._query()
            case _:
                return self._schedule()

    def _source(self, below: Standing | None) -> Words:
        if below is None:
            return ("a table that it reads is late",)
        if below.status is RefreshStatus.SUSPENDED:
            return (below.identifier, " is suspended")
        if self._is_cause(below) or self.as_of is None:
            return (below.identifier, " is late")
        return (below.identifier, " read its sources at ", self.as_of.until)

    def _queue(self) -> Words:
        work = self.standing.refreshes.work
        if work.running is not None and work.running.started_at is not None:
            waited = work.running.started_at - work.running.requested_at
            return (f"its refresh waited {age_text(waited)} for a worker",)
        if work.waiting_since is None:
            return ("its refresh waits for a worker",)
        return ("its refresh has waited for a worker since ", work.waiting_since)

    def _query(self) -> Words:
        work, last = self.standing.refreshes.work, self.standing.refreshes.last
        if work.running is not None and work.running.batch_s is not None:
            return (f"its last batch took {work.running.batch_s:.1f} s",)
        if work.running is not None and work.running.started_at is not None:
            return ("its refresh has been running since ", work.running.started_at)
        error = None if last is None or last.status is not RunStatus.FAILED else brief_text(last.error)
        return ("its query fails" + (f": {error}" if error else ""),)

    def _schedule(self) -> Words:
        standing = self.standing
        if standing.promise.mode is RefreshMode.CONTINUOUS:
            return ("this gateway has not checked its sources since it started",)
        since = (
            standing.created_at if standing.refreshes.last is None else standing.refreshes.last.requested_at
        )
        return ("no refresh has been requested since ", since, ": is the scheduler running?")

    def _time(self, instant: datetime) -> str:
        zone = zone_named(self.standing.promise.zone)
        local, today = instant.astimezone(zone), self.now.astimezone(zone).date()
        return f"{local:%H:%M} {zone}" if local.date() == today else f"{local:%Y-%m-%d %H:%M} {zone}"

    def _next_midnight(self) -> datetime:
        zone = zone_named(self.standing.promise.zone)
        tomorrow = self.now.astimezone(zone).date() + timedelta(days=1)
        return instant_at(datetime.combine(tomorrow, time()), zone)
