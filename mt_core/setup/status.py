"""The status of gateways: which respond, which tables are late or failing, and which jobs failed or wait.

A monitor needs to know whether a gateway is healthy, and for each alarm a reason that names an object. The
status is derived only from what any client can read (GET /info, SHOW MATERIALIZED TABLES EXTENDED, SHOW JOBS,
DESCRIBE JOB). It therefore works for remote gateways, and for older ones, whose missing columns count as
unknown.

Only trouble that needs an operator is reported. A table that a user suspended is not in trouble, but a table
that failures suspended is. A job whose statement was rejected is not a failed job, because its user saw the
error. A table that is late because no one writes to its sources is ignored unless the caller asks for it.
Failed jobs count only for a limited time (`Measure.since`). Without a limit, a gateway with a failed job
would never become healthy again. Each gateway is asked in a separate thread with a time limit, so a gateway
that hangs does not hide the others.
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

# The `status by` of a table that the gateway itself suspended. It differs from every token name, because
# these have no spaces.
_BY_FAILURES = re.compile(r"\d+ failed .+ in a row")
# The start of `status by` if the job that maintains the table was suspended.
_BY_JOB = "streaming job "
# The causes of lateness, as named in `late by`.
WRITER = "writer"
FAULTS = ("source", WRITER, "queue", "query", "schedule")
_IN_UTC = {"table.local-time-zone": "UTC"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTrouble:
    """A table that is LATE or FAILING, was SUSPENDED after failures, or has DOUBTED partitions.

    `trouble` names one of these, or both LATE and DOUBTED. `fault` is the cause of lateness, one of FAULTS.
    """

    table: str
    trouble: str
    reason: str
    fault: str = ""

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


def table_trouble(row: Row, ignored: frozenset[str] = frozenset()) -> TableTrouble | None:
    """Return the trouble of a table, given its row of SHOW MATERIALIZED TABLES EXTENDED.

    Return None if the table has no trouble, or is only late for an *ignored* fault.
    """
    name = _table_name(row)
    # Older gateways do not return `late by`.
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
        late = "no refresh since the second-to-last schedule time"
    troubles = {"LATE": late, "DOUBTED": why if "DOUBTED" in health else ""}
    reasons = {trouble: reason for trouble, reason in troubles.items() if reason}
    if not reasons:
        return None
    return TableTrouble(
        table=name,
        trouble=", ".join(reasons),
        reason="; ".join(reasons.values()),
        fault=fault if late_by and late else "",
    )


def failed_job(row: Row, since: datetime) -> FailedJob | None:
    """Return the job in *row* if it FAILED after *since*, or None.

    *row* is from SHOW JOBS in a session in UTC.
    """
    if row["status"] != "FAILED" or row["end time"] is None:
        return None
    ended = datetime.fromisoformat(row["end time"]).replace(tzinfo=UTC)
    if ended < since:
        return None
    return FailedJob(job_id=row["job id"], name=row["job name"], kind=row["kind"], ended_at=ended)


def waiting_job(row: Row, suspended: Collection[str]) -> WaitingJob | None:
    """Return the job in *row* if it waits for something missing, or None. *row* is from DESCRIBE JOB.

    Jobs of tables that a user *suspended* are not reported.
    """
    if row["status"] != "SUSPENDED" or not row["error"] or row["target"] in suspended:
        return None
    return WaitingJob(job_id=row["job id"], name=row["job name"], kind=row["kind"], reason=row["error"])


def since_of(now: datetime, length: timedelta) -> datetime:
    """Return the instant *length* before *now*, or the earliest instant if *length* is 0 (no limit).

    Also returns the earliest instant if the result would be before it.
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
    """Return whether the statement of a job was rejected, as for a typing error.

    In this case nothing ran, and the user saw the error.
    """
    rows = _described(client, job.job_id)
    return not rows or any((row["error"] or "").startswith(REFUSED) for row in rows)


def _described(client: GatewayClient, job_id: str) -> list[Row]:
    """Return the rows of DESCRIBE JOB, or none if the gateway has deleted the job since."""
    try:
        return _rows(client, f"DESCRIBE JOB {string_literal(job_id)}")
    except GatewayError as error:
        if error.code != OperationNotFound.code:
            raise
        return []


def _was_suspended(row: Row) -> bool:
    """Return whether a table was suspended by anything other than its own job."""
    return row["status"] == "SUSPENDED" and not (row.get("status by") or "").startswith(_BY_JOB)


def _table_name(row: Row) -> str:
    """Return the full name of a table, in backquotes where needed, as in the targets of jobs."""
    return display_name((*namespace_of(row["namespace"] or ""), row["materialized table"]))


def _present(values: Iterable[T | None]) -> tuple[T, ...]:
    return tuple(each for each in values if each is not None)


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
