"""The rows by which two versions of a source differ are found without a job, whatever the files are like."""

from __future__ import annotations

from collections import Counter

import pytest

from mt_core.errors import Canceled
from mt_core.spark.driver.jvm_objects import static_member
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.iceberg.jvm_rows import stored_schema
from mt_core.spark.queries.lineage import LineageReader
from mt_core.spark.readings import row_images
from mt_core.spark.readings.file_difference import FileDifference, files_between
from mt_core.spark.readings.row_images import COPIES, changed_rows
from mt_core.tables.engine import Query
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.support.started_jobs import started_jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FLAT = (
    "CAST(id AS INT) AS id, IF(id % 7 = 0, NULL, CAST(id % 5 AS STRING)) AS s, "
    "IF(id % 3 = 0, CAST('NaN' AS DOUBLE), id / 4) AS d, CAST(id AS DECIMAL(9, 2)) AS small, "
    "CAST(id AS DECIMAL(30, 3)) AS large, id % 2 = 0 AS flag, TIMESTAMP_SECONDS(id) AS t, "
    "CAST(CAST(id AS STRING) AS BINARY) AS b, CAST(id AS FLOAT) AS f, "
    "DATE_FROM_UNIX_DATE(CAST(id AS INT)) AS day"
)
NESTED = f"{FLAT}, named_struct('x', id, 'y', array(id, NULL)) AS st, map('a', id) AS m"
MERGE_ON_READ = ", ".join(f"'write.{each}.mode' = 'merge-on-read'" for each in ("update", "delete", "merge"))


def create(world: RefreshWorld, columns: str = FLAT, properties: str = "'format-version' = '2'") -> None:
    """Create table `t` with 3,000 rows in three files."""
    world.spark(
        f"CREATE TABLE t USING iceberg TBLPROPERTIES ({properties}) AS SELECT {columns} "
        "FROM range(0, 3000, 1, 3)"
    )


def version(world: RefreshWorld) -> str:
    load = static_member(world.session, "org.apache.iceberg.spark.Spark3Util.loadIcebergTable")
    table = load(world.session._jsparkSession, f"lake.{world.namespace}.t")
    return str(table.currentSnapshot().snapshotId())


def net_change(world: RefreshWorld, old: str, new: str) -> tuple[Counter[str], int]:
    """Return how often each row came, negatively if it went, and the number of jobs that found this."""
    query = Query(text="SELECT * FROM t", catalog="lake", namespace=(world.namespace,))
    lineage = LineageReader(world.session).read(query)
    columns = stored_schema(world.session, lineage.sources[0].table).names
    before = started_jobs(world.session)
    net = changed_rows(world.session, lineage, lineage.sources[0], old, new, columns)
    jobs = started_jobs(world.session) - before
    rows = net.frame.collect()
    return Counter({repr(tuple(row[:-1])): row[COPIES] for row in rows}), jobs


def files(world: RefreshWorld, old: str, new: str) -> FileDifference:
    query = Query(text="SELECT * FROM t", catalog="lake", namespace=(world.namespace,))
    return files_between(world.session, LineageReader(world.session).read(query).sources[0].table, old, new)


def difference(world: RefreshWorld, old: str, new: str) -> Counter[str]:
    """Return the difference of the rows that plain Spark reads of both versions."""
    before, after = (
        Counter(
            repr(tuple(row)) for row in world.session.sql(f"SELECT * FROM t VERSION AS OF {each}").collect()
        )
        for each in (old, new)
    )
    after.subtract(before)
    return Counter({row: count for row, count in after.items() if count})


def check(world: RefreshWorld, old: str, new: str, rows: int) -> None:
    """Assert that the versions differ by a number of distinct *rows*, which are found without a job."""
    found, jobs = net_change(world, old, new)

    assert found == difference(world, old, new)
    assert (len(found), jobs) == (rows, 0)


@pytest.mark.parametrize(
    ("columns", "properties"),
    [
        (FLAT, "'format-version' = '2'"),
        (NESTED, "'format-version' = '2'"),
        pytest.param(FLAT, "'write.format.default' = 'orc'", marks=pytest.mark.slow),
        pytest.param(NESTED, "'write.format.default' = 'avro'", marks=pytest.mark.slow),
    ],
)
def test_updated_rows_are_found_in_files_that_were_rewritten_in_another_order(
    world: RefreshWorld, columns: str, properties: str
) -> None:
    create(world, columns, properties)
    old = version(world)
    world.spark(
        "INSERT OVERWRITE t SELECT * FROM t ORDER BY hash(id)",
        "UPDATE t SET s = 'new' WHERE id % 100 = 0",
        "DELETE FROM t WHERE id % 100 = 1",
    )
    new = version(world)

    check(world, old, new, 90)
    check(world, new, old, 90)


def test_rows_are_the_same_only_if_no_query_tells_them_apart(world: RefreshWorld) -> None:
    world.spark(
        "CREATE TABLE t USING iceberg AS SELECT * FROM VALUES "
        "(1, 0.0D, '', 1, CAST(NULL AS INT)), (2, CAST('NaN' AS DOUBLE), NULL, 1, 1), (3, 5.0D, 'a', 1, 1) "
        "AS v(id, d, s, x, y)"
    )
    old = version(world)
    world.spark("INSERT OVERWRITE t SELECT * FROM t ORDER BY id DESC")
    same = version(world)
    world.spark(
        "INSERT OVERWRITE t SELECT id, -d AS d, s, x, y FROM t WHERE id = 1 "
        "UNION ALL SELECT id, d, '' AS s, x, y FROM t WHERE id = 2 "
        "UNION ALL SELECT id, d, s, CAST(NULL AS INT), x FROM t WHERE id = 3"
    )

    check(world, old, same, 0)
    check(world, same, version(world), 6)


def test_rows_of_files_with_other_columns_are_compared_as_the_table_is_now(world: RefreshWorld) -> None:
    create(world)
    world.spark(
        "ALTER TABLE t ADD COLUMN more INT FIRST",
        "ALTER TABLE t RENAME COLUMN s TO text",
        "ALTER TABLE t DROP COLUMN b",
        "ALTER TABLE t ALTER COLUMN id TYPE BIGINT",
        "ALTER TABLE t ALTER COLUMN d AFTER f",
        "ALTER TABLE t ADD COLUMN s STRING",
        # Only a new snapshot is read with the new columns.
        "INSERT INTO t (id) VALUES (-1)",
    )
    old = version(world)
    world.spark("UPDATE t SET more = 5 WHERE id = 7", "UPDATE t SET s = 'a' WHERE id = 8")

    check(world, old, version(world), 4)


@pytest.mark.parametrize(
    ("properties", "partitions"),
    [
        (f"'format-version' = '2', {MERGE_ON_READ}, 'write.delete.granularity' = 'file'", ""),
        (f"'format-version' = '2', {MERGE_ON_READ}, 'write.delete.granularity' = 'partition'", ""),
        (f"'format-version' = '3', {MERGE_ON_READ}", "PARTITIONED BY (flag)"),
        pytest.param(
            f"'format-version' = '2', {MERGE_ON_READ}, 'write.format.default' = 'orc'",
            "",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_of_files_with_other_deleted_positions_only_the_rows_there_are_read(
    world: RefreshWorld, properties: str, partitions: str
) -> None:
    world.spark(
        f"CREATE TABLE t USING iceberg {partitions} TBLPROPERTIES ({properties}) AS SELECT {FLAT} "
        "FROM range(0, 3000, 1, 3)"
    )
    first = version(world)
    world.spark("DELETE FROM t WHERE id % 300 = 5")
    old = version(world)
    world.spark("DELETE FROM t WHERE id % 300 = 6", "UPDATE t SET s = 'new' WHERE id % 300 = 7")
    new = version(world)

    assert files(world, old, new).rows_read <= 60
    check(world, old, new, 30)
    check(world, new, old, 30)
    check(world, first, new, 40)
    world.spark(f"CALL lake.system.rollback_to_snapshot('{world.namespace}.t', {old})")
    world.spark("DELETE FROM t WHERE id % 300 IN (6, 8)")
    check(world, new, version(world), 30)


@pytest.mark.parametrize(
    ("columns", "change", "rows"),
    [
        (NESTED, "UPDATE t SET s = 'new', st.y = array(NULL, st.y[0]) WHERE id % 100 = 0", 60),
        pytest.param(FLAT, "UPDATE t SET d = 0.0 * -1 WHERE id = 0", 2, marks=pytest.mark.slow),
        pytest.param(FLAT, "INSERT OVERWRITE t SELECT * FROM t ORDER BY hash(id)", 0, marks=pytest.mark.slow),
    ],
)
def test_a_job_finds_the_rows_of_what_is_large(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, columns: str, change: str, rows: int
) -> None:
    create(world, columns)
    old = version(world)
    world.spark(change)
    new = version(world)
    monkeypatch.setattr(row_images, "MOST_READ_ROWS", -1)

    found, jobs = net_change(world, old, new)

    assert found == difference(world, old, new)
    assert (len(found), jobs > 0) == (rows, True)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE t SET s = 'new' WHERE id < 500",
        pytest.param("DELETE FROM t WHERE id < 1000", marks=pytest.mark.slow),
    ],
)
def test_a_job_finds_rows_that_are_more_than_the_driver_keeps(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    create(world)
    old = version(world)
    world.spark(change)
    monkeypatch.setattr(row_images, "MOST_LOCAL", 400)

    found, jobs = net_change(world, old, version(world))

    assert found == difference(world, old, version(world))
    assert jobs > 0


def test_a_cancelled_run_reads_no_changed_rows(world: RefreshWorld, spark_driver: SparkDriver) -> None:
    create(world)
    old = version(world)
    world.spark("UPDATE t SET s = 'new' WHERE id % 100 = 0")
    new = version(world)

    def cancelled() -> None:
        with spark_driver.run_tagged("ended", "refresh", "a refresh that is cancelled"):
            spark_driver.cancel("ended")
            net_change(world, old, new)

    with pytest.raises(Canceled):
        cancelled()
    check(world, old, new, 60)
