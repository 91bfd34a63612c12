"""The run ledger: requests, claims, ends, cancels and recovery, each one transaction of the registry.

The rules are those of the protocol (docs/decisions/0003-refresh-protocol.md): every write is guarded by run id, attempt, claim
number and RUNNING; a request attaches to the run of its key, is coalesced into a run nobody has claimed yet, or is queued.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mt_core.errors import OperationNotFound, RequestKeyReused
from mt_core.model.run import TERMINAL, RefreshRun, RunKind, RunStatus
from mt_core.model.table import MaterializedTable, RefreshStatus
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.registry import Registry, Transaction, in_transaction
from mt_core.tables.runs.decide import SUSPENDED
from mt_core.tables.runs.periodic import PeriodicRuns
from mt_core.tables.settings import ManagerSettings, refresh_timeout_of

MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A run that this process holds, with its table as it was at the claim."""

    run: RefreshRun
    table: MaterializedTable

    @property
    def lost_too_often(self) -> bool:
        return self.run.attempt - (self.run.excused or 0) > MAX_ATTEMPTS


class Ledger:
    """Reads and writes runs. Thread-safe: it keeps nothing itself."""

    def __init__(self, registry: Registry, settings: ManagerSettings, new_id: Callable[[], str]) -> None:
        self.registry = registry
        self._settings = settings
        self._new_id = new_id
        self._periodic = PeriodicRuns(max_partitions=settings.max_partitions, new_id=new_id)

    # ------------------------------------------------------------------------------------------------------ requests

    def request(self, table_id: str, run: RefreshRun) -> RefreshRun:
        """Accept *run* for a table: attach to the run of the same key, skip, coalesce or queue it; return what was recorded."""

        def work(tx: Transaction) -> RefreshRun:
            table = tx.tables.get(table_id)
            return self.request_in(tx, table, run) if table else run

        return in_transaction(self.registry, work)

    def request_in(self, tx: Transaction, table: MaterializedTable, run: RefreshRun) -> RefreshRun:
        """Do the same inside a transaction that holds *table*."""
        run = replace(run, request=_request_text(run)) if run.request_key else run
        earlier = tx.runs.with_key(run.table_id, run.request_key) if run.request_key else None
        if earlier is not None:
            _refuse_other_request(table, run, earlier)
            if not self._is_set_aside(tx, earlier):
                return _attached(tx, earlier, run.request_attempt)
            run = replace(
                run, retry_of=earlier.run_id, scope=earlier.scope if run.kind is RunKind.MANUAL else run.scope
            )
            if earlier.status not in (RunStatus.FAILED, RunStatus.CANCELED):
                # Covered by a run that failed, or about to end because it was cancelled: its key is needed for the new one.
                tx.runs.replace(replace(earlier, request_key=None), expected=earlier)
        if run.kind is RunKind.PERIODIC and table.status is RefreshStatus.SUSPENDED:
            # It covers nothing and keeps no key: the same request after RESUME is a new one.
            run = run.advance(
                RunStatus.SKIPPED,
                request_key=None,
                points=(),
                decision=SUSPENDED,
                reason=f"{table.identifier} is suspended",
                started_at=tx.now(),
                finished_at=tx.now(),
            )
        else:
            run = self._coalesced(tx, run)
        tx.runs.insert(run)
        return run

    def _is_set_aside(self, tx: Transaction, run: RefreshRun) -> bool:
        """Whether a request with the key of *run* needs a new run: this one failed, was cancelled, or is about to be."""
        status = self._shown(tx, run).status
        return status in (RunStatus.FAILED, RunStatus.CANCELED) or (run.cancel_requested and status not in TERMINAL)

    def _coalesced(self, tx: Transaction, run: RefreshRun) -> RefreshRun:
        if run.solo:
            return run
        for host in tx.runs.queued(run.table_id):
            fits = (
                host.claim == 0 and host.kind is run.kind and not host.solo and dict(host.options) == dict(run.options)
            )
            if fits and not host.cancel_requested:
                points = tuple(sorted({*host.points, *run.points}, reverse=True))
                times = [time for time in (host.schedule_time, run.schedule_time) if time is not None]
                wider = replace(
                    host, points=points, scope=host.scope.union(run.scope), schedule_time=max(times, default=None)
                )
                tx.runs.replace(wider, expected=host)
                return run.advance(RunStatus.COALESCED, covered_by=host.run_id, points=(), finished_at=tx.now())
        return run

    # ---------------------------------------------------------------------------------------------------------- claim

    def claim(self) -> Claimed | None:
        """Claim the oldest run that can run now; None if there is none."""
        return in_transaction(self.registry, self._claim_in)

    def _claim_in(self, tx: Transaction) -> Claimed | None:
        while (run := tx.runs.next_claimable()) is not None:
            table = tx.tables.get(run.table_id)
            if table is not None:
                return self._claimed(tx, table, run)
            ended = run.advance(RunStatus.CANCELED, finished_at=tx.now(), reason="its table was dropped")
            tx.runs.replace(ended, expected=run)
        return None

    def _claimed(self, tx: Transaction, table: MaterializedTable, run: RefreshRun) -> Claimed:
        wider = self._periodic.widened(tx, table, run) if run.claim == 0 else run
        timeout = refresh_timeout_of(table.definition.options, self._settings)
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
        )
        tx.runs.replace(claimed, expected=run)
        return Claimed(run=claimed, table=table)

    # ------------------------------------------------------------------------------------------------------------ holding

    def held(self, claimed: Claimed) -> RefreshRun | None:
        """Return the run as the ledger has it if *claimed* still holds it, else None."""
        return in_transaction(self.registry, lambda tx: _held(tx, claimed))

    def note(self, claimed: Claimed, changes: Mapping[str, Any]) -> bool:
        """Record *changes* on a run that *claimed* holds; False if it does not hold it any more."""

        def work(tx: Transaction) -> bool:
            run = _held(tx, claimed)
            if run is None:
                return False
            tx.runs.replace(replace(run, **changes), expected=run)
            return True

        return in_transaction(self.registry, work)

    def renew_lease(self, claimed: Claimed) -> bool:
        """Push the lease of a held run out; False if it is held no more."""

        def work(tx: Transaction) -> bool:
            run = _held(tx, claimed)
            if run is None:
                return False
            tx.runs.replace(replace(run, lease_until=tx.now() + self._settings.lease), expected=run)
            return True

        return in_transaction(self.registry, work)

    def is_overdue(self, claimed: Claimed) -> bool:
        """Whether the run takes longer than it may."""
        deadline = claimed.run.deadline
        return deadline is not None and in_transaction(self.registry, lambda tx: tx.now()) >= deadline

    def withdrawn(self, run_id: str) -> bool:
        """Whether every requester of the run has cancelled."""
        return in_transaction(self.registry, lambda tx: _withdrawn(tx, run_id))

    # --------------------------------------------------------------------------------------------------------------- end

    def end(self, claimed: Claimed, status: RunStatus, changes: Mapping[str, Any]) -> bool:
        """End a held run, and with it what follows: watermark, rebuild, single retries. False if it is not held."""

        def work(tx: Transaction) -> bool:
            run = _held(tx, claimed)
            if run is None:
                return False
            ended = run.advance(status, finished_at=tx.now(), lease_until=None, **changes)
            tx.runs.replace(ended, expected=run)
            self._follow_up(tx, ended)
            return True

        return in_transaction(self.registry, work)

    def _follow_up(self, tx: Transaction, run: RefreshRun) -> None:
        table = tx.tables.get(run.table_id)
        after = self._periodic.ended(tx, table, run) if table is not None else None
        if after is not None and after is not table:
            tx.tables.replace(after)

    def release(self, claimed: Claimed, reason: str, *, excused: bool = False) -> None:
        """Give a held run back to the queue: its process was lost, or (*excused*) the cluster, as often as that happens."""

        def work(tx: Transaction) -> None:
            run = _held(tx, claimed)
            if run is not None:
                _requeue(tx, replace(run, excused=(run.excused or 0) + 1) if excused else run, reason)

        in_transaction(self.registry, work)

    def recover(self) -> int:
        """Put runs whose holder is gone back into the queue; return how many.

        A gateway that could not renew its own lease for a moment is not gone: its runs stay with it for as long as theirs last.
        """

        def work(tx: Transaction) -> int:
            ours, now = self._settings.owner, tx.now()
            lost = [
                run
                for run in tx.runs.expired()
                if run.owner != ours or run.lease_until is None or run.lease_until < now
            ]
            for run in lost:
                _requeue(tx, run, "its process was lost")
            return len(lost)

        return in_transaction(self.registry, work)

    # ------------------------------------------------------------------------------------------------------------- cancel

    def cancel(self, run_id: str, attempt: int | None = None) -> RefreshRun:
        """Take one requester away; return the run that its work belongs to, which ends when nobody is left.

        Nothing changes if the requester, by its own count, has got past *attempt* meanwhile.
        """

        def work(tx: Transaction) -> RefreshRun:
            run = tx.runs.get(run_id)
            if run is None:
                raise OperationNotFound(f"Refresh {run_id} is not in the ledger.")
            if _host_of(tx, run).status in TERMINAL or _is_outdated(tx, run, attempt):
                return _host_of(tx, run)
            if not run.cancel_requested:
                tx.runs.replace(replace(run, cancel_requested=True), expected=run)
            host = _host_of(tx, run)
            if host.status is RunStatus.QUEUED and host.claim == 0 and _withdrawn(tx, host.run_id):
                ended = host.advance(RunStatus.CANCELED, finished_at=tx.now(), reason="cancelled by its requesters")
                tx.runs.replace(ended, expected=host)
                return ended
            return host

        return in_transaction(self.registry, work)

    # --------------------------------------------------------------------------------------------------------------- read

    def shown(self, run_id: str) -> RefreshRun | None:
        """Return a run as its requester sees it: a COALESCED one with the outcome of the run that covers it."""

        def work(tx: Transaction) -> RefreshRun | None:
            run = tx.runs.get(run_id)
            return self._shown(tx, run) if run else None

        return in_transaction(self.registry, work)

    def _shown(self, tx: Transaction, run: RefreshRun) -> RefreshRun:
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


def _request_text(run: RefreshRun) -> str:
    """What a requester asked for, which stays the same while runs grow by what they are coalesced with."""
    return f"{run.kind} {run.schedule_time.isoformat() if run.schedule_time else run.scope}"


def _refuse_other_request(table: MaterializedTable, run: RefreshRun, earlier: RefreshRun) -> None:
    if earlier.request not in (None, run.request):
        raise RequestKeyReused(
            f"Idempotency-Key '{run.request_key}' belongs to another refresh of {table.identifier}: it was sent with "
            f"{earlier.request}, now it is sent with {run.request}; send another key with another request."
        )


def _held(tx: Transaction, claimed: Claimed) -> RefreshRun | None:
    run = tx.runs.get(claimed.run.run_id)
    ours = run is not None and (run.status, run.attempt, run.claim) == (
        RunStatus.RUNNING,
        claimed.run.attempt,
        claimed.run.claim,
    )
    return run if ours else None


def _host_of(tx: Transaction, run: RefreshRun) -> RefreshRun:
    """Return the run that does the work of *run*: the one that covers it, else itself."""
    return tx.runs.get(run.covered_by or run.run_id) or run


def _attached(tx: Transaction, run: RefreshRun, attempt: int | None) -> RefreshRun:
    """Let one more attempt of its requester have *run*; the highest is remembered, so that late words of others are known."""
    if attempt is None or attempt <= (run.request_attempt or 0):
        return run
    known = replace(run, request_attempt=attempt)
    tx.runs.replace(known, expected=run)
    return known


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


def _requeue(tx: Transaction, run: RefreshRun, reason: str) -> None:
    queued = run.advance(
        RunStatus.QUEUED,
        attempt=run.attempt + 1,
        owner=None,
        lease_until=None,
        reason=f"attempt {run.attempt}: {reason}",
    )
    tx.runs.replace(queued, expected=run)
