from __future__ import annotations

import pytest

from mt_core.errors import Canceled, EngineError, EngineUnavailable, MtError, QueryFailed
from mt_core.spark.driver.failures import Thrown, error_of, plain_message, position_in, translate

SPARK_EXCEPTION = "org.apache.spark.SparkException"
ANALYSIS = "org.apache.spark.sql.AnalysisException"


def thrown(
    message: str, condition: str | None = None, java_class: str = SPARK_EXCEPTION, sqlstate: str | None = None
) -> Thrown:
    return Thrown(java_class=java_class, message=message, condition=condition, sqlstate=sqlstate)


def test_a_message_loses_plan_statement_and_java() -> None:
    texts = [
        "[X] no `a`. SQLSTATE: 42703; line 1 pos 7;\n'Project ['a]\n+- OneRowRelation\n",
        "[X] no `a`. SQLSTATE: 42703;\n~Sort [a#1 ASC NULLS FIRST], true\n+- ~Project [a#1]\n",
        "\n[X] no `a`. SQLSTATE: 42703 (line 1, pos 0)\n\n== SQL ==\nselec 1\n^^^\n",
        "[X] no `a`. SQLSTATE: 42703\n== SQL (line 1, position 8) ==\nselect 1/0\n       ^^^\n",
        "[X] no `a`. SQLSTATE: 42703\n\tat org.apache.spark.Foo.bar(Foo.scala:1)",
        "org.apache.spark.SparkException: [X] no `a`. SQLSTATE: 42703",
    ]

    assert {plain_message(text) for text in texts} == {"[X] no `a`. SQLSTATE: 42703"}


def test_an_exception_of_a_function_that_spark_called_is_said_without_its_traceback() -> None:
    traceback = (
        "An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
        '  File "/opt/py4j/clientserver.py", line 617, in _call_proxy\n'
        "    return getattr(self.pool[obj_id], method)(*params)\n"
        "Py4JJavaError: An error occurred while calling o1.x.\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/mt_core/spark/streams/selects.py", line 151, in _take\n    raise\n'
        "mt_core.errors.QueryFailed: [ARITHMETIC_OVERFLOW] long overflow. SQLSTATE: 22003\n"
    )

    error = error_of(
        [
            thrown("[STREAM_FAILED] Query ended: " + traceback),
            thrown(traceback, java_class="py4j.Py4JException"),
        ]
    )

    assert plain_message(traceback) == "[ARITHMETIC_OVERFLOW] long overflow. SQLSTATE: 22003"
    assert "[ARITHMETIC_OVERFLOW] long overflow. SQLSTATE: 22003" in str(error)
    assert "Traceback" not in str(error)
    assert "/opt" not in str(error)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("x; line 2 pos 6;\nplan", (2, 7)),
        ("x (line 2, pos 6)\n\n== SQL ==", (2, 7)),
        ("x\n== SQL (line 2, position 7) ==\n", (2, 7)),
        ("x\n== SQL of VIEW v (line 2, position 7) ==\n", None),
        ("x", None),
    ],
)
def test_positions_count_from_one_and_point_into_the_statement_only(
    text: str, position: tuple[int, int] | None
) -> None:
    assert position_in(text) == position


def test_a_view_that_reads_itself_is_named_as_a_reason_for_a_stack_that_overflows() -> None:
    error = error_of([thrown("", java_class="java.lang.StackOverflowError")])

    assert isinstance(error, QueryFailed)
    assert str(error) == "The query is nested too deeply for Spark, or one of its views reads itself."


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            "- Invalid type for a b: unknown is not supported until v3",
            "Column a b has no type, because NULL has none; "
            "CAST it to one, for example CAST(NULL AS STRING).",
        ),
        (
            (
                "- Invalid type for v: variant is not supported until v3\n"
                "- Invalid type for n: unknown is not supported until v3"
            ),
            "Column n has no type, because NULL has none; CAST it to one, for example CAST(NULL AS STRING). "
            "Iceberg can store column v (variant) only from version 3 of its format on; create the table "
            "with the property 'format-version' = '3', or CAST the column, for example to STRING.",
        ),
    ],
)
def test_a_type_that_the_format_of_a_table_does_not_have_is_named_with_its_column_and_the_way_out(
    columns: str, message: str
) -> None:
    error = error_of(
        [thrown(f"Invalid schema for v2:\n{columns}", java_class="java.lang.IllegalStateException")]
    )

    assert isinstance(error, QueryFailed)
    assert str(error) == message


def test_a_name_that_is_taken_is_an_error_of_the_statement() -> None:
    taken = "View with same name already exists: shop.v"

    error = error_of([thrown(taken, java_class="org.apache.iceberg.exceptions.AlreadyExistsException")])

    assert (type(error), str(error)) == (QueryFailed, taken)


def test_the_innermost_condition_is_the_reason() -> None:
    error = error_of(
        [
            thrown("[TASK_WRITE_FAILED] Task failed.", "TASK_WRITE_FAILED"),
            thrown(
                "[DIVIDE_BY_ZERO] Division by zero.\n== SQL (line 1, position 8) ==\n1/0",
                "DIVIDE_BY_ZERO",
                sqlstate="22012",
            ),
        ]
    )

    assert isinstance(error, QueryFailed)
    assert str(error) == "[DIVIDE_BY_ZERO] Division by zero. (line 1, position 8)"
    assert error.facts == {"error_class": "DIVIDE_BY_ZERO", "sqlstate": "22012", "line": 1, "column": 8}


def test_what_a_condition_was_caused_by_is_told_too() -> None:
    error = error_of(
        [
            thrown("[FAILED_TO_LOAD_ROUTINE] Failed to load x.", "FAILED_TO_LOAD_ROUTINE", ANALYSIS),
            thrown("Procedure x not found", java_class="java.lang.RuntimeException"),
        ]
    )

    assert error.message == "[FAILED_TO_LOAD_ROUTINE] Failed to load x. Caused by: Procedure x not found"


@pytest.mark.parametrize(
    ("chain", "kind"),
    [
        (
            [thrown("awaitResult"), thrown("[SPARK_JOB_CANCELLED] Job 1 cancelled", "SPARK_JOB_CANCELLED")],
            Canceled,
        ),
        ([thrown("Cannot call methods on a stopped SparkContext.", java_class="x")], EngineUnavailable),
        ([thrown("Job 3 cancelled because SparkContext was shut down")], EngineUnavailable),
        ([thrown("Job aborted due to stage failure")], QueryFailed),
        ([thrown("[INTERNAL_ERROR] bug", "INTERNAL_ERROR")], EngineError),
        ([thrown("cannot reach s3", java_class="java.io.IOException")], EngineError),
        ([thrown("bad value", java_class="java.lang.IllegalArgumentException")], QueryFailed),
    ],
)
def test_causes_decide_the_kind_of_error(chain: list[Thrown], kind: type[MtError]) -> None:
    assert type(error_of(chain)) is kind


def test_a_connection_that_broke_means_that_spark_is_away_and_our_errors_pass() -> None:
    ours = Canceled("stop")

    assert isinstance(translate(ConnectionRefusedError()), EngineUnavailable)
    assert translate(ours) is ours


def test_a_function_that_the_catalog_cannot_keep_is_refused_with_the_ways_out() -> None:
    error = error_of([thrown("[X] Catalog lake.", "MISSING_CATALOG_ABILITY.CREATE_FUNCTION", ANALYSIS)])

    assert isinstance(error, QueryFailed)
    assert (
        "CREATE FUNCTION name … creates a function for all sessions and materialized tables" in error.message
    )


def test_a_batch_query_of_rows_without_end_is_refused_with_the_way_out() -> None:
    error = error_of(
        [
            thrown(
                "Queries with streaming sources must be executed with writeStream.start();\nrate",
                None,
                ANALYSIS,
            )
        ]
    )

    assert isinstance(error, QueryFailed)
    assert error.message.startswith("A batch query cannot read an unbounded table")
    assert "'number-of-rows'" in error.message
