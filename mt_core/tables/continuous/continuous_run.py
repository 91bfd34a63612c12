"""A continuous run: one claim of a table, under which several batches of changes are published.

A CONTINUOUS table may be refreshed every second, but a claim writes rows to the ledger. So one claim serves
many batches. Each batch is a publish as in docs/design/refresh-protocol.md (`Publication`), under the run's
id and the batch's number. Between two batches the run waits at the step IDLE and occupies no thread, but
retains its claim. It ends as soon as any other work on
the table is due, and after a minute without changes. It also ends after an hour, which limits the number of
batches per row of the ledger.

Ending a run loses nothing: the snapshots of the table record the versions of its sources, and the next run
continues from there. Facts about a batch are buffered until the batch ends. Then one transaction records them
and checks whether the run may continue.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Any

from mt_core.errors import EngineUnavailable, MtError, StorageMissing
from mt_core.incremental.strategy import Way
from mt_core.model.run import DONE, Batch, Loss, ReasonCode, RunStatus
from mt_core.tables.refresh.attempt import Ending, kind_of
from mt_core.tables.refresh.outcome import ClaimLost, RunEnded
from mt_core.tables.refresh.publication import Publication
from mt_core.tables.refresh.step_times import IDLE, OnStep, Steps, StepTimes, unobserved
from mt_core.tables.runs.ledger import ClaimedRun
from mt_core.tables.runs.losses import Losses
from mt_core.tables.services import TableServices
from mt_core.tables.settings import refresh_timeout_of
from mt_core.tables.upkeep.compaction import compact, too_many
from mt_core.tables.views.readers import versions_read

LONGEST = timedelta(hours=1)
MOST_RECENT = 50
MOST_SNAPSHOTS = 500
EXPIRE_EVERY = timedelta(minutes=1)
COMPACT_BATCHES, COMPACT_EVERY = 60, timedelta(minutes=10)
Submit = Callable[[Callable[[], None]], object]
log = logging.getLogger(__name__)
# The columns of the ledger that are summed over all batches.
_SUMS = ("rows", "rows_inserted", "rows_updated", "rows_deleted", "bytes_read")


class ContinuousRun:
    """Carries out the batches of a claimed CONTINUOUS run.

    `way` is the strategy of the last batch, None if nothing had changed. `ending` is the reason why the run
    ends, "" while it continues; another thread may set it while the run is idle. `losses` counts the
    consecutive losses of Spark, including *losses* from before this run; a batch that ends in any other way
    resets it.
    """

    def __init__(
        self,
        claimed: ClaimedRun,
        services: TableServices,
        *,
        beside: Submit,
        losses: Losses,
        on_step: OnStep = unobserved,
    ) -> None:
        self._services, self._ledger, self._clock = services, services.ledger, services.clock
        self._times = StepTimes(services.clock, on_step)
        self._publication = Publication(
            claimed,
            ledger=services.ledger,
            engine=services.engine,
            note=self._note,
        )
        self._publication.batch = 1
        self._table, self._identifier = claimed.table, claimed.table.identifier
        self.way: Way | None = None
        self.ending = ""
        self.losses, self._earlier = Losses(), losses
        self._history = services.settings.continuous_history
        self._began_at, self._began = self._clock.now(), self._clock.elapsed()
        self._claimed_at = self._expired = self._compacted = self._began
        self._timeout = refresh_timeout_of(claimed.table.definition.options, services.settings)
        self._compacted_before = 1
        # A batch holds `_turn` for its duration, and a concurrent compaction holds it for its commits.
        self._beside, self._turn, self._is_lost = beside, Lock(), False
        self._published: str | None = None
        self._begins: deque[datetime] = deque(maxlen=MOST_SNAPSHOTS)
        self._written: dict[str, int | None] = {}
        self._recent: tuple[Batch, ...] = ()
        self._noted: dict[str, Any] = {}

    @property
    def claimed(self) -> ClaimedRun:
        """The claim, with the deadline of the current batch."""
        return self._publication.claimed

    def steps(self) -> Steps:
        """Publish batches; yield the name of each step before it runs, and IDLE between two batches."""
        ending = Ending(self._publication, self._ledger, self._times, self._release, self._on_end)
        return self._times.measured(ending.after(self._batches()))

    def _batches(self) -> Steps:
        while not self.ending:
            self._noted, self._began_at, self._began = {}, self._clock.now(), self._clock.elapsed()
            self._times.restart()
            self._set_deadline()
            try:
                with self._turn:
                    yield from self._publication.publish()
            except RunEnded as end:
                if end.status not in DONE:
                    raise
                self._end_batch(end)
            self._services.signal.set()
            self._expire()
            self._compact()
            if not self.ending:
                yield IDLE
        status = RunStatus.SUCCEEDED if self._recent else RunStatus.SKIPPED
        why, code = self._noted.get("reason", "idle"), self._noted.get("reason_code", ReasonCode.IDLE)
        raise RunEnded(status=status, changes={"reason": f"{why}; ended: {self.ending}", "reason_code": code})

    def _set_deadline(self) -> None:
        """Give the current batch a deadline: the timeout of a refresh, from its start."""
        if self._timeout:
            claimed, ends_at = self.claimed, self._began_at + self._timeout
            run = replace(claimed.run, started_at=self._began_at, deadline=ends_at)
            self._publication.claimed = replace(claimed, run=run, ends_by=self._began + self._timeout)

    def _expire(self) -> None:
        """Once a minute, delete snapshots that are older than the history or than the last 500 batches.

        Snapshots that other tables read are retained. Each commit rewrites the list of snapshots, so a long
        list slows down every batch.
        """
        elapsed, now = self._clock.elapsed(), self._clock.surely()
        if self._published is None or elapsed - self._expired < EXPIRE_EVERY:
            return
        self._expired = elapsed
        try:
            oldest = self._begins[0] if len(self._begins) == MOST_SNAPSHOTS else now - self._history
            read = versions_read(self._services, self._identifier)
            self._services.engine.housekeeping.expire(
                self._identifier, max(oldest, now - self._history), read
            )
        except EngineUnavailable:
            raise
        except MtError as error:
            log.warning(
                "expiry of %s failed: %s", self._identifier, error, extra={"action": "maintenance_failed"}
            )

    def _compact(self) -> None:
        """Every 60 batches or ten minutes, start a compaction if the table needs one."""
        now, batch = self._clock.elapsed(), self._publication.batch or 0
        if self.ending or (
            batch - self._compacted_before < COMPACT_BATCHES and now - self._compacted < COMPACT_EVERY
        ):
            return
        self._compacted_before, self._compacted = batch, now
        if self._is_lost:
            # The last compaction lost to batches that replaced its files, so this time batches wait for it.
            compact(self._services, self._table)
            self._is_lost = False
        else:
            self._beside(self._compact_beside)

    def _compact_beside(self) -> None:
        # The table may have been dropped meanwhile.
        with suppress(EngineUnavailable, StorageMissing):
            done = compact(self._services, self._table, turn=self._turn)
            self._is_lost = done is None and too_many(self._services, self._table) is not None

    def _release(self, lost: EngineUnavailable) -> None:
        """End the run after a loss of Spark; the run fails if its batches have lost Spark too often."""
        loss = kind_of(lost)
        self.losses = self._earlier.and_one(loss)
        if loss is not Loss.OF_CLUSTER and (why := self.losses.too_many):
            error = f"Refresh of {self._identifier} {why}: {lost}"
            changes = {"error": error, "by_query": loss is Loss.ALONE and self.losses.is_cause}
            self._ledger.end(self.claimed, RunStatus.FAILED, changes)
        else:
            self._ledger.release(self.claimed, str(lost), loss)

    def _on_end(self, _status: RunStatus | None) -> None:
        self._services.signal.set()

    def _note(self, changes: Mapping[str, Any]) -> None:
        """Buffer *changes* until the batch ends, when one transaction records all of them."""
        self._noted.update(changes)

    def _end_batch(self, end: RunEnded) -> None:
        """Record a batch that published rows or found no changes."""
        self._earlier = Losses()
        self._noted |= {**end.changes, "steps": self._times.of_parts()}
        self.way = self._publication.way if end.status is RunStatus.SUCCEEDED else None
        if self.way is not None:
            self._count(self.way)
        why = self._ledger.note_batch(self.claimed, self._noted)
        if why is None:
            raise ClaimLost
        lasted = self._clock.elapsed() - self._claimed_at
        self.ending = why or ("it lasted an hour" if lasted >= LONGEST else "")

    def _count(self, way: Way) -> None:
        number, maintenance = self._publication.batch, self._publication.maintenance
        assert number is not None
        self._published = self._noted.get("snapshot_id")
        self._begins.append(self._began_at)
        since = None if maintenance is None else maintenance.changes.since
        batch = Batch(
            number=number,
            began_at=self._began_at,
            seconds=_seconds(self._clock.elapsed() - self._began),
            # The clock of the process that committed may differ.
            lag=None if since is None else max(0.0, _seconds(self._clock.now() - since)),
            strategy=way,
            rows=self._noted.get("rows", 0),
            snapshot_id=self._published or "",
            bytes_read=self._noted.get("bytes_read"),
        )
        self._written = {name: _added(self._written.get(name, 0), self._noted.get(name)) for name in _SUMS}
        self._recent = (*self._recent, batch)[-MOST_RECENT:]
        self._noted |= {**self._written, "batches": number, "recent": self._recent}
        self._publication.batch = number + 1


def _added(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _seconds(time: timedelta) -> float:
    return round(time.total_seconds(), 3)
