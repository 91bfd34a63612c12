"""Of files that were rewritten, the lineage of rows tells which rows differ, where writers keep it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from mt_core.spark.driver.jvm_objects import static_member
from mt_core.spark.readings import row_images
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.integration.test_changed_rows import check, difference, files, version

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FORMAT_3 = "'format-version' = '3', 'write.distribution-mode' = 'none'"


@pytest.fixture(autouse=True)
def narrow_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare the tables here by lineage, although they have only two columns."""
    monkeypatch.setattr(row_images, "FEWEST_LINEAGE", 1)


def create(world: RefreshWorld, name: str = "t", files: int = 3, properties: str = FORMAT_3) -> None:
    """Create a table of 3,000 rows. Tables of other names have other values."""
    value = "CAST(id % 7 AS STRING)" if name == "t" else f"'{name}'"
    world.spark(
        f"CREATE TABLE {name} USING iceberg TBLPROPERTIES ({properties}) "
        f"AS SELECT CAST(id AS INT) AS id, {value} AS s FROM range(0, 3000, 1, {files})"
    )


def is_used(world: RefreshWorld, old: str, new: str) -> bool:
    """Return whether rows that differ between two versions were found by their lineage."""
    between = files(world, old, new)
    return bool(between.lineage.identifies(between.java)) and between.lineage.wrongWriter() is None


def loaded(world: RefreshWorld, name: str) -> Any:
    load = static_member(world.session, "org.apache.iceberg.spark.Spark3Util.loadIcebergTable")
    return load(world.session._jsparkSession, f"lake.{world.namespace}.{name}")


def data_files(table: Any) -> list[Any]:
    tasks = table.newScan().planFiles().iterator()
    found = []
    while tasks.hasNext():
        found.append(tasks.next().file())
    return found


def added_to(table: Any, file: Any, world: RefreshWorld) -> Any:
    """Return the file of another table as a new file of *table*."""
    build = static_member(world.session, "org.apache.iceberg.DataFiles.builder")
    return (
        build(table.spec())
        .withPath(file.location())
        .withFormat("parquet")
        .withFileSizeInBytes(file.fileSizeInBytes())
        .withRecordCount(file.recordCount())
        .build()
    )


def test_rows_that_were_changed_are_found_by_lineage(world: RefreshWorld) -> None:
    create(world)
    first = version(world)
    world.spark(
        "UPDATE t SET s = 'new' WHERE id % 100 = 0",
        "UPDATE t SET s = s WHERE id % 100 = 3",
        "DELETE FROM t WHERE id % 100 = 1",
    )
    second = version(world)
    world.spark(
        "INSERT INTO t VALUES (5000, 'a'), (5000, 'a')",
        "MERGE INTO t USING (SELECT id * 150 AS id FROM range(30)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET s = 'merged' "
        "WHEN NOT MATCHED THEN INSERT (id, s) VALUES (s.id, 'more')",
    )
    third = version(world)
    world.spark(
        f"CALL lake.system.rewrite_data_files(table => '{world.namespace}.t', strategy => 'sort', "
        "sort_order => 's DESC', options => map('rewrite-all', 'true'))"
    )
    compacted = version(world)

    assert all(is_used(world, *pair) for pair in [(first, second), (second, third), (first, compacted)])
    check(world, first, second, 90)
    check(world, second, third, 51)
    check(world, third, compacted, 0)
    check(world, first, compacted, len(difference(world, first, compacted)))
    check(world, compacted, first, len(difference(world, first, compacted)))


def test_rows_are_told_apart_by_lineage_after_a_rollback_and_on_a_branch(world: RefreshWorld) -> None:
    create(world)
    first = version(world)
    world.spark("INSERT INTO t VALUES (5000, 'a')", "UPDATE t SET s = 'undone' WHERE id % 100 = 0")
    undone = version(world)
    world.spark(
        f"CALL lake.system.rollback_to_snapshot('{world.namespace}.t', {first})",
        "INSERT INTO t VALUES (5000, 'b')",
        "UPDATE t SET s = 'other' WHERE id % 100 IN (0, 1)",
        f"ALTER TABLE t CREATE BRANCH side AS OF VERSION {first}",
        f"UPDATE lake.{world.namespace}.t.branch_side SET s = 'side' WHERE id % 100 = 0",
    )
    other, side = version(world), str(loaded(world, "t").refs().get("side").snapshotId())

    assert all(is_used(world, *pair) for pair in [(undone, other), (other, side), (undone, first)])
    check(world, undone, other, 122)
    check(world, other, side, 121)
    check(world, undone, first, 61)


def test_columns_are_compared_where_rows_have_no_ids_yet(world: RefreshWorld) -> None:
    create(world, properties="'format-version' = '2'")
    old = version(world)
    world.spark(
        "ALTER TABLE t SET TBLPROPERTIES ('format-version' = '3')",
        "UPDATE t SET s = 'new' WHERE id % 100 = 0",
    )
    new = version(world)
    world.spark("UPDATE t SET s = 'newer' WHERE id % 100 = 1")

    assert not is_used(world, old, new)
    assert is_used(world, new, version(world))
    check(world, old, new, 60)
    check(world, new, version(world), 60)


def test_rows_that_a_writer_gives_new_ids_are_compared_by_columns(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(world)
    old = version(world)
    world.spark("INSERT OVERWRITE t SELECT id, IF(id % 100 = 0, 'new', s) FROM t ORDER BY hash(id)")
    monkeypatch.setattr(row_images, "MOST_LOCAL", 400)

    check(world, old, version(world), 60)


def test_columns_are_compared_after_a_commit_of_an_unknown_writer(world: RefreshWorld) -> None:
    create(world)
    old = version(world)
    world.spark("UPDATE t SET s = 'new' WHERE id % 100 = 0")
    context = static_member(world.session, "org.apache.iceberg.EnvironmentContext.put")
    context("engine-name", "other")
    try:
        world.spark("UPDATE t SET s = 'new' WHERE id % 100 = 1")
    finally:
        context("engine-name", "spark")
    world.spark("UPDATE t SET s = 'new' WHERE id % 100 = 2")

    assert not is_used(world, old, version(world))
    check(world, old, version(world), 180)


def test_a_writer_that_keeps_the_lineage_of_changed_rows_is_found_out_and_named(
    world: RefreshWorld, caplog: pytest.LogCaptureFixture
) -> None:
    create(world, files=1)
    create(world, "wrong", files=1)
    world.spark("DELETE FROM wrong WHERE id % 1000 = 5")
    old, table = version(world), loaded(world, "t")
    overwrite = table.newOverwrite()
    for file in data_files(table):
        overwrite.deleteFile(file)
    for file in data_files(loaded(world, "wrong")):
        overwrite.addFile(added_to(table, file, world))
    overwrite.commit()
    new = version(world)
    lineages = [
        Counter(
            tuple(row)
            for row in world.session.sql(
                f"SELECT id, _row_id, _last_updated_sequence_number FROM t VERSION AS OF {each} "
                "WHERE id % 1000 <> 5"
            ).collect()
        )
        for each in (old, new)
    ]

    assert lineages[0] == lineages[1]
    assert is_used(world, old, new)
    check(world, old, new, len(difference(world, old, new)))
    [record] = [each for each in caplog.records if getattr(each, "action", "") == "row_lineage_wrong"]
    assert ".t is wrong" in record.getMessage()
    assert f"snapshot {new} by spark, Apache Iceberg 1." in record.getMessage()
    assert not is_used(world, old, new)


def test_columns_are_compared_after_files_of_another_table_were_added(
    world: RefreshWorld, tmp_path: Path
) -> None:
    create(world)
    create(world, "other")
    world.spark("DELETE FROM other WHERE id = 5")
    old = version(world)
    [row] = world.session.sql("SELECT DISTINCT _file FROM other WHERE id < 100").collect()
    (tmp_path / "other.parquet").write_bytes(Path(urlparse(row[0]).path).read_bytes())
    world.spark(
        f"CALL lake.system.add_files(table => '{world.namespace}.t', "
        f"source_table => '`parquet`.`{tmp_path}`')",
        "DELETE FROM t WHERE id < 100 AND s <> 'other'",
    )

    assert not is_used(world, old, version(world))
    check(world, old, version(world), len(difference(world, old, version(world))))
