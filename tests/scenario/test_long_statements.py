"""Long statements: a text is tokenized at most once, one for Spark hardly at all, and deep ones do not reach
Spark.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from mt_core.base.tokens import Token, tokenize
from mt_core.errors import SqlSyntaxError
from mt_core.sessions.operations.operation import OperationStatus
from mt_core.sessions.ports import StatementResult
from tests.support.gateway.statements import Gateway

ROWS = ", ".join(f"({number}, 'name {number};', {number}.5)" for number in range(2_000))
# The first words are looked at before it is known whose statement it is, and once more by its reader.
FEW = 60


@contextmanager
def counted_tokens() -> Iterator[list[int]]:
    """Count the tokens read by this thread and those that it starts."""
    made, init = [0], Token.__init__.__code__

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is init:
            made[0] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        yield made
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def run(gateway: Gateway, statement: str) -> int:
    """Run *statement* in a session of the executor; return the number of tokens read."""
    session = gateway.sessions.open(None, {})
    with counted_tokens() as made:
        operation = gateway.services.executor.submit(session, statement)
        assert operation.wait(60.0)
    assert operation.status is OperationStatus.FINISHED, operation.error
    return made[0]


@pytest.mark.parametrize(
    "statement",
    [
        f"INSERT INTO t VALUES {ROWS}",
        f"/* c */ WITH a AS (SELECT * FROM VALUES {ROWS}) INSERT INTO t SELECT * FROM a",
        f"CREATE TABLE t AS SELECT * FROM VALUES {ROWS}",
        f"SELECT * FROM VALUES {ROWS} -- a comment; /*",
    ],
    ids=["INSERT", "WITH", "CREATE TABLE AS", "SELECT"],
)
def test_a_long_statement_of_sparks_is_not_cut_into_tokens(gateway: Gateway, statement: str) -> None:
    gateway.engine.answers[statement.partition(" -- ")[0]] = StatementResult(is_query=False, rows=None)

    made = run(gateway, statement)

    assert made < FEW
    assert sum(1 for _ in tokenize(statement)) > 10_000


def test_a_statement_of_ours_is_cut_into_tokens_once(gateway: Gateway) -> None:
    columns = ", ".join(f"'k{number}' = 'v'" for number in range(2_000))
    statement = f"CREATE MATERIALIZED TABLE t WITH ({columns}) AS SELECT * FROM VALUES {ROWS}"

    made = run(gateway, statement)

    assert made < 4 * 2_000 + FEW


DEEP = "(" * 20_000 + "1" + ")" * 20_000


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT {DEEP}",
        f"VALUES {DEEP}",
        f"EXPLAIN SELECT {DEEP}",
        f"CREATE VIEW v AS SELECT {DEEP}",
        f"CREATE TEMPORARY VIEW v AS SELECT {DEEP}",
        f"CREATE FUNCTION f() RETURNS INT RETURN {DEEP}",
        f"CREATE TABLE t AS SELECT {DEEP}",
        f"CREATE TABLE t (a {'ARRAY<' * 450}INT{'>' * 450}) WITH ('connector' = 'datagen')",
        f"CREATE MATERIALIZED TABLE t AS SELECT {DEEP} AS a",
        f"EXPLAIN CREATE MATERIALIZED TABLE t AS SELECT {DEEP} AS a",
        f"ALTER MATERIALIZED TABLE t AS SELECT {DEEP} AS a",
        f"INSERT INTO t SELECT {DEEP}",
        f"EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT {DEEP}; END",
        f"COMPILE PLAN 'p' FOR INSERT INTO t SELECT {DEEP}",
        f"BEGIN SELECT {DEEP}; END",
        f"CALL lake.system.rewrite_data_files(table => {DEEP})",
    ],
    ids=lambda statement: statement.partition("((")[0],
)
def test_no_statement_that_nests_too_deeply_reaches_spark(gateway: Gateway, statement: str) -> None:
    session = gateway.sessions.open(None, {})

    operation = gateway.services.executor.submit(session, statement)

    assert operation.wait(60.0)
    assert operation.status is OperationStatus.ERROR
    assert isinstance(operation.error, SqlSyntaxError)
    assert "too deep" in operation.error.message or operation.error.facts["depth"] in {20_000, 20_001}
    assert (gateway.engine.executed, gateway.engine.analysed) == ([], [])
