"""Cancel a refresh or a job."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mt_core.base.identifiers import string_literal
from mt_core.base.plural import plural
from mt_core.errors import IllegalStatus, OperationNotFound
from mt_core.gateway.page.actions.forms import ActionForm, Done, Outcome
from mt_core.gateway.page.actions.statements import run_statement
from mt_core.gateway.page.actions.table_actions import TableAction
from mt_core.gateway.page.visitor import Visitor
from mt_core.gateway.services import GatewayServices
from mt_core.model.job import OPEN as OPEN_JOBS
from mt_core.model.job import Job
from mt_core.model.run import OPEN as OPEN_RUNS
from mt_core.model.run import RefreshRun, RunKind, RunStatus

log = logging.getLogger(__name__)
JOBS = "/jobs"
# More statements cannot run at a time.
_MOST_OPEN = 1000
_UNREADABLE = "a table that cannot be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refresh:
    """A run of the ledger, its table's name (None if it was dropped), and the requests that it covers.

    The name of a table that cannot be read says so.
    """

    run: RefreshRun
    table: str | None
    covered: Sequence[RefreshRun]

    @property
    def is_open(self) -> bool:
        return self.run.status in OPEN_RUNS or self.run.status is RunStatus.COALESCED

    @property
    def back(self) -> Outcome:
        """The page of the refresh, or that of all jobs if its table was dropped."""
        if self.table is None:
            return Outcome(path=JOBS)
        return Outcome(path=f"/tables/{self.run.table_id}", query={"run": self.run.run_id})


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRefresh:
    """Cancels a refresh for all who requested it.

    A continuous refresh would begin again, so its table is suspended instead.
    """

    services: GatewayServices

    def form(self, run_id: str, sent: Mapping[str, str]) -> ActionForm | Outcome:
        refresh = self._refresh(run_id)
        run, others = refresh.run, len(refresh.covered)
        if run.kind is RunKind.CONTINUOUS and refresh.is_open:
            return Outcome(path=f"/tables/{run.table_id}/{TableAction.SUSPEND}")
        effects = [
            "What it has computed is discarded: the table keeps its present rows."
            if run.status is RunStatus.RUNNING
            else "The refresh does not begin."
        ]
        if run.kind is RunKind.PERIODIC:
            effects.append("The next refresh makes up for the schedule time.")
        if run.status is RunStatus.COALESCED:
            effects = [
                "Another refresh does the work of this request. Only this request is withdrawn: the other "
                "refresh continues if someone else has requested it."
            ]
        if others:
            effects.append(
                f"{others} more {plural(others, 'request waits', 'requests wait')} for this refresh and "
                f"{plural(others, 'is', 'are')} cancelled with it."
            )
        return ActionForm(
            title="Cancel the refresh",
            subject=refresh.table or "a dropped table",
            path=f"/runs/{run_id}/cancel",
            back=refresh.back.path,
            button="Cancel the refresh",
            effects=tuple(effects),
            is_dangerous=True,
            refusal="" if refresh.is_open else _ended(refresh.run),
        )

    def perform(self, run_id: str, sent: Mapping[str, str], visitor: Visitor) -> Outcome:
        refresh = self._refresh(run_id)
        if not refresh.is_open:
            raise IllegalStatus(_ended(refresh.run))
        for run in (refresh.run, *refresh.covered):
            self.services.runs.cancel_run(run.run_id)
        facts = {"action": "refresh_canceled", "by": visitor.name, "refresh": run_id}
        log.info("refresh cancelled by a visitor of the page", extra=facts)
        after = self.services.runs.run(run_id)
        has_ended = after is None or after.status not in OPEN_RUNS
        done = Done.CANCELED if has_ended else Done.CANCELING
        return Outcome.of(refresh.back.path, done, **refresh.back.query)

    def _refresh(self, run_id: str) -> _Refresh:
        with self.services.facts.reading() as tx:
            run = tx.runs.get(run_id)
            if run is None:
                raise OperationNotFound(f"There is no refresh {run_id}; the ledger may have deleted it.")
            covered = [each for each in tx.runs.covered_by(run_id) if not each.cancel_requested]
            with tx.past_unreadable() as unreadable:
                table = tx.tables.get(run.table_id)
        name = _UNREADABLE if unreadable else None
        return _Refresh(run=run, table=name if table is None else str(table.identifier), covered=covered)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelJob:
    """Stops the job of a statement, or a streaming job, with STOP JOB.

    A job that maintains a materialized table is stopped by suspending the table.
    """

    services: GatewayServices

    def form(self, job_id: str, sent: Mapping[str, str]) -> ActionForm | Outcome:
        job = self._job(job_id)
        if job.definition is not None and job.definition.keeps is not None:
            return Outcome(path=f"/tables/{job.definition.keeps}/{TableAction.SUSPEND}")
        effects = ["What it has not committed is lost. It cannot be continued."]
        if job.definition is not None:
            effects = [
                "The stream stops, and its position in the sources is lost. "
                "To keep the position, use STOP JOB … WITH SAVEPOINT instead."
            ]
        return ActionForm(
            title="Cancel the job",
            subject=job.name,
            path=f"/jobs/{job.job_id}/cancel",
            back=JOBS,
            button="Cancel the job",
            effects=tuple(effects),
            is_dangerous=True,
            refusal=""
            if job.status in OPEN_JOBS
            else f"The job is {job.status} and can no longer be cancelled.",
        )

    def perform(self, job_id: str, sent: Mapping[str, str], visitor: Visitor) -> Outcome:
        job = self._job(job_id)
        statement = f"STOP JOB {string_literal(job.job_id)}"
        has_ended = run_statement(self.services, statement, visitor)
        return Outcome.of(JOBS, Done.CANCELED if has_ended else Done.CANCELING)

    def _job(self, job_id: str) -> Job:
        with self.services.facts.reading() as tx:
            stored = tx.jobs.get(job_id)
            if stored is not None:
                return stored
            running = self.services.jobs.page(tx, before=None, limit=_MOST_OPEN, statuses=OPEN_JOBS)
        job = next((each for each in running if each.job_id == job_id), None)
        if job is None:
            raise OperationNotFound(f"There is no open job {job_id}; it may have ended.")
        return job


def _ended(run: RefreshRun) -> str:
    return f"The refresh is {run.status} and can no longer be cancelled."
