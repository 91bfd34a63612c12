from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from mt_core.base.rowset import LogicalType
from mt_core.errors import QueryFailed
from mt_core.sessions.ports import SessionContext, StatementResult
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.statements.spark_statements import SparkStatements

pytestmark = pytest.mark.spark

_numbers = itertools.count()


class Session:
    """A gateway session of its own for each test."""

    def __init__(self, engine: SparkStatements, **properties: str) -> None:
        self.engine, self.session_id, self.properties = engine, f"session-{next(_numbers)}", properties

    @property
    def context(self) -> SessionContext:
        return SessionContext(session_id=self.session_id, properties=self.properties)

    def run(self, sql: str) -> StatementResult:
        return self.engine.execute(self.context, sql, job_id=f"job-{next(_numbers)}")

    def rows(self, sql: str) -> list[list[Any]]:
        found = self.run(sql).rows
        assert found is not None
        return found.page(0, 1000)

    def cell(self, sql: str) -> tuple[Mapping[str, Any], Any]:
        found = self.run(sql).rows
        assert found is not None
        [[value]] = found.page(0, 2)
        return found.columns[0].type.to_json(), value


@pytest.fixture
def engine(spark_driver: SparkDriver) -> SparkStatements:
    return SparkStatements(SparkContexts(spark_driver))


@pytest.fixture
def session(engine: SparkStatements) -> Session:
    return Session(engine)


VARCHAR = {"type": "VARCHAR", "nullable": False, "length": 2147483647}
LTZ = {"type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "nullable": False, "precision": 6}
NTZ = {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "nullable": False, "precision": 6}
MONTHS = {"type": "INTERVAL_YEAR_MONTH", "nullable": False, "precision": 4, "resolution": "YEAR_TO_MONTH"}
SECONDS = {"type": "INTERVAL_DAY_TIME", "nullable": False, "precision": 6, "fractionalPrecision": 6}
INTEGER = {"type": "INTEGER", "nullable": False}


@pytest.mark.parametrize(
    ("expression", "logical_type", "value"),
    [
        ("true", {"type": "BOOLEAN", "nullable": False}, True),
        ("1Y", {"type": "TINYINT", "nullable": False}, 1),
        ("1S", {"type": "SMALLINT", "nullable": False}, 1),
        ("1", INTEGER, 1),
        ("9223372036854775807L", {"type": "BIGINT", "nullable": False}, 9223372036854775807),
        ("1.1F", {"type": "FLOAT", "nullable": False}, 1.1),
        ("1e20D", {"type": "DOUBLE", "nullable": False}, 1e20),
        ("CAST('NaN' AS DOUBLE)", {"type": "DOUBLE", "nullable": True}, "NaN"),
        ("100.00BD", {"type": "DECIMAL", "nullable": False, "precision": 5, "scale": 2}, Decimal("1E+2")),
        ("123.4500BD", {"type": "DECIMAL", "nullable": False, "precision": 7, "scale": 4}, Decimal("123.45")),
        ("'x'", VARCHAR, "x"),
        ("X'0AFF'", {"type": "VARBINARY", "nullable": False, "length": 2147483647}, "Cv8="),
        ("DATE '2024-02-29'", {"type": "DATE", "nullable": False}, "2024-02-29"),
        (
            "TIME '01:02:03.5'",
            {"type": "TIME_WITHOUT_TIME_ZONE", "nullable": False, "precision": 6},
            "01:02:03.5",
        ),
        ("TIMESTAMP_NTZ '2024-01-02 03:04:05.120'", NTZ, "2024-01-02T03:04:05.12"),
        ("TIMESTAMP_NTZ '2024-01-02 03:04:00'", NTZ, "2024-01-02T03:04:00"),
        ("TIMESTAMP '2024-07-02 03:04:05.12'", LTZ, "2024-07-02T03:04:05.12Z"),
        ("TIMESTAMP '1850-01-01 00:00:00'", LTZ, "1850-01-01T00:00:00Z"),
        ("INTERVAL '1-2' YEAR TO MONTH", MONTHS, 14),
        ("INTERVAL -'1-2' YEAR TO MONTH", MONTHS, -14),
        ("INTERVAL '1 02:03:04.5' DAY TO SECOND", {**SECONDS, "resolution": "DAY_TO_SECOND"}, 93784500),
        ("INTERVAL '5' HOUR", {**SECONDS, "resolution": "HOUR"}, 18000000),
        ("make_interval(1, 2, 3)", VARCHAR, "1 years 2 months 21 days"),
        (
            "ARRAY(1, NULL)",
            {"type": "ARRAY", "nullable": False, "elementType": {**INTEGER, "nullable": True}},
            [1, None],
        ),
        (
            "MAP('k', 1)",
            {"type": "MAP", "nullable": False, "keyType": VARCHAR, "valueType": INTEGER},
            {"k": 1},
        ),
        ("NULL", LogicalType(root="NULL").to_json(), None),
        ("CAST(NULL AS STRING)", {**VARCHAR, "nullable": True}, None),
        ("parse_json('{\"a\":[1,2]}')", {"type": "VARIANT", "nullable": False}, '{"a":[1,2]}'),
    ],
)
def test_each_type_has_flinks_logical_type_and_value(
    session: Session, expression: str, logical_type: Mapping[str, Any], value: Any
) -> None:
    found = session.cell(f"SELECT {expression}")

    assert found == (logical_type, value)
    assert type(found[1]) is type(value)


def test_nested_values_are_objects_by_field_name_with_the_same_values_inside(session: Session) -> None:
    shown, value = session.cell(
        "SELECT named_struct('at', TIMESTAMP '2024-07-02 03:04:05', 'list', "
        "ARRAY(named_struct('d', 1.50BD, 'i', INTERVAL '2' MONTH), NULL), 'map', MAP('k', X'00', 'n', NULL))"
    )

    assert [field["name"] for field in shown["fields"]] == ["at", "list", "map"]
    assert value == {
        "at": "2024-07-02T03:04:05Z",
        "list": [{"d": Decimal("1.5"), "i": 2}, None],
        "map": {"k": "AA==", "n": None},
    }


def test_result_columns_may_share_a_name_also_when_spark_has_to_cast_them(session: Session) -> None:
    rows = session.rows(
        "SELECT 1 AS a, TIMESTAMP '2024-01-01' AS a, named_struct('at', TIMESTAMP '2024-01-01') AS a"
    )

    assert rows == [[1, "2024-01-01T00:00:00Z", {"at": "2024-01-01T00:00:00Z"}]]


def test_pages_can_be_read_again_and_the_last_one_is_shorter(session: Session) -> None:
    rows = session.run("SELECT id, CAST(id AS STRING) AS id FROM range(2500)").rows
    assert rows is not None

    pages = [rows.page(start, 1000) for start in (0, 1000, 2000, 3000, 1000)]

    assert [len(page) for page in pages] == [1000, 1000, 500, 0, 1000]
    assert pages[4] == pages[1]
    assert (pages[1][0], pages[2][-1]) == ([1000, "1000"], [2499, "2499"])


def test_nulls_in_every_kind_of_column_survive(session: Session) -> None:
    rows = session.rows(
        "SELECT * FROM VALUES (1, 1.5D, 'a', DATE '2024-01-01', ARRAY(1), named_struct('a', 1), true),"
        " (NULL, NULL, NULL, NULL, NULL, NULL, NULL) AS t"
    )

    assert rows == [[1, 1.5, "a", "2024-01-01", [1], {"a": 1}, True], [None] * 7]


@pytest.mark.parametrize(
    ("sql", "is_query"),
    [
        ("SELECT 1", True),
        ("VALUES (1)", True),
        ("WITH x AS (SELECT 1) SELECT * FROM x", True),
        ("FROM range(3) |> WHERE id > 1", True),
        ("SHOW NAMESPACES", False),
        ("DESCRIBE QUERY SELECT 1", False),
        ("EXPLAIN SELECT 1", False),
    ],
)
def test_only_queries_are_queries_but_other_statements_may_have_rows_too(
    session: Session, sql: str, is_query: bool
) -> None:
    result = session.run(sql)

    assert result.is_query is is_query
    assert result.rows is not None
    assert len(result.rows.page(0, 10)) > 0


def test_statements_without_columns_take_effect_and_give_no_rows(session: Session) -> None:
    results = [
        session.run("CREATE OR REPLACE TABLE effects (a INT)"),
        session.run("INSERT INTO effects VALUES (1), (2)"),
        session.run("DELETE FROM effects WHERE a = 1"),
    ]

    assert [(each.is_query, each.rows, each.affected_rows) for each in results] == [
        (False, None, None),
        (False, None, 2),
        (False, None, 1),
    ]
    assert session.rows("SELECT a FROM effects") == [[2]]


@pytest.mark.parametrize(
    ("sql", "error_class", "line", "position"),
    [
        ("SELEC 1", "PARSE_SYNTAX_ERROR", 1, 1),
        ("SELECT 1,\n  foo(", "PARSE_SYNTAX_ERROR", 2, 7),
        ("SELECT 1\n FROM nope", "TABLE_OR_VIEW_NOT_FOUND", 2, 7),
        ("SELECT b FROM VALUES (1) AS t(a)", "UNRESOLVED_COLUMN.WITH_SUGGESTION", 1, 8),
        ("SELECT 1 / (id - 5) FROM range(10)", "DIVIDE_BY_ZERO", 1, 8),
        ("SELECT raise_error('boom') FROM range(2)", "USER_RAISED_EXCEPTION", None, None),
    ],
)
def test_a_bad_query_is_told_with_class_line_and_position_and_without_java(
    session: Session, sql: str, error_class: str, line: int | None, position: int | None
) -> None:
    with pytest.raises(QueryFailed) as caught:
        session.run(sql)

    error = caught.value
    assert (error.error_class, error.line, error.position) == (error_class, line, position)
    assert error.message.startswith(f"[{error_class}]")
    assert "\tat " not in error.message
    assert "== SQL" not in error.message


def test_an_error_inside_a_view_is_not_located_in_the_statement(session: Session) -> None:
    session.run("CREATE TEMPORARY VIEW broken AS SELECT 1 / 0 AS a")

    with pytest.raises(QueryFailed) as caught:
        session.run("SELECT * FROM broken")

    assert caught.value.facts == {"error_class": "DIVIDE_BY_ZERO", "sqlstate": "22012"}


def test_sessions_do_not_see_each_others_views_namespace_and_settings(engine: SparkStatements) -> None:
    one, other = Session(engine), Session(engine)
    one.run("CREATE NAMESPACE IF NOT EXISTS elsewhere")
    one.run("USE lake.elsewhere")
    one.run("CREATE TEMPORARY VIEW mine AS SELECT 1 AS a")
    one.run("SET spark.sql.ansi.enabled = false")

    with pytest.raises(QueryFailed, match="TABLE_OR_VIEW_NOT_FOUND"):
        other.run("SELECT * FROM mine")

    states = [engine.session_state(each.context) for each in (one, other)]
    assert [(state.catalog, state.namespace) for state in states] == [
        ("lake", ("elsewhere",)),
        ("lake", ("default",)),
    ]
    assert other.rows("SET spark.sql.ansi.enabled")[0][1] == "true"


def test_properties_reach_spark_and_fall_back_to_the_drivers_when_they_vanish(session: Session) -> None:
    now = "SELECT current_timezone(), TIMESTAMP '2024-07-01 12:00:00Z'"
    before = session.rows(now)
    session.properties = {
        "table.local-time-zone": "Asia/Tokyo",
        "spark.sql.ansi.enabled": "false",
        "other.key": "x",
    }

    within = session.rows(now), session.rows("SELECT 1 / 0")
    session.properties = {}
    after = session.rows(now)

    assert before == after == [["Europe/Berlin", "2024-07-01T14:00:00Z"]]
    assert within == ([["Asia/Tokyo", "2024-07-01T21:00:00Z"]], [[None]])
    with pytest.raises(QueryFailed, match="DIVIDE_BY_ZERO"):
        session.run("SELECT 1 / 0")


def test_a_property_spark_cannot_change_is_refused_by_name(session: Session) -> None:
    session.properties = {"spark.sql.warehouse.dir": "/elsewhere"}

    with pytest.raises(
        QueryFailed,
        match=r"Session property spark\.sql\.warehouse\.dir .* RESET it, or open a session without it",
    ):
        session.run("SELECT 1")


def test_a_closed_session_begins_anew_under_the_same_id(engine: SparkStatements, session: Session) -> None:
    session.run("CREATE TEMPORARY VIEW gone AS SELECT 1 AS a")

    engine.close_session(session.session_id)

    with pytest.raises(QueryFailed, match="TABLE_OR_VIEW_NOT_FOUND"):
        session.run("SELECT * FROM gone")


def test_rows_are_ready_for_json(session: Session) -> None:
    [row] = session.rows(
        "SELECT 1 AS a, 'x' AS b, ARRAY(DATE '2024-01-01') AS c, named_struct('k', 1.5D) AS d"
    )

    assert json.dumps(row) == '[1, "x", ["2024-01-01"], {"k": 1.5}]'


def test_a_change_says_how_many_rows_it_has_changed(session: Session) -> None:
    session.run("CREATE TABLE lake.default.counted (a INT, b STRING)")

    found = [
        session.run(sql).affected_rows
        for sql in (
            "INSERT INTO lake.default.counted VALUES (1, 'a'), (2, 'b')",
            (
                "WITH more AS (SELECT id FROM range(5)) INSERT INTO lake.default.counted "
                "SELECT id, 'c' FROM more"
            ),
            "INSERT OVERWRITE lake.default.counted SELECT 9, 'd'",
            "INSERT INTO lake.default.counted SELECT 1, 'e' WHERE false",
            "DELETE FROM lake.default.counted WHERE a = 1",
            "USE lake.default",
        )
    ]

    assert found == [2, 5, 1, 0, 0, None]
