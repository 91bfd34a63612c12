"""Long statements: a text is cut into tokens once at most, and one of Spark's hardly at all."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from mt_core.sessions.operations.operation import OperationStatus
from mt_core.sessions.ports import StatementResult
from mt_core.tokens import Token, tokenize
from tests.support.gateway.statements import Gateway

ROWS = ", ".join(f"({number}, 'name {number};', {number}.5)" for number in range(2_000))
# The first words are looked at before it is known whose statement it is, and once more by its reader.
FEW = 60


@contextmanager
def counted_tokens() -> Iterator[list[int]]:
    """Count the tokens that this thread and those that it starts make."""
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
    """Run *statement* in a session of the executor; return how many tokens were made of it."""
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
