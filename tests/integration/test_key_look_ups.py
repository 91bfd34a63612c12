"""Look-ups of rows by the values of other rows, which the process does without a job of Spark's."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.types import StructType

from mt_core.spark.driver.jvm_objects import own_class, static_member
from mt_core.spark.iceberg import look_ups
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint
from mt_core.spark.iceberg.jvm_rows import stored_schema
from mt_core.spark.iceberg.look_ups import Matches, Refusal, look_up, semi_join
from mt_core.spark.iceberg.scan_tasks import planned_tasks
from mt_core.spark.iceberg.written_files import FileWriter, collected
from mt_core.spark.readings.version_files import value_spans, version_files
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


MERGE_ON_READ = "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read'"
SMALL_PAGES = "'write.parquet.page-row-limit' = '200', 'write.parquet.row-group-size-bytes' = '60000'"


def create(world: RefreshWorld, options: str = MERGE_ON_READ, partitions: str = "") -> None:
    """Create table `t` with 8,000 rows in two files of several row groups with many pages."""
    world.spark(
        f"CREATE TABLE t USING iceberg {partitions} TBLPROPERTIES ({SMALL_PAGES}, {options}) AS "
        "SELECT id, CAST(id % 900 AS INT) AS n, IF(id % 4 = 0, NULL, CONCAT('b', id % 10)) AS text, "
        "id / 8 AS d, id % 3 AS part FROM range(0, 8000, 1, 2)"
    )


def table_of(world: RefreshWorld) -> Any:
    load = static_member(world.session, "org.apache.iceberg.spark.Spark3Util.loadIcebergTable")
    return load(world.session._jsparkSession, f"lake.{world.namespace}.t")


def files_of(world: RefreshWorld, table: Any) -> Any:
    return version_files(world.session, table, str(table.currentSnapshot().snapshotId()))


def found(
    world: RefreshWorld, keys: ComputedRows, matches: Matches, names: Sequence[str]
) -> ComputedRows | Refusal:
    table = table_of(world)
    stored = stored_schema(world.session, table)
    columns = StructType([each for each in stored.fields if each.name in names])
    return look_up(world.session, table, files_of(world, table), columns, keys, matches)


def check(
    world: RefreshWorld, keys: str, matches: Matches, names: Sequence[str] = ("id", "n", "text", "d")
) -> int:
    """Assert that a look-up finds what Spark finds, column by column, and return the number of rows."""
    given = rows_of(world.session, keys)

    rows = found(world, given, matches, names)

    frame = world.session.table("t")
    for of, to, null_safe in matches:
        values = given.frame.selectExpr(f"`{of}` AS _value").distinct().alias("v")
        on = expr(f"t.`{to}` {'<=>' if null_safe else '='} v._value")
        frame = frame.alias("t").join(values, on, "left_semi")
    expected = [str(row) for row in frame.select(*names).collect()]
    assert isinstance(rows, ComputedRows), rows
    assert sorted(str(row) for row in rows.frame.select(*names).collect()) == sorted(expected)
    return len(expected)


def rows_of(session: SparkSession, query: str) -> ComputedRows:
    return collect_or_checkpoint(session.sql(query))


@pytest.mark.parametrize(
    ("rows", "others", "null_safe"),
    [
        ("VALUES (1), (2), (NULL)", "VALUES (2L), (3L), (5000000000L), (NULL)", False),
        ("VALUES (1), (2), (NULL)", "VALUES (2L), (NULL)", True),
        ("VALUES (0L), (2L), (4294967298L)", "VALUES (2), (0)", False),
        ("VALUES ('a'), ('b'), ('')", "VALUES ('b'), ('')", False),
        ("VALUES (DATE '2026-01-01'), (NULL)", "VALUES (DATE '2026-01-01')", True),
        ("VALUES (true), (false)", "VALUES (false)", False),
        ("VALUES (1.25BD), (0.5BD)", "VALUES (1.25BD)", False),
        (
            "VALUES (TIMESTAMP_NTZ '2026-01-01'), (NULL)",
            "SELECT TIMESTAMP_NTZ '2026-01-01' WHERE false",
            True,
        ),
    ],
)
def test_rows_are_reduced_to_those_with_a_partner(
    world: RefreshWorld, rows: str, others: str, null_safe: bool
) -> None:
    given = rows_of(world.session, f"SELECT * FROM ({rows}) AS r(x)")
    partners = rows_of(world.session, f"SELECT * FROM ({others}) AS o(y)")
    matches: Matches = [("y", "x", null_safe)]

    reduced = semi_join(given, partners, matches)

    expected = (
        given.frame.alias("r")
        .join(partners.frame, on=None, how="cross")
        .where(f"x {'<=>' if null_safe else '='} y")
        .select("x")
    )
    assert sorted(map(str, reduced.frame.collect())) == sorted(map(str, expected.collect()))
    assert reduced.schema == given.schema


def test_pairs_of_columns_are_compared_one_by_one_and_values_that_cannot_be_compared_match(
    world: RefreshWorld,
) -> None:
    given = rows_of(
        world.session, "SELECT * FROM VALUES (1, 'a', 1.0D), (1, 'b', 2.0D), (3, 'b', 1D) AS r(a, b, c)"
    )
    others = rows_of(world.session, "SELECT * FROM VALUES (1, 'b', 7D), (2, 'a', 7D) AS o(d, e, f)")

    reduced = semi_join(given, others, [("d", "a", False), ("e", "b", False), ("f", "c", False)])

    assert sorted((row.a, row.b) for row in reduced.frame.collect()) == [(1, "a"), (1, "b")]


EXACT = {
    "BIGINT": "1L, 2L, 5000000000L",
    "TINYINT": "1Y, 2Y, -1Y",
    "STRING": "'a', 'b', ''",
    "DOUBLE": "0.0D, -0.0D, double('NaN')",
    "DECIMAL(38, 4)": "1.5BD, -1.5BD, 99999999999999999999999.1BD",
    "BINARY": "X'00', X'0000', X''",
    "STRUCT<a: FLOAT, b: ARRAY<STRING>>": (
        "named_struct('a', 0.0F, 'b', array('x', NULL)), named_struct('a', -0.0F, 'b', array('x', NULL)), "
        "named_struct('a', NULL, 'b', NULL)"
    ),
}
"""Three values of each of some types that GROUP BY permits."""


def test_an_exact_semi_join_compares_tuples_of_values_of_all_types_of_keys(world: RefreshWorld) -> None:
    for type_, values in EXACT.items():
        for other in {type_, "INT" if type_ == "TINYINT" else type_}:
            given, others = (
                rows_of(
                    world.session,
                    f"WITH v AS (SELECT explode(array({values}, NULL)) x) SELECT CAST(l.x AS {kind}) AS x, "
                    f"r.x AS y, {number} AS n FROM v AS l CROSS JOIN v AS r",
                )
                for number, kind in enumerate((type_, other))
            )
            kept = collect_or_checkpoint(others.frame.where("hash(x, y) % 3 = 0"))
            for null_safe in ((False, False), (True, False), (True, True)):
                matches = list(zip("xy", "xy", null_safe, strict=True))

                found = semi_join(given, kept, matches, exact=True)

                on = " AND ".join(f"g.{a} {'<=>' if null else '='} k.{b}" for a, b, null in matches)
                expected = given.frame.alias("g").join(kept.frame.alias("k"), expr(on), "left_semi")
                listed = sorted(map(str, expected.collect()))
                assert sorted(map(str, found.frame.collect())) == listed, (type_, null_safe)
                assert 0 < len(listed) < 16


@pytest.mark.parametrize(
    "keys",
    [
        "SELECT CAST(id * 37 AS INT) AS k FROM range(100)",
        "SELECT id * 37 AS k FROM range(100)",
        "SELECT IF(id = 7, NULL, id + IF(id % 2 = 0, 5000000000, 0)) AS k FROM range(20)",
    ],
)
def test_integers_of_both_widths_are_looked_up_by_their_value(world: RefreshWorld, keys: str) -> None:
    create(world)

    assert check(world, keys, [("k", "n", False)]) > 0
    assert check(world, keys, [("k", "id", False)]) > 0


def test_rows_are_looked_up_by_several_columns_and_null_only_where_it_equals_null(
    world: RefreshWorld,
) -> None:
    create(world)
    keys = "SELECT * FROM VALUES (5, 'b5'), (8, NULL), (12, 'b2'), (NULL, 'b7') AS k(k, s)"

    assert check(world, keys, [("k", "id", False), ("s", "text", False)]) == 1
    assert check(world, keys, [("k", "id", False), ("s", "text", True)]) == 3
    assert check(world, keys, [("s", "text", True)]) == 4000
    assert check(world, keys, [("k", "id", False), ("k", "n", False)]) == 3
    assert check(world, "SELECT CAST(NULL AS BIGINT) AS k", [("k", "id", False)]) == 0
    assert check(world, "SELECT 5000000000 AS k", [("k", "n", False)]) == 0


def test_deleted_rows_are_left_out_and_a_new_version_opens_only_files_with_other_deletes(
    world: RefreshWorld,
) -> None:
    create(world, f"{MERGE_ON_READ}, 'format-version' = '2'")
    world.spark("DELETE FROM t WHERE id % 1000 = 3")
    keys = "SELECT id * 500 + 3 AS k FROM range(16)"
    assert check(world, keys, [("k", "id", False)]) == 8
    table = table_of(world)
    old = files_of(world, table)
    first = str(table.currentSnapshot().snapshotId())
    assert (old.count(), old.opened()) == (2, 2)

    world.spark("DELETE FROM t WHERE id = 503", "INSERT INTO t SELECT * FROM t WHERE id = 1503")

    table.refresh()
    assert (files_of(world, table).count(), files_of(world, table).opened()) == (3, 1)
    assert check(world, keys, [("k", "id", False)]) == 8
    assert files_of(world, table).opened() == 3
    world.spark(f"CALL lake.system.rollback_to_snapshot('{world.namespace}.t', {first})")
    assert check(world, keys, [("k", "id", False)]) == 8


@pytest.mark.parametrize("version", ["2", "3"])
def test_rows_that_several_versions_deleted_are_left_out(world: RefreshWorld, version: str) -> None:
    create(world, f"{MERGE_ON_READ}, 'format-version' = '{version}'")
    keys, matches = "SELECT id * 100 AS k FROM range(80)", [("k", "id", False)]
    assert check(world, keys, matches) == 80

    for left, change in [
        (70, "DELETE FROM t WHERE id % 800 = 0"),
        (60, "DELETE FROM t WHERE id % 800 = 100"),
        (60, "UPDATE t SET d = 1 WHERE id % 800 = 200"),
    ]:
        world.spark(change)
        assert check(world, keys, matches) == left


def _orc(world: RefreshWorld) -> None:
    create(world)
    world.spark(
        "ALTER TABLE t SET TBLPROPERTIES ('write.format.default' = 'orc')",
        "INSERT INTO t SELECT * FROM t WHERE id % 100 = 5",
    )


def _avro(world: RefreshWorld) -> None:
    create(world, f"{MERGE_ON_READ}, 'write.format.default' = 'avro'")
    world.spark("DELETE FROM t WHERE id = 1505")


def _added_column(world: RefreshWorld) -> None:
    create(world)
    world.spark(
        "ALTER TABLE t ADD COLUMN more INT",
        "INSERT INTO t SELECT id, n, text, d, part, 1 FROM t WHERE id < 50",
    )


def _widened_column(world: RefreshWorld) -> None:
    create(world)
    world.spark("ALTER TABLE t ALTER COLUMN n TYPE BIGINT", "INSERT INTO t SELECT * FROM t WHERE id < 50")


def _renamed_column(world: RefreshWorld) -> None:
    create(world)
    world.spark(
        "ALTER TABLE t RENAME COLUMN text TO other",
        "ALTER TABLE t ADD COLUMN text STRING AFTER n",
        "INSERT INTO t SELECT id, n, other, other, d, part FROM t WHERE id < 50",
    )


def _partitions(world: RefreshWorld) -> None:
    create(world, partitions="PARTITIONED BY (part, bucket(3, id))")
    world.spark("DELETE FROM t WHERE id % 7 = 0")


def _equality_deletes(world: RefreshWorld) -> None:
    create(world, f"{MERGE_ON_READ}, 'format-version' = '2'")
    table = table_of(world)
    writer, delta = FileWriter.of(world.session, table), table.newRowDelta()
    deleted = world.session.sql("SELECT id FROM t WHERE id IN (5, 105, 4005)")
    delta.addDeletes(writer.equality_deletes(collected(deleted), ["id"]))
    delta.commit()


def _nested_column(world: RefreshWorld) -> None:
    create(world)
    world.spark(
        "ALTER TABLE t ADD COLUMN more STRUCT<a: INT>",
        "UPDATE t SET more = named_struct('a', n) WHERE id < 4500",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "more"),
    [
        (_orc, ()),
        (_avro, ()),
        (_added_column, ("more",)),
        (_widened_column, ()),
        (_renamed_column, ()),
        (_partitions, ("part",)),
        (_equality_deletes, ()),
        (_nested_column, ("more",)),
    ],
)
def test_files_that_our_reader_does_not_know_give_the_same_rows(
    world: RefreshWorld, make: Callable[[RefreshWorld], None], more: Sequence[str]
) -> None:
    make(world)
    names = ["id", "n", "text", "d", *more]
    keys = "SELECT * FROM VALUES (5, 'b5'), (8, NULL), (105, 'b5'), (1505, 'b5'), (7000, NULL) AS k(k, s)"

    assert check(world, keys, [("k", "id", False)], names) > 0
    assert check(world, keys, [("k", "id", False), ("s", "text", True)], names) > 0
    assert check(world, keys, [("k", "n", False)], names) > 0


def test_a_look_up_says_why_it_is_refused(world: RefreshWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    create(world)
    world.spark("DELETE FROM t WHERE id % 2 = 1")
    keys, matches = rows_of(world.session, "SELECT id AS k FROM range(8000)"), [("k", "id", False)]

    for limit, refusal in [
        ("MOST_LOCAL", Refusal.ROWS),
        ("MOST_READ", Refusal.PAGES),
        ("MOST_CANDIDATES", Refusal.PAGES),
        ("MOST_FILES", Refusal.FILES),
        ("MOST_POSITIONS", Refusal.FILES),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(look_ups, limit, 1)
            assert found(world, keys, matches, ["id", "d"]) is refusal, limit
    assert isinstance(found(world, keys, matches, ["id", "d"]), ComputedRows)


def test_files_that_cannot_have_a_key_are_not_opened(world: RefreshWorld) -> None:
    world.spark(
        "CREATE TABLE t (id BIGINT, n INT, day DATE, text STRING) USING iceberg "
        "TBLPROPERTIES ('write.distribution-mode' = 'none')",
        "INSERT INTO t SELECT /*+ REPARTITION_BY_RANGE(70, id) */ id, CAST(id / 7 AS INT), "
        "DATE '2026-01-01' + CAST(id / 700 AS INT), 'x' FROM range(7000)",
    )
    table = table_of(world)
    opened = files_of(world, table)
    names = ("id", "n", "day", "text")
    assert opened.count() == 70

    assert (
        check(world, "SELECT * FROM VALUES (4), (6990), (-1), (NULL) AS k(k)", [("k", "id", False)], names)
        == 2
    )
    assert opened.opened() == 2
    assert (
        check(world, "SELECT 3 AS k, DATE '2026-01-09' AS d", [("k", "n", False), ("d", "day", False)], names)
        == 0
    )
    assert opened.opened() == 2
    assert check(world, "SELECT CAST(NULL AS INT) AS k", [("k", "n", True)], names) == 0
    assert opened.opened() == 70

    world.spark("INSERT INTO t VALUES (20000, NULL, NULL, 'y')", "ALTER TABLE t ALTER COLUMN n TYPE BIGINT")
    assert check(world, "SELECT 20000 AS k", [("k", "id", False)], names) == 1
    assert check(world, "SELECT 900L AS k", [("k", "n", False)], names) == 7


def test_the_numbers_of_possible_values_are_read_of_metadata(world: RefreshWorld) -> None:
    create(world)
    table = table_of(world)
    stored = stored_schema(world.session, table)

    spans = value_spans(world.session, table, str(table.currentSnapshot().snapshotId()), stored)

    assert spans == {"id": 8000, "n": 900, "part": 3}


def test_rows_that_iceberg_reads_count_for_the_limits(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(world, "'write.format.default' = 'orc'")
    keys, matches = rows_of(world.session, "SELECT id AS k FROM range(100)"), [("k", "id", False)]

    for limit, value, refusal in [
        ("MOST_LOCAL", 99, Refusal.ROWS),
        ("MOST_READ", 4 * 8000 - 1, Refusal.PAGES),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(look_ups, limit, value)
            assert found(world, keys, matches, ["id", "d"]) is refusal, limit
        monkeypatch.setattr(look_ups, limit, value + 1)
    assert isinstance(found(world, keys, matches, ["id", "d"]), ComputedRows)


def test_a_file_that_a_table_has_twice_is_left_to_a_job(world: RefreshWorld) -> None:
    create(world)
    table = table_of(world)
    tasks = planned_tasks(world.session, table.newScan())
    table.newAppend().appendFile(tasks[0].file()).commit()

    keys = rows_of(world.session, "SELECT 5L AS k")

    assert found(world, keys, [("k", "id", False)], ["id"]) is Refusal.FILES


def test_a_damaged_file_is_left_to_a_job_which_reports_it(world: RefreshWorld) -> None:
    create(world)
    task = planned_tasks(world.session, table_of(world).newScan())[0]
    path = Path(urlsplit(str(task.file().location())).path)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.write_bytes(path.read_bytes()[:-100])

    keys = rows_of(world.session, "SELECT 5L AS k")

    assert found(world, keys, [("k", "id", False)], ["id"]) is Refusal.UNREADABLE


def test_a_column_that_the_table_has_no_more_is_left_to_a_job_which_reports_it(world: RefreshWorld) -> None:
    create(world)
    keys, matches = rows_of(world.session, "SELECT 5L AS k"), [("k", "id", False)]
    columns, table = stored_schema(world.session, table_of(world)), table_of(world)
    files = files_of(world, table)
    world.spark("ALTER TABLE t DROP COLUMN d")
    table.refresh()

    assert look_up(world.session, table, files, columns, keys, matches) is Refusal.UNREADABLE


def test_a_manifest_that_is_gone_is_left_to_a_job_which_reports_it(world: RefreshWorld) -> None:
    world.spark(
        "CREATE TABLE t (id BIGINT) USING iceberg TBLPROPERTIES ('write.distribution-mode' = 'none')",
        "INSERT INTO t SELECT /*+ REPARTITION(70) */ id FROM range(700)",
    )
    table = table_of(world)
    files_of(world, table)
    for manifest in table.currentSnapshot().allManifests(table.io()):
        Path(urlsplit(str(manifest.path())).path).unlink()

    keys = rows_of(world.session, "SELECT 5L AS k")

    assert found(world, keys, [("k", "id", False)], ["id"]) is Refusal.UNREADABLE


def test_a_deleted_row_at_the_end_of_a_large_file_takes_little_memory(world: RefreshWorld) -> None:
    world.spark(
        f"CREATE TABLE t USING iceberg TBLPROPERTIES ({MERGE_ON_READ}) AS "
        "SELECT id FROM range(0, 2000000, 1, 1)",
        "DELETE FROM t WHERE id = 1999999",
    )
    keys, matches = rows_of(world.session, "SELECT 1999999L AS k"), [("k", "id", False)]
    files = files_of(world, table_of(world))
    size = static_member(world.session, "org.apache.spark.util.SizeEstimator.estimate")
    before = size(files)

    rows = found(world, keys, matches, ["id"])

    assert isinstance(rows, ComputedRows)
    assert rows.count() == 0
    assert size(files) - before < 50_000

    world.spark("DELETE FROM t WHERE id < 1000000")

    assert (files.weight(), files_of(world, table_of(world)).weight()) == (1, 1 + 1_000_001 // 500)


def test_a_look_up_is_counted_and_cancelled_like_a_job(world: RefreshWorld) -> None:
    create(world)
    keys, matches = rows_of(world.session, "SELECT 5L AS k"), [("k", "id", False)]
    tasks = own_class(world.session, "freshtable.inline.InlineTasks")
    context = world.session.sparkContext

    context.addJobTag("look-up")
    try:
        found(world, keys, matches, ["id", "d"])
        ended, begun, read = json.loads(tasks.counts("look-up"))
        assert (ended, begun) == (1, 1)
        assert 1 < read < 1000

        tasks.cancel("look-up")
        with pytest.raises(Py4JJavaError, match="TaskKilledException"):
            found(world, keys, matches, ["id", "d"])
    finally:
        context.removeJobTag("look-up")
