from __future__ import annotations

import threading
from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.dialects import registry

from mt_core.base.rowset import INT, STRING, Column, LogicalType, RowSet
from mt_core.client import dbapi
from mt_core.errors import EngineUnavailable, QueryFailed
from mt_core.sessions.ports import StatementResult
from tests.support.gateway.statements import Gateway

LOCAL = LogicalType(root="TIMESTAMP_WITH_LOCAL_TIME_ZONE", extras={"precision": 6})
PRICE = LogicalType(root="DECIMAL", nullable=False, extras={"precision": 38, "scale": 3})
TOKYO = ZoneInfo("Asia/Tokyo")


def url_of(gateway: Gateway) -> str:
    return str(gateway.http.base_url)


def answer(rows: list[list[object]], **columns: LogicalType) -> StatementResult:
    shown = tuple(Column(name=name, type=kind) for name, kind in columns.items())
    return StatementResult(is_query=True, rows=RowSet(columns=shown, rows=rows))


def test_a_program_reads_rows_of_several_pages_with_their_types(gateway: Gateway) -> None:
    count = 12_000
    rows: list[list[object]] = [[number, Decimal(number) / 8] for number in range(count)]
    gateway.engine.answers["SELECT id, price FROM t WHERE name = 'it\\'s'"] = answer(
        rows, id=INT, price=PRICE
    )

    with dbapi.connect(url_of(gateway)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, price FROM t WHERE name = ?", ["it's"])
        found = cursor.fetchmany(3), cursor.fetchall()
    [*_, last] = found[1]

    assert found[0] == [(0, Decimal("0.000")), (1, Decimal("0.125")), (2, Decimal("0.250"))]
    assert (len(found[1]), last) == (count - 3, (count - 1, Decimal("1499.875")))
    assert gateway.http.get(f"/v3/sessions/{'0' * 8}-0000-0000-0000-{'0' * 12}").status_code >= 400
    assert gateway.engine.closed_sessions != []


def test_local_timestamps_are_those_of_the_sessions_zone_as_it_is_then(gateway: Gateway) -> None:
    gateway.engine.answers["SELECT now"] = answer([["2024-07-01T21:00:00Z"]], now=LOCAL)

    with dbapi.connect(url_of(gateway), properties={"table.local-time-zone": "Europe/Berlin"}) as connection:
        cursor = connection.cursor()
        berlin = cursor.execute("SELECT now").fetchone()
        cursor.execute("SET 'table.local-time-zone' = 'Asia/Tokyo'")
        tokyo = cursor.execute("SELECT now").fetchone()

    assert berlin == (datetime(2024, 7, 1, 21, tzinfo=ZoneInfo("Europe/Berlin")),)
    assert tokyo == (datetime(2024, 7, 1, 21, tzinfo=TOKYO),)
    assert str(tokyo[0].tzinfo) == "Asia/Tokyo"


def test_rowcount_is_what_an_insert_has_written_and_unknown_for_what_is_not_counted(gateway: Gateway) -> None:
    gateway.engine.answers["INSERT INTO t SELECT 1"] = StatementResult(
        is_query=False, rows=None, affected_rows=7
    )
    gateway.engine.answers["DELETE FROM t"] = StatementResult(is_query=False, rows=None)
    gateway.engine.answers["SELECT 1"] = answer([[1]], a=INT)

    with dbapi.connect(url_of(gateway)) as connection, connection.cursor() as cursor:
        counts = [
            cursor.rowcount,
            *(
                cursor.execute(sql).rowcount
                for sql in ("INSERT INTO t SELECT 1", "DELETE FROM t", "SELECT 1")
            ),
        ]
        many = cursor.executemany("INSERT INTO t SELECT 1", [(), ()]).rowcount
        with pytest.raises(dbapi.Error):
            cursor.execute("INSERT INTO")

    assert (counts, many, cursor.rowcount) == ([-1, 7, -1, -1], 14, -1)


@pytest.mark.parametrize(("version", "told"), [("v2", None), ("v3", "7"), ("v4", "7")])
def test_affected_rows_are_in_a_header_since_flinks_clients_refuse_unknown_members(
    gateway: Gateway, version: str, told: str | None
) -> None:
    insert = "INSERT INTO t SELECT 1"
    gateway.engine.answers[insert] = StatementResult(is_query=False, rows=None, affected_rows=7)
    operation = gateway.begin(gateway.open(), insert)

    page = gateway.result(operation.replace("v3", version))

    assert page.headers.get("freshtable-affected-rows") == told
    assert page.json().keys() == {
        "resultType",
        "isQueryResult",
        "jobID",
        "resultKind",
        "results",
        "nextResultUri",
    }


def test_affected_rows_are_in_the_header_of_arrow_pages_too(gateway: Gateway) -> None:
    gateway.engine.answers["INSERT INTO t SELECT 1"] = StatementResult(
        is_query=False, rows=None, affected_rows=7
    )
    operation = gateway.begin(gateway.open(), "INSERT INTO t SELECT 1")
    gateway.result(operation)

    page = gateway.http.get(
        f"{operation}/result/0", headers={"Accept": "application/vnd.apache.arrow.stream"}
    )

    assert page.headers["content-type"] == "application/vnd.apache.arrow.stream"
    assert page.headers["freshtable-affected-rows"] == "7"


def test_another_thread_cancels_a_statement(gateway: Gateway) -> None:
    hold = gateway.engine.hold("SELECT slow")
    gateway.engine.answers["SELECT slow"] = answer([[1]], a=INT)
    failures = list[dbapi.Error]()

    with dbapi.connect(url_of(gateway)) as connection:
        cursor = connection.cursor()

        def run() -> None:
            try:
                cursor.execute("SELECT slow")
            except dbapi.Error as failure:
                failures.append(failure)

        thread = threading.Thread(target=run)
        thread.start()
        hold.wait_entered()
        cursor.cancel()
        thread.join()
        again = connection.cursor().execute("SELECT 1").fetchall()

    assert [(type(failure), failure.code) for failure in failures] == [(dbapi.OperationalError, "CANCELED")]
    assert again == [(1,)]


def test_errors_keep_their_codes_and_the_session_goes_on(gateway: Gateway) -> None:
    gateway.engine.answers["SELECT 1/0"] = QueryFailed("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012")
    gateway.engine.answers["SELECT x"] = EngineUnavailable("Spark went away.")

    with dbapi.connect(url_of(gateway)) as connection:
        cursor = connection.cursor()
        with pytest.raises(dbapi.DataError) as division:
            cursor.execute("SELECT 1/0")
        with pytest.raises(dbapi.OperationalError, match=r"Spark went away\.") as away:
            cursor.execute("SELECT x")
        rows = cursor.execute("SELECT 1").fetchall()

    assert (division.value.code, division.value.error_class) == ("QUERY_FAILED", "DIVIDE_BY_ZERO")
    assert away.value.code == "ENGINE_UNAVAILABLE"
    assert rows == [(1,)]


def test_a_ping_of_a_session_that_the_gateway_closed_is_an_operational_error(gateway: Gateway) -> None:
    connection = dbapi.connect(url_of(gateway))
    gateway.sessions.close_all()

    with pytest.raises(dbapi.OperationalError) as failure:
        connection.ping()
    connection.close()

    assert failure.value.code == "SESSION_LOST"


def test_a_token_is_needed_where_the_gateway_asks_for_one(guarded_gateway: Gateway) -> None:
    with pytest.raises(dbapi.OperationalError):
        dbapi.connect(url_of(guarded_gateway))

    with dbapi.connect(url_of(guarded_gateway), token="second") as connection:
        assert connection.cursor().execute("SELECT 1").fetchall() == [(1,)]


def test_sqlalchemy_reads_rows_and_takes_a_new_session_for_a_lost_one(gateway: Gateway) -> None:
    registry.register("freshtable", "mt_core.client.dialect", "FreshtableDialect")
    gateway.engine.answers["SELECT current_schema()"] = answer([["default"]], s=STRING)
    host, port = gateway.http.base_url.host, gateway.http.base_url.port
    engine = create_engine(f"freshtable://{host}:{port}", pool_pre_ping=True)

    with engine.connect() as connection:
        before = connection.execute(text("SELECT 1")).all()
    gateway.sessions.close_all()
    with engine.connect() as connection:
        after = connection.execute(text("SELECT 1")).all()
    engine.dispose()

    assert before == after == [(1,)]
