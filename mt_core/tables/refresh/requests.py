"""Refresh requests: manual refreshes, the refresh endpoint, and waiting for and cancelling runs.

A request becomes a run of the ledger in one transaction, which checks the table and records the run. So a
request is either refused or survives a crash. The ledger decides whether the run is queued, coalesced into a
waiting run, or attached to the earlier run with its request key. In each case the requester uses the id of
its own run, and `Ledger.shown` returns the outcome of the run that does the work.

Requesters never interrupt a running attempt: they set flags in the ledger, which the attempt reads between
its steps. Only the Spark jobs of a run are cancelled directly, so that a long query ends soon. Periodic
requests for a table that is being resumed wait briefly: its status is still SUSPENDED, and a request that was
skipped for that reason would be lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial

from mt_core.errors import (
    EngineUnavailable,
    OperationNotFound,
    RequestInvalid,
    SqlSyntaxError,
    TableBusy,
    TableGone,
    TableInitializing,
)
from mt_core.model.formatter import parse_schedule_time
from mt_core.model.partition import WHOLE, PartitionSpec, PartitionValues, Scope
from mt_core.model.progress import Progress
from mt_core.model.run import OPEN, TERMINAL, RefreshRun, RunKind, RunStatus
from mt_core.model.table import MaterializedTable, RefreshStatus, TableIdentifier
from mt_core.sql.parser import parse_name
from mt_core.sql.statements import qualify
from mt_core.tables.definition.options import acting, check_dynamic_options, check_execution_config
from mt_core.tables.definition.partitioning import check_partition_spec
from mt_core.tables.intents import get_table
from mt_core.tables.refresh.named_partitions import scope_named
from mt_core.tables.refresh.streaming_only import refuse_refresh
from mt_core.tables.registry import Transaction, in_transaction, transactional
from mt_core.tables.runs.due import has_come, scope_of
from mt_core.tables.services import TableServices
from mt_core.tables.table_commands import RefreshRequest
from mt_core.tables.views.continuous_job import ContinuousJob
from mt_core.tables.views.run_view import RunView

log = logging.getLogger(__name__)
# The number of newest runs that are searched for a job id.
REMEMBERED_JOBS = 1000
# How long to wait for the last batch of a continuous run after its table was suspended, in seconds.
LAST_BATCH_S = 600.0


class RefreshRequests:
    """Implements `Runs`. Thread-safe.

    *suspend* suspends a table; its second argument is recorded as the author of the change.
    """

    def __init__(self, services: TableServices, *, suspend: Callable[[TableIdentifier, str], object]) -> None:
        self._services, self.registry, self._suspend = services, services.registry, suspend

    def request_refresh(self, request: RefreshRequest) -> RefreshRun:
        """Accept a request to the refresh endpoint (FLIP-448).

        A periodic request that arrives while the table is being resumed waits for the end of the RESUME.
        Raises TableInitializing if that takes too long.
        """
        services, identifier = self._services, identifier_of(request.identifier_text)

        def accept(tx: Transaction) -> RefreshRun | None:
            table = _addressee(tx, identifier, request)
            resumes = table.intent is not None and table.intent.command == "RESUME"
            if request.is_periodic and table.status is RefreshStatus.SUSPENDED and resumes:
                return None
            run = self._run_of(table, request, tx.now())
            return services.ledger.request_in(tx, table, run)

        # The scheduler's catch-up request can arrive before its RESUME commits. If it were skipped because
        # the table is suspended, it would be lost.
        run = services.signal.until(
            partial(in_transaction, services.registry, accept), services.settings.intent_wait_s
        )
        if run is None:
            raise TableInitializing(
                f"Materialized table {identifier} is being resumed; try again soon.", table=str(identifier)
            )
        _log_request(identifier, run)
        services.signal.set()
        return run

    def request_manual(
        self,
        identifier: TableIdentifier,
        partitions: Mapping[str, PartitionValues],
        options: Mapping[str, str],
        *,
        requested_by: str | None = None,
    ) -> RefreshRun:
        """Queue the run of ALTER MATERIALIZED TABLE … REFRESH.

        Raises TableInitializing, and Unsupported for a table that a streaming job maintains.
        """
        seen = self._services.intents.current(identifier)
        refuse_initializing(seen)
        refuse_refresh(seen, "REFRESH")
        scope = scope_named(self._services, seen, partitions)

        def work(tx: Transaction) -> RefreshRun:
            table = get_table(tx, identifier)
            refuse_initializing(table)
            run = self._services.new_run(
                table, RunKind.MANUAL, tx.now(), scope=scope, requested_by=requested_by
            )
            return self._services.ledger.request_in(tx, table, replace(run, options=options))

        run = in_transaction(self._services.registry, work)
        _log_request(identifier, run)
        self._services.signal.set()
        return run

    def _run_of(self, table: MaterializedTable, request: RefreshRequest, now: datetime) -> RefreshRun:
        if not request.is_periodic:
            if request.schedule_time:
                raise RequestInvalid(
                    f"scheduleTime goes with isPeriodic = true; a manual refresh of {table.identifier} "
                    "takes its partition from staticPartitions, or the whole table."
                )
            spec = check_partition_spec(table.identifier, table.definition, request.static_partitions)
            scope = Scope.of([PartitionSpec.of(spec)]) if spec else WHOLE
            run = self._services.new_run(
                table, RunKind.MANUAL, now, scope=scope, requested_by=request.requested_by
            )
            return replace(
                run,
                options=_options_of(table, request),
                request_key=request.request_key,
                request_attempt=request.attempt,
                trigger=request.trigger,
            )
        if request.static_partitions:
            raise RequestInvalid(
                "staticPartitions go with isPeriodic = false; "
                f"a periodic refresh of {table.identifier} takes its partitions from scheduleTime."
            )
        if not request.schedule_time:
            raise RequestInvalid(
                f"scheduleTime is missing: a periodic refresh of {table.identifier} needs it as "
                "'yyyy-MM-dd HH:mm:ss'."
            )
        point = parse_schedule_time(request.schedule_time, table.definition.zone)
        kind = RunKind.MANUAL if request.force else RunKind.PERIODIC
        scope = scope_of(table, [point])
        return replace(
            self._services.new_run(table, kind, now, scope=scope, requested_by=request.requested_by),
            # A run for a future schedule time covers nothing.
            points=(point,) if has_come(point, now) else (),
            schedule_time=point,
            request_key=request.request_key,
            request_attempt=request.attempt,
            trigger=request.trigger,
            options=_options_of(table, request),
        )

    def run(self, run_id: str) -> RefreshRun | None:
        return self._services.ledger.shown(run_id)

    def wait_run(self, run_id: str, timeout_s: float) -> RefreshRun:
        self._services.signal.wait(lambda: self._recorded(run_id).status in TERMINAL, timeout_s)
        return self._recorded(run_id)

    def _recorded(self, run_id: str) -> RefreshRun:
        run = self.run(run_id)
        if run is None:
            raise OperationNotFound(f"Refresh {run_id} is not in the ledger.")
        return run

    def cancel_run(self, run_id: str, attempt: int | None = None) -> RefreshRun:
        host = self._services.ledger.cancel(run_id, attempt)
        if host.status is RunStatus.RUNNING and host.job_id and self._services.ledger.withdrawn(host.run_id):
            # If the engine was lost, it has no job to cancel, and the next claim ends the run.
            with suppress(EngineUnavailable):
                self._services.engine.jobs.cancel(host.job_id)
        self._services.signal.set()
        return self._services.ledger.shown(run_id) or host

    def progress(self, run_id: str) -> Progress | None:
        run = self._services.ledger.seen(run_id)
        if run is None or run.status is not RunStatus.RUNNING or run.job_id is None:
            return None
        return self._services.engine.jobs.progress(run.job_id)

    @transactional
    def running_jobs(self, tx: Transaction) -> Sequence[RunView]:
        running = reversed(tx.runs.newest(statuses=(RunStatus.RUNNING,)))
        jobs = (run for run in running if run.job_id is not None and run.kind is not RunKind.CONTINUOUS)
        return [RunView.of(run, tx.tables.get(run.table_id)) for run in jobs]

    @transactional
    def continuous_jobs(self, tx: Transaction) -> Sequence[ContinuousJob]:
        return [job for table in tx.tables.continuous() if (job := ContinuousJob.of(table)) is not None]

    def stop_continuous(self, job: ContinuousJob) -> None:
        self._suspend(job.table, "STOP JOB")

    def last_version(self, job: ContinuousJob, timeout_s: float = LAST_BATCH_S) -> str:
        """Wait until the last batch of a stopped *job* has ended and return the last published snapshot.

        Raises TableBusy if the batch is still running after *timeout_s* seconds.
        """

        def ended(tx: Transaction) -> bool:
            table = get_table(tx, job.table)
            kinds = (RunKind.CONTINUOUS,)
            return not tx.runs.newest(table_id=table.table_id, statuses=OPEN, kinds=kinds, limit=1)

        if not self._services.signal.wait(lambda: in_transaction(self.registry, ended), timeout_s):
            raise TableBusy(
                f"Materialized table {job.table} is SUSPENDED, but its last batch is still running; "
                f"SHOW REFRESHES FOR {job.table} shows its snapshot once it has ended.",
                table=str(job.table),
            )
        return str(self._services.engine.metadata.load(job.table).main)

    @transactional
    def job(self, tx: Transaction, job_id: str) -> RunView | None:
        # Open runs are read separately, because they can be older than the newest REMEMBERED_JOBS runs.
        for statuses, limit in ((OPEN, None), (None, REMEMBERED_JOBS)):
            for run in tx.runs.newest(statuses=statuses, limit=limit):
                if run.job_id == job_id:
                    return RunView.of(run, tx.tables.get(run.table_id))
        return None


def _log_request(identifier: TableIdentifier, run: RefreshRun) -> None:
    # One run may do the work of several requests, so the log's other lines about it are of no request.
    facts = {"action": "refresh_requested", "table": str(identifier), "run": run.run_id}
    if run.covered_by is not None:
        facts["covered_by"] = run.covered_by
    log.info("refresh of %s requested", identifier, extra=facts)


def identifier_of(text: str) -> TableIdentifier:
    """Parse the table name in a refresh path: catalog.database.table, quoted or not.

    Raises RequestInvalid for any other string.
    """
    try:
        parts = parse_name(text)
    except SqlSyntaxError as cause:
        raise RequestInvalid(f"'{text}' is not a table name: {cause}") from cause
    if len(parts) < 3:
        raise RequestInvalid(
            f"'{text}' is not a full name; the refresh path needs catalog.database.table, "
            "such as lake.sales.daily."
        )
    return qualify(parts, parts[0], parts[1:-1])


def _addressee(tx: Transaction, identifier: TableIdentifier, request: RefreshRequest) -> MaterializedTable:
    if request.table_id and tx.tables.named(identifier) is None:
        raise TableGone(
            f"Materialized table {identifier} ({request.table_id}) was dropped.", table=str(identifier)
        )
    table = get_table(tx, identifier)
    if request.table_id and request.table_id != table.table_id:
        raise TableGone(
            f"{table.identifier} was dropped and recreated: its id is now {table.table_id}, "
            f"but the request is for {request.table_id}.",
            table=str(table.identifier),
        )
    refuse_initializing(table)
    refuse_refresh(table, "A refresh")
    return table


def refuse_initializing(table: MaterializedTable) -> None:
    """Raise TableInitializing if the table's CREATE is still in progress."""
    if table.status is RefreshStatus.INITIALIZING:
        raise TableInitializing(
            f"Materialized table {table.identifier} is being created (since {table.created_at:%H:%M:%S}); "
            "try again soon.",
            table=str(table.identifier),
        )


def _options_of(table: MaterializedTable, request: RefreshRequest) -> dict[str, str]:
    """Return the options and settings that a request adds to those of the table.

    Raises RequestInvalid for an option that refreshes do not accept.
    """
    sent = request.dynamic_options
    # A workflow also sends the table's own options, which were checked when they were set.
    added = {key: value for key, value in sent.items() if table.dynamic_options.get(key) != value}
    check_dynamic_options(added, f"dynamicOptions of a refresh of {table.identifier}")
    check_execution_config(request.execution_config, f"executionConfig of a refresh of {table.identifier}")
    return {**acting(added), **acting(request.execution_config)}
