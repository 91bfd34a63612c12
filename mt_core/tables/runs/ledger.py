"""The run ledger: requests, claims, ends, cancels and recovery, each in one transaction of the registry.

A run has one row, from its request to its end. Refreshes are safe across processes because every write of a
worker is conditional on run id, attempt, claim number and the status RUNNING. So a worker whose lease was
taken over can record nothing. The claim number, which each claim on a table increments, is also the epoch
that fences the storage. The rules are those of docs/design/refresh-protocol.md.

A request attaches to the run with its request key, is coalesced into a run that has not been claimed yet, or
is queued. A coalesced request retains its own row, so that its requester can wait for it and cancel it. The
run that covers it is cancelled only when all its requesters have cancelled. The ledger object has no state of
its own. A transaction marks up to `MOST_MARKED` runs, because transactions exclude each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, assert_never

from mt_core.clock import Clock
from mt_core.errors import OperationNotFound, RequestKeyReused
from mt_core.model.gateway import successor
from mt_core.model.partition import NOT_DOUBTED, WHOLE
from mt_core.model.run import OPEN, QUEUE, TERMINAL, Loss, ReasonCode, RefreshRun, RunKind, RunStatus
from mt_core.model.table import MaterializedTable, RefreshMode, RefreshStatus
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.registry import Registry, Transaction, transactional
from mt_core.tables.runs.decide import CONTINUOUS, SUSPENDED
from mt_core.tables.runs.due import points_between
from mt_core.tables.runs.failures import count_failures
from mt_core.tables.runs.periodic import PeriodicRuns
from mt_core.tables.runs.upstream import Upstream, wake, wake_needless, wake_put_back
from mt_core.tables.settings import ManagerSettings, refresh_timeout_of

MOST_MARKED = 50
_SET_ASIDE = frozenset({RunStatus.FAILED, RunStatus.CANCELED})
CANCELLED = {"reason": "cancelled by its requesters", "reason_code": ReasonCode.CANCELLED}
"""The columns of a run that all its requesters have cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedRun:
    """A run that this process has claimed, with the table's row at the time of the claim.

    The run exceeds its timeout at the elapsed time `ends_by`, which is None if it has no timeout. If it
    `follows_lost`, the table's claim before it lost its process or Spark: that process may still publish.
    """

    run: RefreshRun
    table: MaterializedTable
    ends_by: timedelta | None = None
    follows_lost: bool = False


class Ledger:
    """Reads and writes runs. Thread-safe and stateless."""

    def __init__(
        self, registry: Registry, settings: ManagerSettings, new_id: Callable[[], str], clock: Clock
    ) -> None:
        self.registry, self.clock = registry, clock
        self.max_partitions = settings.max_partitions
        self.iceberg_refresh_state = settings.iceberg_refresh_state
        self._settings = settings
        self._new_id = new_id
        self._periodic = PeriodicRuns(max_partitions=settings.max_partitions, new_id=new_id)

    # ----------------------------------------------------------------------------------------------- requests

    def request_in(self, tx: Transaction, table: MaterializedTable, run: RefreshRun) -> RefreshRun:
        """Record a request in a transaction that has locked *table* and return the run that answers it.

        *run* is attached to the run with its key, skipped, coalesced or queued.
        """
        if run.request_key:
            run, earlier = self._answered(tx, table, run)
            if earlier is not None:
                return earlier
        if run.kind is RunKind.PERIODIC and table.status is RefreshStatus.SUSPENDED:
            # It covers nothing and has no key, so that the same request after RESUME is a new one.
            run = run.advance(
                RunStatus.SKIPPED,
                request_key=None,
                points=(),
                decision=SUSPENDED,
                reason=f"{table.identifier} is suspended",
                reason_code=ReasonCode.TABLE_SUSPENDED,
                started_at=tx.now(),
                finished_at=tx.now(),
            )
        elif run.kind is RunKind.PERIODIC and table.definition.refresh_mode is RefreshMode.CONTINUOUS:
            # The scheduler sent this request before the refresh mode changed.
            run = run.advance(
                RunStatus.SKIPPED,
                points=(),
                decision=CONTINUOUS,
                reason=f"{table.identifier} is refreshed continuously",
                reason_code=ReasonCode.TABLE_CONTINUOUS,
                started_at=tx.now(),
                finished_at=tx.now(),
            )
        else:
            run = self._coalesced(tx, run)
        tx.runs.insert(run)
        return run

    def _answered(
        self, tx: Transaction, table: MaterializedTable, run: RefreshRun
    ) -> tuple[RefreshRun, RefreshRun | None]:
        """Return *run* with its request recorded, and the earlier run with its key if that answers it."""
        # The text of the request must not change when other requests are coalesced into the run.
        run = replace(
            run, request=f"{run.kind} {run.schedule_time.isoformat() if run.schedule_time else run.scope}"
        )
        earlier = tx.runs.with_key(run.table_id, run.request_key or "")
        if earlier is None:
            return run, None
        if earlier.request != run.request:
            raise RequestKeyReused(
                f"Idempotency-Key '{run.request_key}' belongs to another refresh of {table.identifier}: "
                f"it was sent with {earlier.request}, now it is sent with {run.request}; "
                "use another key for another request."
            )
        status = _shown(tx, earlier).status
        ends = earlier.cancel_requested and status not in TERMINAL
        if status not in _SET_ASIDE and not ends:
            attempt = run.request_attempt
            if attempt is None or attempt <= (earlier.request_attempt or 0):
                return run, earlier
            # The highest attempt is stored so that a late cancel of an earlier attempt can be ignored.
            attached = replace(earlier, request_attempt=attempt)
            tx.runs.replace(attached, expected=earlier)
            return run, attached
        retry = replace(
            run, retry_of=earlier.run_id, scope=earlier.scope if run.kind is RunKind.MANUAL else run.scope
        )
        if earlier.status not in _SET_ASIDE:
            # It is covered by a failed run, or is cancelled and about to end. The new run needs its key.
            tx.runs.replace(replace(earlier, request_key=None), expected=earlier)
        return retry, None

    def _coalesced(self, tx: Transaction, run: RefreshRun) -> RefreshRun:
        if run.solo:
            return run
        for host in tx.runs.queued(run.table_id):
            fits = (
                host.claim == 0
                and host.kind is run.kind
                and not host.solo
                and dict(host.options) == dict(run.options)
            )
            if fits and not host.cancel_requested:
                points = tuple(sorted({*host.points, *run.points}, reverse=True))
                times = [time for time in (host.schedule_time, run.schedule_time) if time is not None]
                wider = replace(
                    host,
                    points=points,
                    scope=host.scope.union(run.scope),
                    schedule_time=max(times, default=None),
                )
                tx.runs.replace(wider, expected=host)
                return run.advance(
                    RunStatus.COALESCED, covered_by=host.run_id, points=(), finished_at=tx.now()
                )
        return run

    # -------------------------------------------------------------------------------------------------- claim

    def claim(self, may_begin: Callable[[RefreshRun], bool] = lambda _run: True) -> ClaimedRun | None:
        """Claim the oldest run that can begin now, or return None if there is none.

        Runs that have to wait for upstream tables are marked as waiting. *may_begin* is called for a run
        before it is claimed; if it returns False, the runs behind that run wait too.
        """
        while True:
            claimed, try_again = self._claim_next(may_begin)
            if claimed is not None or not try_again:
                return claimed

    @transactional
    def _claim_next(
        self, tx: Transaction, may_begin: Callable[[RefreshRun], bool]
    ) -> tuple[ClaimedRun | None, bool]:
        """Return the claimed run and whether to try again.

        One transaction marks only a limited number of waiting runs, because other transactions wait for its
        end.
        """
        if self._is_replaced(tx):
            return None, False
        upstream = Upstream(tx=tx, settings=self._settings)
        for _ in range(MOST_MARKED):
            if (run := tx.runs.next_claimable()) is None:
                return None, False
            table = tx.tables.get(run.table_id)
            if table is None:
                after = canceled_with_table(run, tx.now())
            else:
                after = upstream.with_wait(table, run)
                if after.waits_until is None or after.waits_until <= tx.now():
                    return (self._claimed(tx, table, after) if may_begin(run) else None), False
            tx.runs.replace(after, expected=run)
        return None, True

    @transactional
    def claim_continuous(self, tx: Transaction, table_id: str) -> ClaimedRun | None:
        """Claim a CONTINUOUS table for a continuous run; return None if a run or a command is open."""
        table = tx.tables.get(table_id)
        if (
            table is None
            or self._is_replaced(tx)
            or why_no_batch(table)
            or tx.runs.newest(table_id=table_id, statuses=OPEN, limit=1)
        ):
            return None
        run = RefreshRun(
            run_id=self._new_id(),
            table_id=table_id,
            kind=RunKind.CONTINUOUS,
            scope=WHOLE,
            requested_at=tx.now(),
            continuous_job=table.continuous_job,
        )
        tx.runs.insert(run)
        return self._claimed(tx, table, run)

    @transactional
    def note_batch(self, tx: Transaction, claimed: ClaimedRun, changes: Mapping[str, Any]) -> str | None:
        """Record *changes* of a batch, as `note` does, and return why the continuous run has to end now.

        The reason is "" if the run may continue and None if the claim was lost.
        """
        run = _held(tx, claimed)
        if run is None:
            return None
        tx.runs.replace(replace(run, **changes), expected=run)
        table = tx.tables.get(run.table_id)
        if table is None:
            return "its table was dropped"
        if fingerprint_of(table.definition) != run.fingerprint:
            return "the definition changed"
        if tx.runs.queued(run.table_id):
            return "another refresh is due"
        return why_no_batch(table)

    def _is_replaced(self, tx: Transaction) -> bool:
        """Return whether another gateway has taken over the registry.

        Without this check, this gateway would notice only when it next renews its lease.
        """
        return successor(tx.gateways.all(), self._settings.owner, tx.now()) is not None

    def _claimed(self, tx: Transaction, table: MaterializedTable, run: RefreshRun) -> ClaimedRun:
        wider = self._periodic.widened(tx, table, run) if run.claim == 0 else run
        limit = refresh_timeout_of(table.definition.options, self._settings)
        timeout = limit if limit and run.kind is not RunKind.CONTINUOUS else None
        claimed = wider.advance(
            RunStatus.RUNNING,
            claim=tx.tables.next_claim(table.table_id),
            owner=self._settings.owner,
            lease_until=tx.now() + self._settings.lease,
            started_at=tx.now(),
            deadline=tx.now() + timeout if timeout else None,
            finished_at=None,
            job_id=self._new_id().replace("-", ""),
            fingerprint=fingerprint_of(table.definition),
            steps=_queued_for(run, tx.now()),
        )
        tx.runs.replace(claimed, expected=run)
        return ClaimedRun(
            run=claimed,
            table=table,
            ends_by=self.clock.elapsed() + timeout if timeout else None,
            follows_lost=_follows_lost(tx, claimed),
        )

    # ------------------------------------------------------------------------------------------------ holding

    @transactional
    def held(self, tx: Transaction, claimed: ClaimedRun) -> RefreshRun | None:
        """Return the current row of the run, or None if *claimed* no longer holds its lease."""
        return _held(tx, claimed)

    @transactional
    def note(self, tx: Transaction, claimed: ClaimedRun, changes: Mapping[str, Any]) -> bool:
        """Record *changes* on a claimed run; return False if the claim was lost."""
        run = _held(tx, claimed)
        if run is not None:
            tx.runs.replace(replace(run, **changes), expected=run)
        return run is not None

    @transactional
    def renew_lease(self, tx: Transaction, claimed: ClaimedRun) -> bool:
        """Extend the lease of a claimed run; return False if the claim was lost."""
        run = _held(tx, claimed)
        if run is not None:
            tx.runs.replace(replace(run, lease_until=tx.now() + self._settings.lease), expected=run)
        return run is not None

    def is_overdue(self, claimed: ClaimedRun) -> bool:
        """Return whether the run has exceeded its timeout."""
        return claimed.ends_by is not None and self.clock.elapsed() >= claimed.ends_by

    @transactional
    def withdrawn(self, tx: Transaction, run_id: str) -> bool:
        """Return whether every requester of the run has cancelled it."""
        return _withdrawn(tx, run_id)

    # ---------------------------------------------------------------------------------------------------- end

    @transactional
    def end(
        self, tx: Transaction, claimed: ClaimedRun, status: RunStatus, changes: Mapping[str, Any]
    ) -> bool:
        """End a claimed run, update the table's covered schedule times and rebuild, and queue retries.

        Returns False if the claim was lost.
        """
        run = _held(tx, claimed)
        if run is None:
            return False
        ended = run.advance(status, finished_at=tx.now(), lease_until=None, **changes)
        tx.runs.replace(ended, expected=run)
        table = tx.tables.get(run.table_id)
        if table is not None:
            after = self._periodic.ended(tx, table, ended)
            after = _with_doubted(count_failures(self._settings, after, ended), ended)
            if after is not table:
                tx.tables.replace(after)
        wake(tx, run.table_id)
        return True

    @transactional
    def release(self, tx: Transaction, claimed: ClaimedRun, reason: str, loss: Loss = Loss.ALONE) -> None:
        """Return a claimed run to the queue after it has lost Spark, unless the claim was lost."""
        run = _held(tx, claimed)
        if run is None:
            return
        match loss:
            case Loss.ALONE:
                pass
            case Loss.SHARED:
                run = replace(run, shared=(run.shared or 0) + 1)
            case Loss.OF_CLUSTER:
                run = replace(run, excused=(run.excused or 0) + 1)
            case _:
                assert_never(loss)
        _give_back(tx, run, reason, ReasonCode.SPARK_LOST)

    @transactional
    def recover(self, tx: Transaction) -> int:
        """Return the runs of lost processes to the queue, end unnecessary waits, and return how many of both.

        A gateway that could not renew its own lease for a moment is not lost: its runs count as lost only
        when their own leases expire.
        """
        ours, now = self._settings.owner, tx.now()
        for run in tx.runs.newest(statuses=[RunStatus.RUNNING], kinds=frozenset(RunKind)):
            if run.lease_until is not None and run.lease_until > now + self._settings.lease:
                # The clock was set back, so the lease would last too long.
                tx.runs.replace(replace(run, lease_until=now + self._settings.lease), expected=run)
        lost = [
            run
            for run in tx.runs.expired()
            if run.owner != ours or run.lease_until is None or run.lease_until < now
        ]
        for run in lost:
            _give_back(tx, run, "its process was lost", ReasonCode.PROCESS_LOST)
        return len(lost) + wake_put_back(tx) + wake_needless(tx)

    # ------------------------------------------------------------------------------------------------- cancel

    @transactional
    def cancel(self, tx: Transaction, run_id: str, attempt: int | None = None) -> RefreshRun:
        """Cancel the request of one requester and return the run that does its work.

        That run ends when no requester is left. A cancel is ignored if its *attempt*, as counted by the
        requester, is older than the latest one, or if the run has ended. Raises OperationNotFound for an
        unknown run.
        """
        run = tx.runs.get(run_id)
        if run is None:
            raise OperationNotFound(f"Refresh {run_id} is not in the ledger.")
        if _host_of(tx, run).status in TERMINAL or _is_outdated(tx, run, attempt):
            return _host_of(tx, run)
        if not run.cancel_requested:
            tx.runs.replace(replace(run, cancel_requested=True), expected=run)
        host = _host_of(tx, run)
        if host.status is RunStatus.QUEUED and host.claim == 0 and _withdrawn(tx, host.run_id):
            ended = host.advance(RunStatus.CANCELED, finished_at=tx.now(), **CANCELLED)
            tx.runs.replace(ended, expected=host)
            wake(tx, host.table_id)
            return ended
        return host

    # --------------------------------------------------------------------------------------------------- read

    @transactional
    def shown(self, tx: Transaction, run_id: str) -> RefreshRun | None:
        """Return a run as its requester sees it, or None if it is unknown.

        A COALESCED run has the outcome of its covering run.
        """
        run = tx.runs.get(run_id)
        return _shown(tx, run) if run else None

    def seen(self, run_id: str) -> RefreshRun | None:
        """Return what `shown` does, only to be displayed: it waits for no transaction and delays none."""
        with self.registry.reading() as tx:
            run = tx.runs.get(run_id)
            return _shown(tx, run) if run else None

    @transactional
    def uncovered(self, tx: Transaction, table: MaterializedTable, until: datetime) -> list[datetime]:
        """Return the latest schedule times since CREATE, up to *until*, that no run in the ledger covered."""
        history = self._settings.refresh_history
        since = max(table.created_at, tx.now() - history) if history else table.created_at
        covered = {point for run in tx.runs.covering(table.table_id, since) for point in run.points}
        return [point for point in points_between(table, since, until) if point not in covered]


def _queued_for(run: RefreshRun, now: datetime) -> Mapping[str, float]:
    """Return the seconds from the request of *run* to its first claim; empty for a CONTINUOUS run."""
    if run.claim or run.kind is RunKind.CONTINUOUS:
        return run.steps
    return {QUEUE: round(max(0.0, (now - run.requested_at).total_seconds()), 3)}


def _follows_lost(tx: Transaction, claimed: RefreshRun) -> bool:
    """Return whether the table's previous claim was lost.

    Its run is queued again or, if it is continuous, cancelled, or failed after too many losses.
    """
    newest = partial(tx.runs.newest, table_id=claimed.table_id, limit=1)
    ended = (
        *newest(statuses=[RunStatus.CANCELED], kinds={RunKind.CONTINUOUS}),
        *(run for run in newest(statuses=[RunStatus.FAILED]) if run.kind is RunKind.CONTINUOUS),
    )
    lost = (*tx.runs.queued(claimed.table_id), *ended)
    return claimed.attempt > 1 or any(run.claim == claimed.claim - 1 for run in lost)


def _with_doubted(table: MaterializedTable, run: RefreshRun) -> MaterializedTable:
    """Return *table* with the partitions in doubt after *run*, even if *run* did not search for late rows."""
    doubted = run.doubted if run.doubted is not None else table.doubted or NOT_DOUBTED
    if run.status is RunStatus.SUCCEEDED:
        doubted = doubted.without(run.scope)
    now = doubted if doubted else None
    return table if now == table.doubted else replace(table, doubted=now)


def _shown(tx: Transaction, run: RefreshRun) -> RefreshRun:
    if run.cancel_requested and run.status is RunStatus.COALESCED:
        return replace(run, status=RunStatus.CANCELED)
    host = tx.runs.get(run.covered_by) if run.covered_by else None
    if host is None:
        return run
    return replace(
        host,
        run_id=run.run_id,
        table_id=run.table_id,
        covered_by=host.run_id,
        cancel_requested=run.cancel_requested,
        request_attempt=run.request_attempt,
    )


def _held(tx: Transaction, claimed: ClaimedRun) -> RefreshRun | None:
    run = tx.runs.get(claimed.run.run_id)
    ours = run is not None and (run.status, run.attempt, run.claim) == (
        RunStatus.RUNNING,
        claimed.run.attempt,
        claimed.run.claim,
    )
    return run if ours else None


def _host_of(tx: Transaction, run: RefreshRun) -> RefreshRun:
    """Return the run that does the work of *run*: the run that covers it, or *run* itself."""
    return tx.runs.get(run.covered_by or run.run_id) or run


def _is_outdated(tx: Transaction, run: RefreshRun, attempt: int | None) -> bool:
    if attempt is None:
        return False
    newest = tx.runs.with_key(run.table_id, run.request_key) if run.request_key else None
    seen = max(run.request_attempt or 0, (newest.request_attempt or 0) if newest else 0)
    return attempt < seen


def _withdrawn(tx: Transaction, run_id: str) -> bool:
    run = tx.runs.get(run_id)
    if run is None or not run.cancel_requested:
        return False
    return all(covered.cancel_requested for covered in tx.runs.covered_by(run_id))


def why_no_batch(table: MaterializedTable) -> str:
    """Return why no batch of *table* may begin now, or "" if one may."""
    if table.intent is not None:
        return f"{table.intent.command} is in progress"
    if table.status is not RefreshStatus.ACTIVATED:
        return f"the table is {table.status}"
    return "" if table.definition.refresh_mode is RefreshMode.CONTINUOUS else "the refresh mode changed"


def canceled_with_table(run: RefreshRun, now: datetime) -> RefreshRun:
    """Return a queued *run* as CANCELED, because its table was dropped."""
    reason, code = "its table was dropped", ReasonCode.TABLE_DROPPED
    return run.advance(RunStatus.CANCELED, finished_at=now, reason=reason, reason_code=code)


def _give_back(tx: Transaction, run: RefreshRun, reason: str, code: ReasonCode) -> None:
    """Return a run to the queue.

    A continuous run is cancelled instead: the next one publishes what this one has not published yet.
    """
    if run.kind is RunKind.CONTINUOUS:
        ended = run.advance(RunStatus.CANCELED, finished_at=tx.now(), reason=reason, reason_code=code)
        tx.runs.replace(ended, expected=run)
        return
    queued = run.advance(
        RunStatus.QUEUED,
        attempt=run.attempt + 1,
        owner=None,
        lease_until=None,
        reason=f"attempt {run.attempt}: {reason}",
        reason_code=code,
    )
    tx.runs.replace(queued, expected=run)
