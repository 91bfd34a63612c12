"""Affected rows of changes: what Spark and Iceberg counted, against what the tables have before and after."""

from __future__ import annotations

import itertools

import pytest

from mt_core.sessions.ports import SessionContext
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.statements.spark_statements import SparkStatements
from tests.depth import DEPTH

pytestmark = pytest.mark.spark

_numbers = itertools.count()
_MODES = ("delete", "update", "merge")
_SOURCE = "(SELECT id, 1 AS p, -1L AS v FROM range(990, 1010)) AS s"


class Changes:
    """A session with one table `t` of ids 0 to 999 in four partitions' values `p`, 250 rows each."""

    def __init__(
        self, driver: SparkDriver, mode: str = "copy-on-write", *, partitioned: bool = False
    ) -> None:
        self.engine = SparkStatements(SparkContexts(driver))
        self.context = SessionContext(session_id=f"affected-{next(_numbers)}", properties={})
        self.table = f"lake.default.affected_{next(_numbers)}"
        modes = ", ".join(f"'write.{each}.mode' = '{mode}'" for each in _MODES)
        partitions = "PARTITIONED BY (p)" if partitioned else ""
        self.created = self.affected(
            f"CREATE TABLE {{t}} {partitions} TBLPROPERTIES ({modes}) "
            "AS SELECT id, CAST(id % 4 AS INT) AS p, id * 2 AS v FROM range(1000)"
        )

    def affected(self, sql: str) -> int | None:
        text = sql.format(t=self.table)
        return self.engine.execute(self.context, text, job_id=f"affected-job-{next(_numbers)}").affected_rows

    def rows(self, where: str = "true") -> int:
        result = self.engine.execute(
            self.context,
            f"SELECT count(*) FROM {self.table} WHERE {where}",
            job_id=f"affected-job-{next(_numbers)}",
        ).rows
        assert result is not None
        return int(result.page(0, 1)[0][0])


@pytest.fixture(params=[False, True], ids=["unpartitioned", "partitioned"])
def partitioned(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(
    params=[
        pytest.param(("copy-on-write", False), id="copy-on-write-unpartitioned"),
        pytest.param(("merge-on-read", True), id="merge-on-read-partitioned"),
        *(
            [
                pytest.param(("copy-on-write", True), id="copy-on-write-partitioned", marks=pytest.mark.slow),
                pytest.param(
                    ("merge-on-read", False), id="merge-on-read-unpartitioned", marks=pytest.mark.slow
                ),
            ]
            if DEPTH > 1
            else []
        ),
    ]
)
def changes(request: pytest.FixtureRequest, spark_driver: SparkDriver) -> Changes:
    mode, partitioned = request.param
    return Changes(spark_driver, mode, partitioned=partitioned)


def test_a_delete_counts_the_rows_that_are_gone(changes: Changes) -> None:
    conditions = ("id < 10", "id IN (SELECT id + 10 FROM range(10))", "id = -5", "p = 77")

    counts, gone = [], []
    for condition in conditions:
        before = changes.rows()
        counts.append(changes.affected(f"DELETE FROM {{t}} WHERE {condition}"))
        gone.append(before - changes.rows())

    assert counts == gone == [10, 10, 0, 0]


def test_a_delete_of_whole_files_counts_their_rows(changes: Changes) -> None:
    counts = [
        changes.affected("DELETE FROM {t} WHERE p = 3"),
        changes.affected("DELETE FROM {t} WHERE p = 3"),
        changes.rows(),
    ]

    assert counts == [250, 0, 750]


def test_a_delete_of_everything_counts_all_rows_and_then_none(changes: Changes) -> None:
    assert [changes.affected("DELETE FROM {t}") for _ in range(2)] == [1000, 0]


def test_a_merge_counts_the_rows_that_it_inserted_updated_and_deleted(changes: Changes) -> None:
    counts = [
        changes.affected(
            f"MERGE INTO {{t}} USING {_SOURCE} ON {{t}}.id = s.id WHEN MATCHED AND s.id < 993 THEN UPDATE "
            "SET v = s.v WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
        ),
        changes.affected(
            f"MERGE INTO {{t}} USING {_SOURCE} ON {{t}}.id = s.id AND s.id < 0 WHEN NOT MATCHED THEN INSERT *"
        ),
        changes.affected(
            f"MERGE INTO {{t}} USING {_SOURCE} ON {{t}}.id = s.id AND s.id < 0 WHEN MATCHED THEN DELETE"
        ),
        changes.affected(
            f"MERGE INTO {{t}} USING {_SOURCE} ON {{t}}.id = s.id "
            "WHEN NOT MATCHED BY SOURCE AND {t}.id >= 500 THEN DELETE"
        ),
    ]

    assert counts == [20, 20, 0, 490]
    assert (changes.rows("v = -1"), changes.rows("id >= 500")) == (33, 33)


def test_an_update_of_all_rows_or_of_none_counts_them(changes: Changes) -> None:
    assert [
        changes.affected("UPDATE {t} SET v = v + 1"),
        changes.affected("UPDATE {t} SET v = 0 WHERE id = -1"),
    ] == [
        1000,
        0,
    ]


def test_an_update_of_some_rows_counts_them_on_a_merge_on_read_table(
    spark_driver: SparkDriver,
    partitioned: bool,
) -> None:
    changes = Changes(spark_driver, "merge-on-read", partitioned=partitioned)

    counts = [
        changes.affected("UPDATE {t} SET v = -7 WHERE id BETWEEN 100 AND 119"),
        changes.affected("UPDATE {t} SET v = -7 WHERE id IN (SELECT id + 200 FROM range(10))"),
        changes.affected("UPDATE {t} SET p = 9 WHERE p = 2"),
    ]

    assert counts == [20, 10, 250]
    assert (changes.rows("v = -7"), changes.rows("p = 9")) == (30, 250)


def test_an_update_of_some_rows_is_not_counted_where_it_writes_others_again(
    spark_driver: SparkDriver,
    partitioned: bool,
) -> None:
    changes = Changes(spark_driver, "copy-on-write", partitioned=partitioned)

    assert changes.affected("UPDATE {t} SET v = -7 WHERE id BETWEEN 100 AND 119") is None
    assert changes.rows("v = -7") == 20


def test_files_that_have_deleted_rows_in_them_are_not_counted_as_a_whole(spark_driver: SparkDriver) -> None:
    changes = Changes(spark_driver, "merge-on-read")
    changes.affected("DELETE FROM {t} WHERE id IN (1, 2, 3)")

    whole = changes.affected("DELETE FROM {t}")

    changes = Changes(spark_driver, "merge-on-read")
    changes.affected("DELETE FROM {t} WHERE id IN (1, 2, 3)")
    changes.affected("ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'copy-on-write')")
    rewritten = changes.affected("DELETE FROM {t} WHERE id < 5")

    assert (whole, rewritten) == (None, None)
    assert changes.rows() == 995


def test_a_table_of_a_query_counts_the_rows_of_the_query(changes: Changes) -> None:
    counts = [
        changes.affected("CREATE OR REPLACE TABLE {t} AS SELECT id FROM range(7)"),
        changes.affected("CREATE OR REPLACE TABLE {t} AS SELECT id FROM range(0)"),
        changes.affected("REPLACE TABLE {t} AS SELECT 1 AS a"),
        changes.affected("CREATE TABLE IF NOT EXISTS {t} AS SELECT 1 AS a"),
        changes.affected("CREATE TABLE {t}_empty AS SELECT id FROM range(0)"),
    ]

    assert changes.created == 1000
    assert counts == [7, 0, 1, 0, 0]


def test_changes_of_a_branch_are_counted(spark_driver: SparkDriver) -> None:
    changes = Changes(spark_driver, partitioned=True)
    changes.affected("ALTER TABLE {t} CREATE BRANCH trial")

    counts = [
        changes.affected("DELETE FROM {t}.branch_trial WHERE p = 1"),
        changes.affected("DELETE FROM {t}.branch_trial WHERE id < 10"),
    ]

    assert (counts, changes.rows()) == ([250, 7], 1000)


def test_what_changes_no_rows_has_no_count(spark_driver: SparkDriver) -> None:
    changes = Changes(spark_driver)

    counts = [
        changes.affected(sql)
        for sql in (
            "CREATE TABLE {t}_bare (a INT)",
            "USE lake.default",
            "TRUNCATE TABLE {t}",
            "DROP TABLE {t}",
        )
    ]

    assert counts == [None, None, None, None]


def test_a_change_counts_the_rows_that_its_scans_gave(spark_driver: SparkDriver) -> None:
    changes = Changes(spark_driver)
    statements = {
        "INSERT INTO {t} SELECT id + 1000, p, v FROM {t} WHERE v >= 0": 1000,
        "CREATE TABLE {t}_copy AS SELECT p, count(*) AS n FROM {t} GROUP BY p": 2000,
        "INSERT INTO {t} VALUES (1, 1, 1)": 0,
        "CREATE TABLE {t}_empty (a INT)": None,
    }

    read = [
        changes.engine.execute(
            changes.context, sql.format(t=changes.table), job_id=f"affected-job-{next(_numbers)}"
        ).rows_read
        for sql in statements
    ]

    assert read == list(statements.values())
