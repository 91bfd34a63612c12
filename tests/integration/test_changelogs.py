"""Streams whose rows have a kind: on a real Spark, what keeps no state carries it along
as the last column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mt_core.errors import Unsupported
from mt_core.plans.operators import ADDS, ALL
from mt_core.spark.connectors.changelog import ROW_KIND, Changelog
from mt_core.spark.driver.jvm_objects import active_session, java_dataset, scala_items
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.streams.inserts import query_of
from mt_core.spark.streams.operators.java_operators import java_operator
from mt_core.spark.streams.operators.operator_nodes import scan_of
from mt_core.spark.streams.operators.stateless import carried, expression_id

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def session(module_driver: SparkDriver) -> Iterator[SparkSession]:
    session = module_driver.new_session()
    for name in ("clicks", "views"):
        stream = session.readStream.format("rate").load()
        stream.selectExpr("value AS n", "CAST(value AS STRING) AS city", "timestamp AS at").createTempView(
            name
        )
    with active_session(session):
        yield session


def changelog(session: SparkSession, text: str, changing: str = "clicks") -> Changelog:
    """Return the query as a changelog in which the rows of one view change, and are identified by n."""
    analysed = java_dataset(session, query_of(session, text)).queryExecution().analyzed()
    return over(session, analysed, changing)


def over(session: SparkSession, plan: Any, changing: str) -> Changelog:
    if str(plan.getClass().getSimpleName()) == "SubqueryAlias" and str(plan.alias()) == changing:
        scan = replace(scan_of(plan), changes=ALL)
        unique = frozenset({frozenset({expression_id(plan.output().head())})})
        kinds = java_operator(session, "Changelogs")
        return Changelog(plan=kinds.added(plan), operator=scan, unique=unique)
    children = list(scala_items(plan.children()))
    if not plan.isStreaming() or not children:
        return Changelog(plan=plan, operator=scan_of(plan))
    return carried(session, plan, [over(session, child, changing) for child in children])


def columns(found: Changelog) -> list[str]:
    return [str(each.name()) for each in scala_items(found.plan.output())]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT city FROM clicks WHERE n > 3", ["city"]),
        ("SELECT upper(c.city) AS c, n FROM (SELECT * FROM clicks) AS c", ["c", "n"]),
        ("SELECT n FROM clicks UNION ALL SELECT n FROM views", ["n"]),
        ("SELECT n FROM views UNION ALL SELECT n FROM clicks", ["n"]),
        ("SELECT n, letter FROM clicks LATERAL VIEW explode(split(city, '')) AS letter", ["n", "letter"]),
    ],
)
def test_the_kind_is_the_last_column_of_whatever_keeps_no_state(
    session: SparkSession, text: str, expected: list[str]
) -> None:
    found = changelog(session, text)

    assert columns(found) == [*expected, ROW_KIND]
    assert found.changes == ALL
    assert [name for name, _ in found.operator.output] == expected


def test_rows_that_are_only_added_have_no_kind(session: SparkSession) -> None:
    found = changelog(session, "SELECT n FROM views WHERE n > 3")

    assert columns(found) == ["n"]
    assert found.changes == ADDS


def test_the_operators_have_the_names_of_flink_and_no_numbers_of_columns(session: SparkSession) -> None:
    found = changelog(session, "SELECT n FROM clicks WHERE n > 3 UNION ALL SELECT n FROM views")

    assert [each.type for each in found.operator.all()] == [
        "stream-exec-table-source-scan_2",
        "stream-exec-calc_1",
        "stream-exec-calc_1",
        "stream-exec-table-source-scan_2",
        # The view's own columns, then those of the query.
        "stream-exec-calc_1",
        "stream-exec-calc_1",
        "stream-exec-union_1",
    ]
    assert not [each.description for each in found.operator.all() if "#" in each.description]


@pytest.mark.parametrize(
    ("text", "unique"),
    [
        ("SELECT n AS number, city FROM clicks WHERE n > 3", {"number"}),
        ("SELECT city FROM clicks", set()),
        ("SELECT n + 1 AS n FROM clicks", set()),
        ("SELECT n FROM clicks UNION ALL SELECT n FROM views", set()),
    ],
)
def test_columns_identify_a_row_as_long_as_they_are_there(
    session: SparkSession, text: str, unique: set[str]
) -> None:
    found = changelog(session, text)

    names = {expression_id(each): str(each.name()) for each in scala_items(found.plan.output())}
    assert {names[each] for key in found.unique for each in key} == unique


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT n, rand() AS r FROM clicks", r"rand\(\) AS r has another value when a row is retracted"),
        ("SELECT n, current_timestamp() AS t FROM clicks", "compute it below the aggregation"),
        ("SELECT n, sum(n) OVER (PARTITION BY city) AS s FROM clicks", "Window over rows that change"),
        (
            "SELECT c.n FROM clicks AS c FULL JOIN (VALUES (1)) AS t (n) ON c.n = t.n",
            "Join over rows that change",
        ),
        ("SELECT n FROM clicks ORDER BY n", "Sort over rows that change"),
    ],
)
def test_what_cannot_take_a_row_back_is_refused(session: SparkSession, text: str, reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        changelog(session, text)
