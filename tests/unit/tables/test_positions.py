from __future__ import annotations

import pytest

from mt_core.errors import QueryFailed
from mt_core.sql.parser import parse
from mt_core.tables.manager import in_statement

CREATE = "CREATE MATERIALIZED TABLE t\nREFRESH_MODE = FULL AS SELECT a,\n nope FROM s"


@pytest.mark.parametrize(
    ("line", "position", "there"),
    [(1, 8, (2, 31)), (2, 2, (3, 2))],
)
def test_a_position_in_the_query_becomes_one_in_the_statement(
    line: int, position: int, there: tuple[int, int]
) -> None:
    statement = parse(CREATE)
    assert statement is not None
    error = QueryFailed("no. Hint.", error_class="X", line=line, position=position)

    found = in_statement(error, statement)

    assert (found.line, found.position, found.error_class) == (*there, "X")
    assert str(found) == f"no. Hint. (line {there[0]}, position {there[1]})"


def test_an_error_without_a_position_or_of_another_statement_stays() -> None:
    statement, other = parse(CREATE), parse("DROP MATERIALIZED TABLE t")
    assert statement is not None
    assert other is not None
    nowhere, somewhere = QueryFailed("no"), QueryFailed("no", line=1, position=2)

    assert in_statement(nowhere, statement) is nowhere
    assert in_statement(somewhere, other) is somewhere
