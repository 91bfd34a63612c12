"""What the process reads of a table's files itself is what a job of Spark's reads of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from py4j.protocol import Py4JJavaError
from pyarrow import array, compute
from pyarrow.parquet import ParquetFile

from mt_core.base.identifiers import quote
from mt_core.spark.driver.jvm_objects import static_member, texts
from mt_core.spark.iceberg import look_ups, scan_tasks
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint, local_rows
from mt_core.spark.iceberg.find_rows import LookupKeys, find_rows_locally
from mt_core.spark.iceberg.scan_tasks import planned_tasks
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.support.gateway.own_process import wait_until
from tests.support.jvm_functions import java_function

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

COLUMNS = {
    "i": "CAST(id % 700 AS INT) - 300",
    "l": "id % 650 + 5000000000",
    "s": "CAST(id % 600 AS STRING)",
    "small": "CAST(id % 550 AS DECIMAL(9, 2)) / 8",
    "middle": "CAST(id % 500 AS DECIMAL(18, 3)) * 1000000000",
    "large": "CAST(CAST(id % 450 AS DECIMAL(20, 4)) * 1000000000 - 5 AS DECIMAL(30, 4))",
    "day": "DATE '1969-12-31' + CAST(id % 400 AS INT)",
    "t": "TIMESTAMP '1969-12-31 23:59:59.000001' + make_interval(0, 0, 0, 0, 0, CAST(id % 350 AS INT))",
    "ntz": "TIMESTAMP_NTZ '1969-12-31 23:59:59.000001' + make_interval(0, 0, 0, 0, 0, CAST(id % 300 AS INT))",
    "b": "CAST(CAST(id % 250 AS STRING) AS BINARY)",
    "flag": "id % 2 = 0",
    "f": "CAST(IF(id % 9 = 0, 'NaN', CAST(id % 5 AS STRING)) AS FLOAT)",
    "d": "CAST(id % 6 AS DOUBLE) / 4",
}
"""Columns of each type, NULL in some rows."""
IDS = array([6, 7, 8, 500, 502, 4020, 7999])
LOOKED_UP = [name for name in COLUMNS if name not in ("f", "d")]
SMALL_PAGES = "'write.parquet.page-row-limit' = '200', 'write.parquet.row-group-size-bytes' = '60000'"
MERGE_ON_READ = "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read'"


def create(world: RefreshWorld, options: str = MERGE_ON_READ) -> Any:
    """Return Iceberg's table `t` with 8,000 rows in two files of several row groups with many pages."""
    items = ", ".join(
        f"IF(id % 11 = {number % 11}, NULL, {column}) AS {name}"
        for number, (name, column) in enumerate(COLUMNS.items())
    )
    world.spark(
        f"CREATE TABLE t USING iceberg TBLPROPERTIES ({SMALL_PAGES}, {options}) AS SELECT id, {items} "
        "FROM range(0, 8000, 1, 2)"
    )
    return table_of(world)


def table_of(world: RefreshWorld) -> Any:
    load = static_member(world.session, "org.apache.iceberg.spark.Spark3Util.loadIcebergTable")
    return load(world.session._jsparkSession, f"lake.{world.namespace}.t")


def threads(world: RefreshWorld) -> list[str]:
    """Return the names of the threads of the JVM."""
    found = static_member(world.session, "java.lang.Thread.getAllStackTraces")().keySet()
    return texts(
        world.session, found.stream().map(java_function(world.session, "java.lang.Thread.getName")).toList()
    )


def damage(task: Any, column: int) -> Path:
    """Damage the first values of a column in the file of a task."""
    path = Path(urlsplit(str(task.file().location())).path)
    # Hadoop would find the damage by its checksums.
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    content, chunk = bytearray(path.read_bytes()), ParquetFile(path).metadata.row_group(0).column(column)
    place = content.index(b"\x28\xb5\x2f\xfd", chunk.dictionary_page_offset or chunk.data_page_offset)
    content[place : place + 4] = b"none"
    path.write_bytes(content)
    return path


def multiset(rows: Sequence[Any]) -> Counter[str]:
    return Counter(repr(tuple(row)) for row in rows)


def found(
    world: RefreshWorld, table: Any, keys: tuple[str, ...], values: str, columns: Sequence[str]
) -> ComputedRows | None:
    wanted = LookupKeys(rows=collect_or_checkpoint(world.session.sql(values)), keys=keys)
    return find_rows_locally(
        world.session, table, planned_tasks(world.session, table.newScan()), columns, wanted
    )


@pytest.mark.slow
def test_rows_are_looked_up_by_columns_of_every_type_with_their_places(world: RefreshWorld) -> None:
    create(world)
    world.spark(
        "ALTER TABLE t RENAME COLUMN s TO text",
        "DELETE FROM t WHERE id % 5 = 1 AND id < 6000",
        "INSERT INTO t SELECT * FROM t WHERE id % 100 = 0",
        "DELETE FROM t WHERE id % 300 = 0",
    )
    table, names = table_of(world), ["id", *("text" if name == "s" else name for name in COLUMNS)]
    frame = world.session.sql(f"SELECT {', '.join(map(quote, names))}, _file, _pos, _spec_id FROM t")
    stored = local_rows(frame, frame.toArrow())
    rows, tasks = stored.frame.collect(), planned_tasks(world.session, table.newScan())

    for keys in [
        *((name,) for name in names if name not in ("f", "d")),
        ("day", "text"),
        ("id", *LOOKED_UP[3:]),
    ]:
        given = stored.rows.filter(compute.is_in(stored.rows["id"], value_set=IDS)).select(list(keys))
        wanted = LookupKeys(
            rows=stored.select(keys).with_table(given.group_by(list(keys)).aggregate([])), keys=keys
        )
        found = find_rows_locally(world.session, table, tasks, names, wanted)

        assert found is not None, keys
        assert found.columns == [*names, "_file", "_pos", "_spec_id"]
        values = {tuple(row[key] for key in keys) for row in rows if row.id in IDS.to_pylist()}
        expected = [row for row in rows if tuple(row[key] for key in keys) in values]
        assert 0 < len(expected) < len(rows)
        assert multiset(found.frame.collect()) == multiset(expected), keys


def test_rows_that_are_in_the_table_are_found_by_the_column_that_tells_them_apart(
    world: RefreshWorld,
) -> None:
    create(world)
    # Rows 0 to 3 are in the table twice, rows 4 to 6 also with another s.
    world.spark(
        "INSERT INTO t SELECT * FROM t WHERE id < 4",
        f"INSERT INTO t (id, {', '.join(COLUMNS)}) SELECT id, "
        f"{', '.join('CAST(NULL AS STRING)' if name == 's' else name for name in COLUMNS)} "
        "FROM t WHERE id BETWEEN 4 AND 6",
    )
    names = ("id", "i", "s", "day")
    wanted = (
        f"SELECT {', '.join(names)}, CAST(count(*) AS INT) AS copies FROM t "
        f"WHERE id < 10 AND (s IS NOT NULL OR id NOT BETWEEN 4 AND 6) GROUP BY ALL"
    )
    keys = LookupKeys(rows=collect_or_checkpoint(world.session.sql(wanted)), keys=names, copies="copies")
    table = table_of(world)

    rows = find_rows_locally(world.session, table, planned_tasks(world.session, table.newScan()), names, keys)

    assert rows is not None
    expected = world.session.sql(
        f"SELECT {', '.join(names)}, _file, _pos FROM t "
        "WHERE id < 10 AND (s IS NOT NULL OR id NOT BETWEEN 4 AND 6)"
    )
    assert multiset(rows.frame.drop("_spec_id").collect()) == multiset(expected.collect())


@pytest.mark.slow
def test_files_that_are_not_as_the_table_is_now_give_what_a_job_reads(world: RefreshWorld) -> None:
    create(world)
    values = "SELECT CAST(5 AS BIGINT) AS id"

    def check(columns: Sequence[str], values: str = values) -> None:
        (key,) = world.session.sql(values).columns
        rows = found(world, table_of(world), (key,), values, columns)
        expected = world.session.sql(
            f"SELECT {', '.join(columns)}, _pos FROM t WHERE {key} IN ({values})"
        ).collect()
        assert rows is not None
        assert multiset(rows.frame.select(*columns, "_pos").collect()) == multiset(expected)

    check(["id", "i"])
    world.spark("ALTER TABLE t ADD COLUMN more INT", "ALTER TABLE t ALTER COLUMN i TYPE BIGINT")
    for columns in (["id", "l"], ["id", "more"], ["id", "i"]):
        check(columns)
    check(["d"], "SELECT CAST(1 AS DOUBLE) AS d")
    check(["id"], "SELECT CAST(id AS INT) AS id FROM range(10)")
    world.spark(
        "ALTER TABLE t ADD PARTITION FIELD bucket(4, id)", "INSERT INTO t SELECT * FROM t WHERE id = 5"
    )
    check(["id"])


def test_many_files_are_left_to_a_job(world: RefreshWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(world)
    monkeypatch.setattr(look_ups, "MOST_FILES", 0)
    monkeypatch.setattr(scan_tasks, "MOST_FILES", 0)

    assert found(world, table, ("id",), "SELECT CAST(5 AS BIGINT) AS id", ["id"]) is None


def test_a_file_of_deletes_counts_once_however_many_files_it_applies_to(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(world, f"{MERGE_ON_READ}, 'write.delete.granularity' = 'partition'")
    world.spark(*(f"DELETE FROM t WHERE id % 1000 = {number}" for number in (1, 2)))
    table, wanted = table_of(world), "SELECT id FROM range(1000, 1004)"
    tasks = planned_tasks(world.session, table.newScan())
    deletes = {str(each.location()) for task in tasks for each in task.deletes().toArray()}
    assert len(deletes) < sum(int(task.deletes().size()) for task in tasks)
    monkeypatch.setattr(scan_tasks, "MOST_FILES", 0)

    monkeypatch.setattr(look_ups, "MOST_POSITIONS", 16)
    rows = found(world, table, ("id",), wanted, ["id"])
    assert rows is not None
    assert sorted(row.id for row in rows.frame.collect()) == [1000, 1003]
    monkeypatch.setattr(look_ups, "MOST_POSITIONS", 15)
    assert found(world, table, ("id",), wanted, ["id"]) is None


def test_a_damaged_file_is_an_error_and_is_not_kept_open(world: RefreshWorld) -> None:
    table = create(world)
    path = damage(planned_tasks(world.session, table.newScan())[0], 0)

    with pytest.raises(Py4JJavaError, match="could not decompress page"):
        found(world, table, ("id",), "SELECT CAST(5 AS BIGINT) AS id", ["id", "i"])

    jvm = static_member(world.session, "java.lang.ProcessHandle.current")().pid()
    # Another thread may be reading the file while this one has its answer.
    wait_until(
        lambda: str(path) not in map(os.path.realpath, Path(f"/proc/{jvm}/fd").iterdir()), "it is open"
    )


@pytest.mark.slow
def test_a_file_that_was_looked_up_twice_is_not_read_again_but_its_deleted_rows_are_left_out(
    world: RefreshWorld,
) -> None:
    create(world, f"{MERGE_ON_READ}, 'format-version' = '2'")
    values = "SELECT CAST(v AS INT) AS i FROM VALUES (-300), (-125), (50), (225) AS t(v)"
    columns = ["i", "l", "small", "day", "ntz", "flag", "d"]
    expected = f"SELECT {', '.join(columns)}, _file, _pos FROM t WHERE i IN (SELECT i FROM ({values}))"

    for change in [
        "SELECT 1",
        "DELETE FROM t WHERE id % 1400 = 0",
        "UPDATE t SET l = 7 WHERE id % 1400 = 700",
    ]:
        world.spark(change)
        rows = found(world, table_of(world), ("i",), values, columns)

        assert rows is not None
        assert multiset(rows.frame.drop("_spec_id").collect()) == multiset(
            world.session.sql(expected).collect()
        )
    table = table_of(world)
    tasks = planned_tasks(world.session, table.newScan())
    whole = next(task for task in tasks if int(task.file().recordCount()) == 4000)
    for column in ("i", "t"):
        damage(whole, ["id", *COLUMNS].index(column))

    again = found(world, table, ("i",), values, columns)

    assert again is not None
    assert multiset(again.frame.collect()) == multiset(rows.frame.collect())
    with pytest.raises(Py4JJavaError, match="could not decompress page"):
        found(world, table, ("i",), values, [*columns, "t"])


def test_files_are_read_by_threads_of_their_own_of_which_there_are_few(world: RefreshWorld) -> None:
    table = create(world)

    assert found(world, table, ("id",), "SELECT CAST(5 AS BIGINT) AS id", ["id"]) is not None

    assert 0 < threads(world).count("freshtable files") <= 16
