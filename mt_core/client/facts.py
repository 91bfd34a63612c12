"""Facts about tables, refreshes and jobs, read from the gateway's JSON under /freshtable/v1.

Programs branch on these values; the texts of SHOW are for people. Each value has the members that this client
uses, and ignores the others, so that a gateway may add some.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from urllib.parse import quote

from mt_core.client.http import GatewayClient, GatewayRefused
from mt_core.errors import GatewayError

ROOT = "/freshtable/v1"
PAGE = 500
# The error code of a gateway that does not know a path.
_NO_SUCH_PATH = "NOT_FOUND"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRefresh:
    """The last refresh of a table that has ended."""

    status: str
    error: str | None

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> LastRefresh:
        return cls(status=body["status"], error=body["error"])


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """A materialized table; instants are UTC.

    `state` is its health in one word. The table shows its sources as they were at `shows`, None before the
    first refresh, and is late from `late_at` on; `late_by` is the time since then, None if it is not late.
    `silent_by` is the time since its sources had no commit for too long, None if they had. `fault` and
    `because` are the cause of either. `doubt` says which of its rows are in doubt. Of a table that the
    gateway cannot read, only its name, its state FAILING and the reason are known; other texts are "".
    """

    table_id: str
    name: str
    table: str
    mode: str
    freshness: str
    state: str
    shows: datetime | None
    late_at: datetime | None
    late_by: timedelta | None
    silent_by: timedelta | None
    fault: str | None
    because: str
    doubt: str | None
    last: LastRefresh | None
    status_by: str
    status_reason: str | None
    suspended_by: str | None

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> TableFacts:
        last = body["last"]
        return cls(
            table_id=body["id"] or "",
            name=body["name"],
            table=body["table"],
            mode=body["mode"] or "",
            freshness=body["freshness"] or "",
            state=body["state"],
            shows=_instant(body["shows"]),
            late_at=_instant(body["late_at"]),
            late_by=_duration(body["late_by"]),
            silent_by=_duration(body["silent_by"]),
            fault=body["fault"],
            because=body["because"],
            doubt=body["doubt"],
            last=None if last is None else LastRefresh.from_json(last),
            status_by=body["status_by"] or "",
            status_reason=body["status_reason"],
            suspended_by=body["suspended_by"],
        )

    @property
    def overdue_by(self) -> timedelta | None:
        """How long the table has been late, or else its sources have had no commit; None if neither holds."""
        return self.silent_by if self.late_by is None else self.late_by


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Tables as they were at `as_of`, by name.

    `total` is the number of all tables, of which the gateway has read `read` since it started.
    """

    as_of: datetime
    read: int
    total: int
    tables: tuple[TableFacts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshFacts:
    """A refresh of a table; `schedule_time` is None if its schedule did not request it.

    Of a refresh that the gateway cannot read, only the error is known; other texts are "".
    """

    status: str
    partitions: str
    schedule_time: datetime | None
    snapshot: str | None
    error: str | None
    reason: str | None

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> RefreshFacts:
        return cls(
            status=body["status"] or "",
            partitions=body["partitions"] or "",
            schedule_time=_instant(body["schedule_time"]),
            snapshot=body["snapshot"],
            error=body["error"],
            reason=body["reason"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """A job; `target` is the table that it writes, `finished_at` is None until it ends."""

    job_id: str
    name: str
    kind: str
    status: str
    target: str | None
    error: str | None
    finished_at: datetime | None

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> JobFacts:
        return cls(
            job_id=body["id"],
            name=body["name"],
            kind=body["kind"],
            status=body["status"],
            target=body["target"],
            error=body["error"],
            finished_at=_instant(body["finished_at"]),
        )


def read_tables(
    client: GatewayClient, *, states: Sequence[str] = (), faults: Sequence[str] = (), inside: str = ""
) -> Tables:
    """Return the tables with one of *states* and *faults* in the namespace *inside*; empty means any.

    Raises GatewayRefused if the gateway is too old to have these facts.
    """
    filters = {"state": ",".join(states), "fault": ",".join(faults), "in": inside}
    pages = list(_pages(client, "/tables", {name: text for name, text in filters.items() if text}))
    newest = pages[-1]
    return Tables(
        as_of=datetime.fromisoformat(newest["as_of"]),
        read=newest["read"],
        total=newest["total"],
        tables=tuple(TableFacts.from_json(each) for page in pages for each in page["tables"]),
    )


def read_refreshes(client: GatewayClient, table_id: str, limit: int) -> list[RefreshFacts]:
    """Return up to *limit* refreshes of a table, newest first. Raises GatewayRefused like `read_tables`."""
    pages = _pages(client, f"/tables/{quote(table_id, safe='')}/refreshes", {}, min(limit, PAGE))
    refreshes = (RefreshFacts.from_json(each) for page in pages for each in page["refreshes"])
    return list(islice(refreshes, limit))


def read_jobs(client: GatewayClient, statuses: Sequence[str]) -> list[JobFacts]:
    """Return the jobs with *statuses*, newest first. Raises GatewayRefused like `read_tables`."""
    pages = _pages(client, "/jobs", {"status": ",".join(statuses)})
    return [JobFacts.from_json(each) for page in pages for each in page["jobs"]]


def _pages(
    client: GatewayClient, path: str, filters: Mapping[str, str], limit: int = PAGE
) -> Iterator[Mapping[str, Any]]:
    parameters = {**filters, "limit": str(limit)}
    while True:
        page = _get(client, path, parameters)
        yield page
        if page["next"] is None:
            return
        parameters["after"] = page["next"]


def _get(client: GatewayClient, path: str, parameters: Mapping[str, str]) -> Mapping[str, Any]:
    try:
        return client.get(ROOT + path, parameters)
    except GatewayError as error:
        if error.code != _NO_SUCH_PATH:
            raise
        version = client.get("/info").get("version", "")
        raise GatewayRefused(
            f"The gateway at {client.url} has version {version}, which is older than this program and has no "
            f"{ROOT}{path}. Use the `freshtable` of that version, or upgrade the gateway."
        ) from error


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=float(seconds))
