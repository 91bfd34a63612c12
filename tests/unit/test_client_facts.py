"""The client of /freshtable/v1, over prepared answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mt_core.client.facts import (
    JobFacts,
    LastRefresh,
    RefreshFacts,
    TableFacts,
    Tables,
    read_jobs,
    read_refreshes,
    read_tables,
)
from mt_core.client.http import GatewayRefused
from tests.support.fake_facts import JOB, TABLE, FactsServer, failed, page_of, page_of_tables

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
REFRESH = {
    "id": "r1",
    "status": "SUCCEEDED",
    "partitions": "ds=2026-03-01",
    "schedule_time": "2026-03-01T12:00:00Z",
    "snapshot": "7",
    "error": None,
    "reason": "lake.shop.orders changed",
}


def test_tables_are_read_page_by_page_with_the_same_filters() -> None:
    late = {"state": "LATE", "late_by": 90.5, "fault": "query", "because": "It fails.", "last": failed("no")}
    pages = [page_of_tables([TABLE], "c1"), page_of_tables([{**TABLE, **late, "unheard of": 1}])]
    server = FactsServer({"/freshtable/v1/tables": pages})

    with server.client() as client:
        found = read_tables(client, states=("LATE", "OK"), inside="lake.shop")

    usual = TableFacts(
        table_id="t1",
        name="lake.shop.daily",
        table="daily",
        mode="FULL",
        freshness="1 day",
        state="OK",
        shows=datetime(2026, 3, 1, 11, tzinfo=UTC),
        late_at=datetime(2026, 3, 2, tzinfo=UTC),
        late_by=None,
        silent_by=None,
        fault=None,
        because="",
        doubt=None,
        last=None,
        status_by="anna",
        status_reason=None,
        suspended_by=None,
    )
    assert (found.as_of, found.total, found.tables[0]) == (NOON, 3, usual)
    assert (found.tables[1].state, found.tables[1].late_by) == ("LATE", timedelta(seconds=90.5))
    assert found.tables[1].last == LastRefresh(status="FAILED", error="no")
    assert server.asked == [
        "/freshtable/v1/tables?state=LATE%2COK&in=lake.shop&limit=500",
        "/freshtable/v1/tables?state=LATE%2COK&in=lake.shop&limit=500&after=c1",
    ]


def test_no_filter_means_all_tables() -> None:
    server = FactsServer({"/freshtable/v1/tables": [page_of_tables([])]})

    with server.client() as client:
        found = read_tables(client)

    assert found == Tables(as_of=NOON, read=3, total=3, tables=())
    assert server.asked == ["/freshtable/v1/tables?limit=500"]


def test_no_more_refreshes_are_read_than_asked_for() -> None:
    path = "/freshtable/v1/tables/t1/refreshes"
    server = FactsServer({path: [page_of("refreshes", [REFRESH, REFRESH], "c1")]})

    with server.client() as client:
        found = read_refreshes(client, "t1", 3)

    refresh = RefreshFacts(
        status="SUCCEEDED",
        partitions="ds=2026-03-01",
        schedule_time=NOON,
        snapshot="7",
        error=None,
        reason="lake.shop.orders changed",
    )
    assert found == [refresh] * 3
    assert server.asked == [f"{path}?limit=3", f"{path}?limit=3&after=c1"]


def test_a_table_and_a_refresh_that_cannot_be_read_have_the_reason() -> None:
    known = {"name": "lake.shop.daily", "table": "daily", "state": "FAILING", "because": "cannot be read: no"}
    server = FactsServer(
        {
            "/freshtable/v1/tables": [page_of_tables([{**dict.fromkeys(TABLE), **known}])],
            "/freshtable/v1/tables/t1/refreshes": [
                page_of("refreshes", [{**dict.fromkeys(REFRESH), "id": "r1", "error": "cannot be read: no"}])
            ],
        }
    )

    with server.client() as client:
        [table], [refresh] = read_tables(client).tables, read_refreshes(client, "t1", 10)

    assert (table.name, table.state, table.because) == ("lake.shop.daily", "FAILING", "cannot be read: no")
    assert (table.mode, table.status_by, table.last) == ("", "", None)
    assert (refresh.status, refresh.error) == ("", "cannot be read: no")


def test_jobs_are_read_with_their_ends() -> None:
    ended = {**JOB, "status": "FAILED", "error": "no", "finished_at": "2026-03-01T12:00:00Z"}
    server = FactsServer({"/freshtable/v1/jobs": [page_of("jobs", [JOB, ended])]})

    with server.client() as client:
        running, failed_one = read_jobs(client, ("FAILED", "SUSPENDED"))

    assert server.asked == ["/freshtable/v1/jobs?status=FAILED%2CSUSPENDED&limit=500"]
    assert (running.status, running.error, running.finished_at) == ("RUNNING", None, None)
    assert failed_one == JobFacts(
        job_id="ab",
        name="insert-x",
        kind="INSERT",
        status="FAILED",
        target="lake.shop.x",
        error="no",
        finished_at=NOON,
    )


def test_an_older_gateway_is_named_with_its_version_and_the_way_out() -> None:
    server = FactsServer({"/info": [{"productName": "Freshtable", "version": "0.1.0"}]})

    with server.client() as client, pytest.raises(GatewayRefused) as refused:
        read_tables(client)

    assert str(refused.value) == (
        "The gateway at http://gw has version 0.1.0, which is older than this program and has no "
        "/freshtable/v1/tables. Use the `freshtable` of that version, or upgrade the gateway."
    )
