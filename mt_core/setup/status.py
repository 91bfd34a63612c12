"""The status of gateways: which respond, which tables are late or failing, and which jobs failed or wait.

A monitor needs to know whether a gateway is healthy, and for each alarm a reason that names an object. The
status is derived only from what any client with the role *read* can read: GET /info, and the tables and jobs
under /freshtable/v1. It therefore works for remote gateways. Only tables and jobs that may be in trouble are
read, because a gateway may have thousands that are fine.

Only trouble that needs an operator is reported. A table that a user suspended is not in trouble, but a table
that failures suspended is. A job whose statement was rejected is not a failed job, because its user saw the
error. A table that is late because no one writes to its sources is ignored unless the caller asks for it.
Failed jobs count only for a limited time (`Measure.since`). Without a limit, a gateway with a failed job
would never become healthy again. Each gateway is asked in a separate thread with a time limit, so a gateway
that hangs does not hide the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from mt_core.base.ages import age_text
from mt_core.base.plural import plural
from mt_core.client.facts import JobFacts, TableFacts, Tables, read_jobs, read_tables
from mt_core.client.http import GatewayClient
from mt_core.client.info import READY, UNKNOWN, read_info
from mt_core.errors import MtError
from mt_core.model.job import REFUSED
from mt_core.setup.outcomes import outcomes

T = TypeVar("T")
Token = Callable[[str], str | None]

LATE, FAILING, DOUBTED, SUSPENDED = STATES = ("LATE", "FAILING", "DOUBTED", "SUSPENDED")
FAILED = "FAILED"
BY_FAILURES, BY_JOB = "failures", "job"
# The causes of lateness.
WRITER = "writer"
FAULTS = ("source", WRITER, "queue", "query", "schedule")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTrouble:
    """A table that is LATE or FAILING, was SUSPENDED after failures, or has DOUBTED partitions.

    `trouble` names one of these, or both LATE and DOUBTED. `fault` is the cause of lateness, one of FAULTS.
    `state`, `late_at` and `because` are those of the table.
    """

    table: str
    trouble: str
    reason: str
    fault: str = ""
    state: str = ""
    late_at: datetime | None = None
    because: str = ""

    def __str__(self) -> str:
        return f"table {self.table} is {self.trouble}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedJob:
    """A job that FAILED, with its end time in UTC."""

    job_id: str
    name: str
    kind: str
    ended_at: datetime

    def __str__(self) -> str:
        return (
            f"job {self.name} ({self.kind}) FAILED at {self.ended_at:%Y-%m-%d %H:%M:%S} UTC; "
            f"DESCRIBE JOB '{self.job_id}'"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """A job that is SUSPENDED because something is missing, such as its checkpoint.

    `reason` contains the remedy.
    """

    job_id: str
    name: str
    kind: str
    reason: str

    def __str__(self) -> str:
        return (
            f"job {self.name} ({self.kind}) is SUSPENDED: {self.reason.removesuffix('.')}; "
            f"DESCRIBE JOB '{self.job_id}'"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayStatus:
    """The status of one gateway.

    `engine` is READY or says why Spark does not accept work. `scheduler` is READY, UNKNOWN, or says why it
    starts no refreshes. `error` says why the gateway does not respond, or is empty.
    """

    url: str
    version: str = ""
    engine: str = ""
    scheduler: str = UNKNOWN
    error: str = ""
    tables: int = 0
    troubles: tuple[TableTrouble, ...] = ()
    failed_jobs: tuple[FailedJob, ...] = ()
    waiting_jobs: tuple[WaitingJob, ...] = ()

    @property
    def is_well(self) -> bool:
        return not self.error and self.engine == READY and not self._details()

    def lines(self) -> list[str]:
        """Return the status as lines of text: one for the gateway, then one for each trouble."""
        if self.error:
            return [f"{self.url}: {self.error}"]
        spark = "Spark is ready" if self.engine == READY else f"Spark does not accept work: {self.engine}"
        failed, waiting = len(self.failed_jobs), len(self.waiting_jobs)
        counts = (
            f"{self.tables} {plural(self.tables, 'table')}, {len(self.troubles)} in trouble, {failed} failed "
            f"{plural(failed, 'job')}" + (f", {waiting} waiting {plural(waiting, 'job')}" if waiting else "")
        )
        first = f"{self.url}: version {self.version}, {spark}; {counts}"
        return [first, *(f"  {each}" for each in self._details())]

    def _details(self) -> list[str]:
        """Return a line for each trouble. An UNKNOWN scheduler does not count as trouble."""
        ill = [] if self.scheduler in (READY, UNKNOWN) else [f"scheduler {self.scheduler}"]
        return [*ill, *map(str, self.troubles), *map(str, self.failed_jobs), *map(str, self.waiting_jobs)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The conditions that count as trouble.

    These are jobs that failed after `since`, and tables that are late for a fault that is not in `ignored`.
    """

    since: datetime
    ignored: frozenset[str] = frozenset()


def statuses(urls: Sequence[str], token: Token, measure: Measure, limit_s: float) -> list[GatewayStatus]:
    """Return the status of each gateway according to *measure*. Each has *limit_s* to respond."""
    works = {url: partial(_status, url, token(url), measure, limit_s) for url in urls}
    return [
        outcome if isinstance(outcome, GatewayStatus) else GatewayStatus(url=url, error=_reason(outcome))
        for url, outcome in outcomes(works, limit_s).items()
    ]


def status_json(gateways: Sequence[GatewayStatus]) -> dict[str, Any]:
    """Return the versioned JSON for monitoring."""
    return {
        "version": 1,
        "healthy": all(each.is_well for each in gateways),
        "gateways": [{"healthy": each.is_well, **_plain(asdict(each))} for each in gateways],
    }


def judge(status: GatewayStatus, found: Tables, jobs: Sequence[JobFacts], measure: Measure) -> GatewayStatus:
    """Return *status* with what is wrong with the tables and jobs, or with an error if not all are known."""
    if found.read < found.total:
        error = (
            f"The gateway has read {found.read} of {found.total} tables since it started; try again later."
        )
        return replace(status, error=error)
    suspended = {table.name for table in found.tables if table.suspended_by not in (None, BY_JOB)}
    waiting = {job: waits for job in jobs if (waits := waiting_job(job, suspended)) is not None}
    # The trouble of a table whose own job waits is that of the job.
    others = [table for table in found.tables if table.name not in {job.target for job in waiting}]
    return replace(
        status,
        tables=found.total,
        troubles=_present(table_trouble(table, measure.ignored) for table in others),
        failed_jobs=_present(failed_job(job, measure.since) for job in jobs),
        waiting_jobs=tuple(waiting.values()),
    )


def table_trouble(table: TableFacts, ignored: frozenset[str] = frozenset()) -> TableTrouble | None:
    """Return the trouble of a table, or None if it has none.

    Lateness for an *ignored* fault does not count. A failed refresh is named before the lateness that it
    causes.
    """
    trouble = partial(
        TableTrouble, table=table.name, state=table.state, late_at=table.late_at, because=table.because
    )
    if table.state == SUSPENDED:
        by = f"{table.status_by}: {table.status_reason}"
        return trouble(trouble=SUSPENDED, reason=by) if table.suspended_by == BY_FAILURES else None
    error = table.last.error if table.last is not None and table.last.status == FAILED else None
    if error is not None or table.state == FAILING:
        return trouble(trouble=FAILING, reason=error or table.because or "see SHOW REFRESHES")
    late_by, fault, reasons = table.overdue_by, table.fault or "", dict[str, str]()
    if late_by is not None and fault not in ignored:
        reasons[LATE] = f"by {age_text(late_by)} ({fault})"
    if table.doubt is not None and table.state in (LATE, DOUBTED):
        reasons[DOUBTED] = table.doubt
    if not reasons:
        return None
    return trouble(
        trouble=", ".join(reasons), reason="; ".join(reasons.values()), fault=fault if LATE in reasons else ""
    )


def failed_job(job: JobFacts, since: datetime) -> FailedJob | None:
    """Return *job* if it FAILED after *since*, or None.

    A job whose statement was rejected, as for a typing error, does not count: nothing ran, and the user saw
    the error.
    """
    ended, refused = job.finished_at, (job.error or "").startswith(REFUSED)
    if job.status != FAILED or ended is None or ended < since or refused:
        return None
    return FailedJob(job_id=job.job_id, name=job.name, kind=job.kind, ended_at=ended)


def waiting_job(job: JobFacts, suspended: Collection[str]) -> WaitingJob | None:
    """Return *job* if it waits for something missing, or None.

    Jobs of tables that a user *suspended* are not reported.
    """
    if job.status != SUSPENDED or not job.error or job.target in suspended:
        return None
    return WaitingJob(job_id=job.job_id, name=job.name, kind=job.kind, reason=job.error)


def since_of(now: datetime, length: timedelta) -> datetime:
    """Return the instant *length* before *now*, or the earliest instant if *length* is 0 (no limit).

    Also returns the earliest instant if the result would be before it.
    """
    first = datetime.min.replace(tzinfo=UTC)
    return now - length if length and length <= now - first else first


def _status(url: str, token: str | None, measure: Measure, limit_s: float) -> GatewayStatus:
    info = read_info(url, token, limit_s)
    with GatewayClient(url, token) as client:
        found, jobs = read_tables(client, states=STATES), read_jobs(client, (FAILED, SUSPENDED))
        if WRITER not in measure.ignored:
            # A table to whose sources no one writes may be in any state.
            silent = read_tables(client, faults=(WRITER,)).tables
            found = replace(found, tables=tuple({t.name: t for t in (*found.tables, *silent)}.values()))
    status = GatewayStatus(url=url, version=info.version, engine=info.engine, scheduler=info.scheduler)
    return judge(status, found, jobs, measure)


def _present(values: Iterable[T | None]) -> tuple[T, ...]:
    return tuple(each for each in values if each is not None)


def _reason(error: Exception) -> str:
    return error.message if isinstance(error, MtError) else str(error) or type(error).__name__


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(key): _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case datetime():
            return value.isoformat()
        case _:
            return value
