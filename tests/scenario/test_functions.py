"""A user brings functions, which every session sees until they are dropped."""

from __future__ import annotations

from mt_core.rowset import Column, RowSet
from mt_core.sessions.ports import StatementResult
from tests.support.gateway.whole import WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway

PLUS = "CREATE FUNCTION plus(x INT) RETURNS INT RETURN x + 1"
MASK = "CREATE FUNCTION mask DETERMINISTIC AS 'shop.Mask' LANGUAGE JAVA USING JAR '/opt/jars/shop.jar'"


def user_functions(whole: WholeGateway) -> list[str]:
    of_spark = RowSet(columns=(Column(name="function"),), rows=[])
    whole.statements.answers["SHOW USER FUNCTIONS"] = StatementResult(is_query=False, rows=of_spark)
    return [row["function name"] for row in whole.sql("SHOW USER FUNCTIONS")]


def test_functions_are_listed_and_shown_also_after_a_restart_until_they_are_dropped(whole: WholeGateway) -> None:
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
    assert "exists already" in whole.refused(PLUS)
    whole.sql("DROP FUNCTION plus")
    assert user_functions(whole) == ["mask"]
    assert "Function plus does not exist" in whole.refused("DROP FUNCTION plus")


def test_a_temporary_function_is_described_as_such(whole: WholeGateway) -> None:
    whole.sql("CREATE TEMPORARY FUNCTION own(x INT) RETURN x * 2")

    assert whole.sql("DESCRIBE FUNCTION own")[1] == {"info name": "is temporary", "info value": "true"}
    assert whole.sql("SHOW CREATE FUNCTION own")[0]["result"].startswith("CREATE TEMPORARY FUNCTION `own`(x INT)\n")
    whole.sql("DROP TEMPORARY FUNCTION own")
    assert "Function own does not exist" in whole.refused("SHOW CREATE FUNCTION own")
