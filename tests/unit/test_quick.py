from __future__ import annotations

import pytest

from mt_core.errors import EngineUnavailable
from mt_core.sessions.executor import is_quick
from mt_core.sql.parser import ReadStatement
from tests.support.fake_statements import FakeStatementEngine


@pytest.mark.parametrize(
    "statement",
    ["SHOW CATALOGS", "-- all\nshow catalogs like 'l%';", "SET 'a' = 'b'", "SET", "RESET", "SHOW JARS"],
)
def test_what_the_gateway_knows_itself_is_quick(statement: str) -> None:
    assert is_quick(ReadStatement(statement), FakeStatementEngine())


@pytest.mark.parametrize(
    "statement",
    ["", "SELECT 1", "SHOW TABLES", "SHOW JOBS", "USE lake", "CREATE CATALOG c WITH ('type' = 'jdbc')", "(("],
)
def test_what_somebody_else_has_to_be_asked_for_is_not_quick(statement: str) -> None:
    assert not is_quick(ReadStatement(statement), FakeStatementEngine())


def test_a_long_text_is_not_read_to_find_out() -> None:
    assert not is_quick(ReadStatement(f"SET 'a' = '{'x' * 10_000}'"), FakeStatementEngine())


@pytest.mark.parametrize(("statement", "quick"), [("SHOW CATALOGS", False), ("SET 'a' = 'b'", True)])
def test_only_what_needs_no_spark_is_quick_while_spark_starts_or_after_it_failed(
    statement: str, quick: bool
) -> None:
    starting, failed = FakeStatementEngine(), FakeStatementEngine()
    starting.ready.clear()
    failed.failure = EngineUnavailable("Spark cannot start.")

    assert [is_quick(ReadStatement(statement), engine) for engine in (starting, failed)] == [quick, quick]
