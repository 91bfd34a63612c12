"""The status of gateways: which answer, which of their tables are late or fail, and which of their jobs failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from mt_core.client.http import GatewayClient
from mt_core.client.info import READY, read_info
from mt_core.errors import MtError
from mt_core.identifiers import string_literal
from mt_core.model.job import REFUSED
from mt_core.setup.outcomes import outcomes

Row = Mapping[str, Any]
T = TypeVar("T")
Token = Callable[[str], str | None]

# What the gateway writes as `status by` when it suspends a table by itself; the name of a token has no spaces.
_BY_FAILURES = re.compile(r"\d+ failed .+ in a row")
# Whose fault it can be that a table is late, as `late by` names it.
WRITER = "writer"
FAULTS = ("source", WRITER, "queue", "query", "schedule")
_IN_UTC = {"table.local-time-zone": "UTC"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTrouble:
    """A table that is LATE, whose refreshes are FAILING, that was SUSPENDED because they did, or of which partitions are DOUBTED;
    `trouble` says which.

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
        return f"job {self.name} ({self.kind}) FAILED at {self.ended_at:%Y-%m-%d %H:%M:%S} UTC; DESCRIBE JOB '{self.job_id}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayStatus:
    """One gateway. `engine` is READY, or why Spark takes no work; `error` says why the gateway does not answer, else it is ""."""

    url: str
    version: str = ""
    engine: str = ""
    error: str = ""
    tables: int = 0
    troubles: tuple[TableTrouble, ...] = ()
    failed_jobs: tuple[FailedJob, ...] = ()

    @property
    def is_well(self) -> bool:
        return not self.error and self.engine == READY and not self.troubles and not self.failed_jobs

    def lines(self) -> list[str]:
        """Return the status as people read it: the gateway, then a line for each trouble."""
        if self.error:
            return [f"{self.url}: {self.error}"]
        spark = "Spark is ready" if self.engine == READY else f"Spark takes no work: {self.engine}"
        counts = f"{self.tables} tables, {len(self.troubles)} in trouble, {len(self.failed_jobs)} failed jobs"
        first = f"{self.url}: version {self.version}, {spark}; {counts}"
        return [first, *(f"  {each}" for each in (*self.troubles, *self.failed_jobs))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """What counts as trouble: jobs that failed after `since`, and tables that are late by another fault than those `ignored`."""

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
    """Return what is wrong with a table by its row of SHOW MATERIALIZED TABLES EXTENDED; None: nothing but an *ignored* fault."""
    name = ".".join(part for part in (row["namespace"], row["materialized table"]) if part)
    health, late_by, error = row["health"], row["late by"], row["last error"]
    if row["status"] == "SUSPENDED":
        by = row["status by"] or ""
        return TableTrouble(table=name, trouble="SUSPENDED", reason=by) if _BY_FAILURES.match(by) else None
    if health in ("FAILING", "DOUBTED"):
        return TableTrouble(table=name, trouble=health, reason=error or "see SHOW REFRESHES")
    fault = late_by.rpartition("(")[2].rstrip(")") if late_by else ""
    if late_by and fault not in ignored:
        return TableTrouble(table=name, trouble="LATE", reason=f"by {late_by}", fault=fault)
    if health == "LATE":
        return TableTrouble(table=name, trouble="LATE", reason="no refresh since the last schedule time but one")
    return None


def failed_job(row: Row, since: datetime) -> FailedJob | None:
    """Return a job that FAILED after *since*, by its row of SHOW JOBS in a session whose time zone is UTC."""
    if row["status"] != "FAILED" or row["end time"] is None:
        return None
    ended = datetime.fromisoformat(row["end time"]).replace(tzinfo=UTC)
    if ended < since:
        return None
    return FailedJob(job_id=row["job id"], name=row["job name"], kind=row["kind"], ended_at=ended)


def since_of(now: datetime, length: timedelta) -> datetime:
    """Return the instant *length* before *now*; the first there is for a length of zero, which is for ever, or a longer one."""
    first = datetime.min.replace(tzinfo=UTC)
    return now - length if length and length <= now - first else first


def _status(url: str, token: str | None, measure: Measure, limit_s: float) -> GatewayStatus:
    info = read_info(url, token, limit_s)
    client = GatewayClient(url, token)
    try:
        client.open_session("freshtable status", _IN_UTC)
        tables = _rows(client, "SHOW MATERIALIZED TABLES EXTENDED")
        jobs = _present(failed_job(row, measure.since) for row in _rows(client, "SHOW JOBS"))
        failed = tuple(job for job in jobs if not _was_refused(client, job))
    finally:
        client.close()
    return GatewayStatus(
        url=url,
        version=info.version,
        engine=info.engine,
        tables=len(tables),
        troubles=_present(table_trouble(row, measure.ignored) for row in tables),
        failed_jobs=failed,
    )


def _was_refused(client: GatewayClient, job: FailedJob) -> bool:
    """Whether the statement of a job was refused, as one with a typing error is: nothing ran, and its user knows."""
    try:
        rows = _rows(client, f"DESCRIBE JOB {string_literal(job.job_id)}")
    except MtError:
        # The gateway has forgotten it since.
        return True
    return any((row["error"] or "").startswith(REFUSED) for row in rows)


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
