"""Statements about compiled plans, from their text to the fact, and what is refused."""

from __future__ import annotations

import pytest

from mt_core.errors import SqlSyntaxError, Unsupported
from mt_core.sql.parser import ReadStatement, parse
from mt_core.sql.plans import CompilePlan, ExecutePlan, ExplainPlan

INSERT = "INSERT INTO t SELECT 1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"COMPILE PLAN 'p' FOR {INSERT}", CompilePlan(uri="p", start=21)),
        (
            f"compile plan 's3://b/p' if not exists for {INSERT}",
            CompilePlan(uri="s3://b/p", start=42, if_not_exists=True),
        ),
        (f"COMPILE AND EXECUTE PLAN 'p' FOR {INSERT}", CompilePlan(uri="p", start=33, execute=True)),
        (
            "COMPILE PLAN 'p' FOR WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a",
            CompilePlan(uri="p", start=21),
        ),
        ("COMPILE PLAN 'p' FOR STATEMENT SET BEGIN END;", CompilePlan(uri="p", start=21)),
        ("EXECUTE PLAN 'p';", ExecutePlan(uri="p")),
        ("EXPLAIN PLAN 'p'", ExplainPlan(uri="p")),
    ],
)
def test_a_statement_about_a_plan_is_read(text: str, expected: object) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "reason", "column"),
    [
        (
            f"COMPILE PLAN IF NOT EXISTS 'p' FOR {INSERT}",
            "expected the path or URI of a plan in quotes, and IF NOT",
            14,
        ),
        ("EXECUTE PLAN FOR 'p'", "expected the path or URI of a plan in quotes, without FOR before it", 14),
        ("EXECUTE PLAN p", "expected the path or URI of a plan in quotes", 14),
        ("EXECUTE PLAN 'p' NOW", "expected the end of the statement", 18),
        ("COMPILE PLAN 'p' FOR", "expected INSERT or STATEMENT SET BEGIN", 21),
        (
            "COMPILE PLAN 'p' FOR EXECUTE STATEMENT SET BEGIN END",
            "expected INSERT or STATEMENT SET BEGIN",
            22,
        ),
        (f"COMPILE AND EXECUTE PLAN 'p' IF NOT EXISTS FOR {INSERT}", "expected FOR", 30),
        ("EXPLAIN PLAN 'p' x", "expected the end of the statement", 18),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(text: str, reason: str, column: int) -> None:
    with pytest.raises(SqlSyntaxError) as refused:
        parse(text)

    assert reason in str(refused.value)
    assert refused.value.column == column


@pytest.mark.parametrize(
    "word", ["SELECT 1", "CREATE TABLE t AS SELECT 1", "UPDATE t SET a = 1", "DELETE FROM t"]
)
def test_what_cannot_be_compiled_names_what_can(word: str) -> None:
    with pytest.raises(
        Unsupported, match=r"cannot be compiled; COMPILE PLAN takes INSERT INTO, and STATEMENT SET"
    ):
        parse(f"COMPILE PLAN 'p' FOR {word}")


def test_a_plan_without_a_path_is_refused() -> None:
    with pytest.raises(Unsupported, match="The path of a plan is empty"):
        parse("EXECUTE PLAN ' '")


def test_the_statement_keeps_its_places_and_its_hints() -> None:
    read = ReadStatement(
        "COMPILE PLAN 'p'\nFOR INSERT INTO t SELECT * FROM s /*+ OPTIONS('streaming' = 'false') */;"
    )
    fact = read.fact
    assert isinstance(fact, CompilePlan)

    inner = ReadStatement(fact.statement_in(read.written))

    assert inner.type == "INSERT"
    assert inner.written.index("INSERT") == read.sent.index("INSERT")
    assert [dict(hint.options) for hint in inner.hints] == [{"streaming": "false"}]
