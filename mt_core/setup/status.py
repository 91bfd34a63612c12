"""The status of gateways: which answer, which of their tables are late or fail,
and which of their jobs failed or wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from mt_core.base.identifiers import display_name, namespace_of, string_literal
from mt_core.base.plural import plural
from mt_core.client.extended import extended_rows
from mt_core.client.http import GatewayClient
from mt_core.client.info import READY, UNKNOWN, read_info
from mt_core.errors import GatewayError, MtError, OperationNotFound
from mt_core.model.job import REFUSED
from mt_core.setup.outcomes import outcomes

Row = Mapping[str, Any]
T = TypeVar("T")
Token = Callable[[str], str | None]

# What the gateway writes as `status by` when it suspends a table by itself;
# the name of a token has no spaces.
_BY_FAILURES = re.compile(r"\d+ failed .+ in a row")
# How it begins when the job that keeps the table is suspended, and the table with it.
_BY_JOB = "streaming job "
# Whose fault it can be that a table is late, as `late by` names it.
WRITER = "writer"
FAULTS = ("source", WRITER, "queue", "query", "schedule")
_IN_UTC = {"table.local-time-zone": "UTC"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTrouble:
    """A table that is LATE, whose refreshes are FAILING, that was SUSPENDED because they did,
    or of which partitions are DOUBTED; `trouble` says which, of a table that is late and in doubt both.

    `fault` says whose fault it is that it is late, one of FAULTS.
    """

    table: str
    trouble: str
    reason: str
    fault: str = ""

    def __str__(self) -> str:
        return f"table {self.table} is {self.trouble}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedJob:
    """A job that ended as FAILED, at a time in UTC."""

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
    """A job that is SUSPENDED because something that it needs is missing, such as its checkpoint;
    `reason` has the way out.
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
    """One gateway. `engine` is READY, or why Spark takes no work, `scheduler` READY,
    or why it begins no refreshes, or UNKNOWN; `error` says why the gateway does not answer, else it is ""."""

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
        """Return the status as people read it: the gateway, then a line for each trouble."""
        if self.error:
            return [f"{self.url}: {self.error}"]
        spark = "Spark is ready" if self.engine == READY else f"Spark takes no work: {self.engine}"
        failed, waiting = len(self.failed_jobs), len(self.waiting_jobs)
        counts = (
            f"{self.tables} {plural(self.tables, 'table')}, {len(self.troubles)} in trouble, {failed} failed "
            f"{plural(failed, 'job')}" + (f", {waiting} waiting {plural(waiting, 'job')}" if waiting else "")
        )
        first = f"{self.url}: version {self.version}, {spark}; {counts}"
        return [first, *(f"  {each}" for each in self._details())]

    def _details(self) -> list[str]:
        """Return a line for each trouble; what is not known of a scheduler is none."""
        ill = [] if self.scheduler in (READY, UNKNOWN) else [f"scheduler {self.scheduler}"]
        return [*ill, *map(str, self.troubles), *map(str, self.failed_jobs), *map(str, self.waiting_jobs)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """What counts as trouble: jobs that failed after `since`, and tables that are late by another fault
    than those `ignored`.
    """

    since: datetime
    ignored: frozenset[str] = frozenset()


def statuses(urls: Sequence[str], token: Token, measure: Measure, limit_s: float) -> list[GatewayStatus]:
    """Return the status of each gateway by *measure*; each has *limit_s* for its answers."""
    works = {url: partial(_status, url, token(url), measure, limit_s) for url in urls}
    return [
        found if isinstance(found, GatewayStatus) else GatewayStatus(url=url, error=_reason(found))
        for url, found in outcomes(works, limit_s).items()
    ]


def status_json(found: Sequence[GatewayStatus]) -> dict[str, Any]:
    """Return the form for monitoring, which has a version."""
    return {
        "version": 1,
        "healthy": all(each.is_well for each in found),
        "gateways": [{"healthy": each.is_well, **_plain(asdict(each))} for each in found],
    }


def table_trouble(row: Row, ignored: frozenset[str] = frozenset()) -> TableTrouble | None:
    """Return what is wrong with a table by its row of SHOW MATERIALIZED TABLES EXTENDED; None:
    nothing but an *ignored* fault.
    """
    name = _table_name(row)
    # An older gateway has no `late by`.
    health, late_by, error = row["health"] or "", row.get("late by"), row["last error"]
    if row["status"] == "SUSPENDED":
        by = row.get("status by") or ""
        return TableTrouble(table=name, trouble="SUSPENDED", reason=by) if _BY_FAILURES.match(by) else None
    why = error or "see SHOW REFRESHES"
    if health == "FAILING":
        return TableTrouble(table=name, trouble=health, reason=why)
    fault = late_by.rpartition("(")[2].rstrip(")") if late_by else ""
    late = ""
    if late_by and fault not in ignored:
        late = f"by {late_by}"
    elif "LATE" in health:
        late = "no refresh since the last schedule time but one"
    troubles = {"LATE": late, "DOUBTED": why if "DOUBTED" in health else ""}
    found = {trouble: reason for trouble, reason in troubles.items() if reason}
    if not found:
        return None
    return TableTrouble(
        table=name,
        trouble=", ".join(found),
        reason="; ".join(found.values()),
        fault=fault if late_by and late else "",
    )


def failed_job(row: Row, since: datetime) -> FailedJob | None:
    """Return a job that FAILED after *since*, by its row of SHOW JOBS in a session whose time zone is UTC."""
    if row["status"] != "FAILED" or row["end time"] is None:
        return None
    ended = datetime.fromisoformat(row["end time"]).replace(tzinfo=UTC)
    if ended < since:
        return None
    return FailedJob(job_id=row["job id"], name=row["job name"], kind=row["kind"], ended_at=ended)


def waiting_job(row: Row, suspended: Collection[str]) -> WaitingJob | None:
    """Return a job that waits for what is missing, by its row of DESCRIBE JOB;
    not one of a table that somebody *suspended*.
    """
    if row["status"] != "SUSPENDED" or not row["error"] or row["target"] in suspended:
        return None
    return WaitingJob(job_id=row["job id"], name=row["job name"], kind=row["kind"], reason=row["error"])


def since_of(now: datetime, length: timedelta) -> datetime:
    """Return the instant *length* before *now*; the first there is for a length of zero, which is for ever,
    or a longer one.
    """
    first = datetime.min.replace(tzinfo=UTC)
    return now - length if length and length <= now - first else first


def _status(url: str, token: str | None, measure: Measure, limit_s: float) -> GatewayStatus:
    info = read_info(url, token, limit_s)
    client = GatewayClient(url, token)
    try:
        client.open_session("freshtable status", _IN_UTC)
        tables = extended_rows(partial(_rows, client), "SHOW MATERIALIZED TABLES")
        jobs = _rows(client, "SHOW JOBS")
        failed = _present(failed_job(row, measure.since) for row in jobs)
        failed = tuple(job for job in failed if not _was_refused(client, job))
        suspended = {_table_name(row) for row in tables if _was_suspended(row)}
        described = [
            row for job in jobs if job["status"] == "SUSPENDED" for row in _described(client, job["job id"])
        ]
    finally:
        client.close()
    return GatewayStatus(
        url=url,
        version=info.version,
        engine=info.engine,
        scheduler=info.scheduler,
        tables=len(tables),
        troubles=_present(table_trouble(row, measure.ignored) for row in tables),
        failed_jobs=failed,
        waiting_jobs=_present(waiting_job(row, suspended) for row in described),
    )


def _was_refused(client: GatewayClient, job: FailedJob) -> bool:
    """Whether the statement of a job was refused, as one with a typing error is:
    nothing ran, and its user knows.
    """
    rows = _described(client, job.job_id)
    return not rows or any((row["error"] or "").startswith(REFUSED) for row in rows)


def _described(client: GatewayClient, job_id: str) -> list[Row]:
    """Return the rows of DESCRIBE JOB, none of a job that the gateway has forgotten since it listed it."""
    try:
        return _rows(client, f"DESCRIBE JOB {string_literal(job_id)}")
    except GatewayError as error:
        if error.code != OperationNotFound.code:
            raise
        return []


def _was_suspended(row: Row) -> bool:
    """Whether a table was suspended by other than its own job."""
    return row["status"] == "SUSPENDED" and not (row.get("status by") or "").startswith(_BY_JOB)


def _table_name(row: Row) -> str:
    """Return the full name of a table as the targets of jobs have it:
    in back quotes where they are needed.
    """
    return display_name((*namespace_of(row["namespace"] or ""), row["materialized table"]))


def _present(found: Iterable[T | None]) -> tuple[T, ...]:
    return tuple(each for each in found if each is not None)


def _rows(client: GatewayClient, statement: str) -> list[Row]:
    operation = client.execute(statement)
    rows: list[Row] = []
    for page in client.pages(operation):
        names = [column.name for column in page.columns]
        rows += [dict(zip(names, row, strict=True)) for row in page.rows]
    client.close_operation(operation)
    return rows


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
