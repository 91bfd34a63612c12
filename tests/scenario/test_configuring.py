"""configure-session takes effect at once and without an operation; complete-statement suggests what may come
next.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from mt_core.base.rowset import Column, RowSet
from mt_core.sessions.ports import StatementResult
from tests.support.gateway.statements import Gateway, root_cause


def configure(gateway: Gateway, session: str, statement: str) -> tuple[int, object]:
    answer = gateway.http.post(f"{session}/configure-session", json={"statement": statement})
    return answer.status_code, answer.json()


@pytest.mark.parametrize("version", ["v2", "v3", "v4"])
def test_a_session_is_configured_at_once_and_keeps_no_operation(gateway: Gateway, version: str) -> None:
    session = gateway.open().replace("v3", version)

    answers = [
        configure(gateway, session, text) for text in ("SET 'a' = '1';", "USE CATALOG lake;", "-- c\nUSE d;")
    ]

    assert answers == [(200, {})] * 3
    assert gateway.http.get(session).json()["properties"]["a"] == "1"
    assert [sql for _, sql in gateway.engine.executed] == ["SET CATALOG `lake`", "-- c\nUSE d"]
    assert gateway.sessions.get(session.rpartition("/")[2]).operations == []


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1",
        "INSERT INTO t SELECT 1",
        "SHOW TABLES",
        "CREATE TABLE t AS SELECT 1",
        "BEGIN STATEMENT SET",
        "EXPLAIN SELECT 1",
    ],
)
def test_what_does_not_set_a_session_up_is_refused(gateway: Gateway, statement: str) -> None:
    answer = gateway.http.post(f"{gateway.open()}/configure-session", json={"statement": statement})

    assert (answer.status_code, answer.headers["freshtable-error"]) == (500, "UNSUPPORTED")
    assert root_cause(answer).startswith("Unsupported: Unsupported statement for configuring session: ")
    assert gateway.engine.executed == []


@pytest.mark.parametrize(
    ("statement", "code"),
    [("", "SQL_SYNTAX"), ("SET a = 1; SET b = 2", "SQL_SYNTAX"), ("CREATE TABLE x", "QUERY_FAILED")],
)
def test_a_statement_that_fails_is_the_answer(gateway: Gateway, statement: str, code: str) -> None:
    session = gateway.open()

    answer = gateway.http.post(f"{session}/configure-session", json={"statement": statement})

    assert (answer.status_code, answer.headers["freshtable-error"]) == (500, code)
    assert gateway.sessions.get(session.rpartition("/")[2]).operations == []


def test_a_time_limit_ends_it(gateway: Gateway) -> None:
    session, hold = gateway.open(**{"execution.timeout": "1 s"}), gateway.engine.hold("USE lake")
    blocked = gateway.begin(session, "USE lake")
    hold.wait_entered()
    gateway.clock.advance(timedelta(seconds=1))

    answer = gateway.http.get(f"{blocked}/result/0")

    assert answer.headers["freshtable-error"] == "STATEMENT_TIMED_OUT"


def complete(gateway: Gateway, session: str, text: str, **body: object) -> list[str]:
    content = {"statement": text, "position": len(text)} | body
    answer = gateway.http.request("GET", f"{session}/complete-statement", json=content)
    assert answer.status_code == 200
    candidates: list[str] = answer.json()["candidates"]
    return candidates


def test_completion_offers_keywords_and_the_names_that_spark_tells(gateway: Gateway) -> None:
    session = gateway.open()
    gateway.engine.answers |= {
        sql: StatementResult(
            is_query=False, rows=RowSet(columns=(Column(name=name),), rows=[[row] for row in rows])
        )
        for sql, name, rows in [
            ("SHOW TABLES", "table name", ["daily", "dull days"]),
        ]
    }
    gateway.engine.tables["daily"] = [Column(name="ds"), Column(name="amount")]

    assert "CATALOGS" in complete(gateway, session, "SHOW ")
    assert complete(gateway, session, "USE CATALOG ") == ["lake", "spark_catalog"]
    assert complete(gateway, session, "SELECT * FROM d") == ["`dull days`", "daily"]
    assert complete(gateway, session, "SELECT  FROM daily d", position=7)[:2] == ["amount", "AND"]


def test_completion_never_fails(gateway: Gateway) -> None:
    session = gateway.open()
    gateway.engine.ready.clear()

    found = [complete(gateway, session, "'", position=at) for at in (-5, 0, 1, 2**40)]
    empty = gateway.http.request("GET", f"{session}/complete-statement")

    assert (found[2:], empty.status_code) == ([[], []], 200)
    assert "SELECT" in empty.json()["candidates"]
