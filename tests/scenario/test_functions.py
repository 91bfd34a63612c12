"""A user creates functions, which every session sees until they are dropped."""

from __future__ import annotations

from mt_core.base.rowset import Column, RowSet
from mt_core.sessions.ports import StatementResult
from tests.support.gateway.whole import WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway

PLUS = "CREATE FUNCTION plus(x INT) RETURNS INT RETURN x + 1"
MASK = "CREATE FUNCTION mask DETERMINISTIC AS 'shop.Mask' LANGUAGE JAVA USING JAR '/opt/jars/shop.jar'"


def user_functions(whole: WholeGateway) -> list[str]:
    return listed(whole, "SHOW USER FUNCTIONS")


def listed(whole: WholeGateway, statement: str, *of_spark: str) -> list[str]:
    """Return the functions that a gateway lists if its Spark has *of_spark*."""
    rows = RowSet(columns=(Column(name="function"),), rows=[[name] for name in of_spark])
    whole.statements.answers[statement] = StatementResult(is_query=False, rows=rows)
    return [row["function name"] for row in whole.sql(statement)]


def test_functions_are_listed_and_shown_also_after_a_restart_until_they_are_dropped(
    whole: WholeGateway,
) -> None:
    whole.sql(PLUS)
    whole.sql(MASK)

    whole.restart()

    assert user_functions(whole) == ["mask", "plus"]
    [shown] = whole.sql("SHOW CREATE FUNCTION mask")
    assert shown["result"].splitlines() == [
        "CREATE FUNCTION `mask`",
        "RETURNS INT",
        "DETERMINISTIC",
        "AS 'shop.Mask' LANGUAGE JAVA",
        "USING JAR '/opt/jars/shop.jar'",
    ]
    described = {row["info name"]: row["info value"] for row in whole.sql("DESCRIBE FUNCTION EXTENDED mask")}
    assert (described["class name"], described["is deterministic"]) == ("shop.Mask", "true")
    assert [row["info name"] for row in whole.sql("DESCRIBE FUNCTION mask")] == [
        "is system function",
        "is temporary",
        "class name",
        "function language",
        "resource uris",
    ]
    assert "exists already" in whole.refused(PLUS)
    whole.sql("DROP FUNCTION plus")
    assert user_functions(whole) == ["mask"]
    assert "Function plus does not exist" in whole.refused("DROP FUNCTION plus")


def test_created_functions_are_listed_among_those_of_spark(whole: WholeGateway) -> None:
    whole.sql(PLUS)
    whole.sql("CREATE TEMPORARY FUNCTION own(x INT) RETURN x * 2")

    names = listed(whole, "SHOW FUNCTIONS", "abs", "upper")

    assert names == ["abs", "own", "plus", "upper"]


def test_a_temporary_function_is_described_as_such(whole: WholeGateway) -> None:
    whole.sql("CREATE TEMPORARY FUNCTION own(x INT) RETURN x * 2")

    assert whole.sql("DESCRIBE FUNCTION own")[1] == {"info name": "is temporary", "info value": "true"}
    assert whole.sql("SHOW CREATE FUNCTION own")[0]["result"].startswith(
        "CREATE TEMPORARY FUNCTION `own`(x INT)\n"
    )
    whole.sql("DROP TEMPORARY FUNCTION own")
    assert "Function own does not exist" in whole.refused("SHOW CREATE FUNCTION own")
