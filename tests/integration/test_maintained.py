"""A refresh that applies what changed gives what the query gives, in the way that the shape
of the query allows.
"""

from __future__ import annotations

import random
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mt_core.incremental import cost
from mt_core.incremental.stages.look_ups import SourceFacts
from mt_core.model.run import RunStatus
from mt_core.spark.readings import keyed_readings
from tests.depth import DEPTH, dice, rounds
from tests.integration.maintained_world import (
    AUTO,
    FORMATS,
    INCREMENTAL,
    KINDS,
    PARTS,
    Maintained,
    check_ways,
    picked,
    take_tables_for_large,
)
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.integration.shape_plans import plans_of
from tests.integration.upsert_writer import UpsertWriter
from tests.support.maintained_queries import PARTITIONED_QUERIES, QUERIES, SOURCES
from tests.support.recorded_plans import recorded, recorded_trees
from tests.support.started_jobs import started_jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SMALL_FOR_ROWS = ("left join", "join and aggregate", "window")
UPSERT = ", 'write.upsert' = 'equality-delete'"


def let_a_job_read_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a job compute the rows of keys that changed, as over large sources."""
    monkeypatch.setattr(SourceFacts, "is_small", property(lambda _: False))
    monkeypatch.setattr(keyed_readings, "MOST_LOCAL", -1)


def check_rows(maintained: Maintained, kind: str, other_kind: str) -> None:
    """Change rows of one source; then rows of the other, while the first is appended to."""
    source, other = maintained.random.sample(tuple(SOURCES), 2)
    maintained.change(source, kind)

    ways = maintained.refresh()

    expected = {
        query.name: query.rows[source] for query in maintained.tables.values() if source in query.rows
    }
    check_ways(ways, expected)
    maintained.append(source, 3)
    maintained.change(other, other_kind)
    maintained.refresh()


@pytest.mark.slow
@pytest.mark.skipif(
    DEPTH == 1, reason="make test-deep runs it; test_maintained_histories.py has the same queries"
)
@pytest.mark.parametrize("in_place", [pytest.param(True, id="in place"), pytest.param(False, id="rewritten")])
def test_changed_rows_are_applied_in_the_way_that_the_query_allows(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, in_place: bool
) -> None:
    take_tables_for_large(monkeypatch, in_place, files=in_place)
    maintained = Maintained(world, random.Random(4), FORMATS[1 + in_place])
    maintained.create([query for query in QUERIES if query.name in SMALL_FOR_ROWS])

    check_rows(maintained, "update", "merge")

    maintained.append("o", 3)
    assert maintained.refresh()["join and aggregate"] == "stages"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_query_is_kept_in_its_way_while_rows_change(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    take_tables_for_large(monkeypatch, part % 2 == 1, files=part in (1, 2))
    pick = dice(part)
    maintained = Maintained(world, pick, FORMATS[part % len(FORMATS)], options=UPSERT if part == 1 else "")
    # Among them are queries that are kept in each way.
    maintained.create(picked(part, 5))

    for _ in range(DEPTH):
        check_rows(maintained, pick.choice(KINDS), pick.choice(KINDS))


@pytest.mark.slow
def test_every_partitioned_table_is_kept_in_its_way(world: RefreshWorld) -> None:
    pick = dice(7)
    maintained = Maintained(world, pick, FORMATS[2])
    queries = PARTITIONED_QUERIES if DEPTH > 1 else PARTITIONED_QUERIES[::2]
    maintained.create(queries)
    maintained.append("o", 4)

    assert maintained.refresh() == {query.name: query.appends["o"] for query in queries}
    for _ in range(DEPTH):
        check_rows(maintained, pick.choice(KINDS), pick.choice(KINDS))


@pytest.mark.slow
def test_a_change_that_only_scalar_subqueries_read_changes_nothing_while_they_give_the_same_values(
    world: RefreshWorld,
) -> None:
    world.spark("CREATE TABLE o (id INT) USING iceberg", "CREATE TABLE c (day TIMESTAMP) USING iceberg")
    world.spark(
        "INSERT INTO o VALUES (1), (2)", "INSERT INTO c VALUES (TIMESTAMP '2026-01-01 00:00:00.000001')"
    )
    query = "SELECT id, (SELECT max(day) FROM c) AS day, (SELECT min(id) FROM o) AS low FROM o"
    world.create("mt", query, clauses=INCREMENTAL)

    def refreshed(statement: str) -> str:
        world.spark(statement)
        run = world.tick("mt")
        assert (world.rows("mt"), run.error) == (world.plain(query), None)
        return f"{run.strategy}: {run.reason}"

    assert refreshed("INSERT INTO c VALUES (TIMESTAMP '2025-01-01 00:00:00'), (NULL)").startswith("nothing")
    assert refreshed("DELETE FROM o WHERE id = 2").startswith("stages")
    assert refreshed("INSERT INTO c VALUES (TIMESTAMP '2026-01-01 00:00:00.000002')").startswith("stages")
    assert refreshed("INSERT INTO o VALUES (0)").startswith("stages")


@pytest.mark.parametrize(("changed", "deleted"), [("id % 100 = 7", "4"), ("id % 2 = 0", None)])
def test_a_large_table_is_changed_in_place_if_few_rows_of_rewritten_files_changed(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, changed: str, deleted: str | None
) -> None:
    monkeypatch.setattr(cost, "LARGE_TABLE", 0)
    query = "SELECT id, v + 1 AS v FROM o"
    world.spark("CREATE TABLE o USING iceberg AS SELECT id, id AS v FROM range(0, 400, 1, 4)")
    world.create("mt", query, clauses=INCREMENTAL)
    world.spark(f"UPDATE o SET v = 0 WHERE {changed}")

    run = world.tick("mt")

    assert (run.strategy, world.rows("mt")) == ("stages", world.plain(query))
    summaries = world.session.sql(
        f"SELECT summary['added-position-deletes'] FROM lake.{world.namespace}.mt.snapshots "
        "ORDER BY committed_at"
    )
    assert summaries.collect()[-1][0] == deleted


def test_what_was_appended_since_a_version_is_applied_though_those_between_have_expired(
    world: RefreshWorld,
) -> None:
    table, query = f"{world.namespace}.o", "SELECT id, id * 2 AS twice FROM o WHERE id < 100"
    world.spark("CREATE TABLE o (id INT) USING iceberg", "INSERT INTO o VALUES (1), (2)")
    world.create("mt", query, clauses=INCREMENTAL)
    world.spark(*(f"INSERT INTO o VALUES ({number})" for number in (3, 4, 200)))
    *_, between, _ = world.session.sql(
        f"SELECT snapshot_id FROM lake.{table}.snapshots ORDER BY committed_at"
    ).collect()

    world.spark(f"CALL lake.system.expire_snapshots(table => '{table}', snapshot_ids => ARRAY({between[0]}))")
    run = world.tick("mt")

    assert (world.rows("mt"), run.error, run.strategy) == (world.plain(query), None, "stages")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("partitioned", "storage", "written", "files"),
    [
        pytest.param("PARTITIONED BY (s)", "", (2, 3), True, id="delete files"),
        pytest.param(
            "PARTITIONED BY (s)", "", (2, 3), False, id="delete files of small files", marks=pytest.mark.slow
        ),
        pytest.param("", "", (2, 3), False, id="delete files of the driver"),
        pytest.param(
            "",
            ", 'write.merge.mode' = 'copy-on-write'",
            None,
            True,
            id="copy-on-write",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "", ", 'format-version' = '3'", None, True, id="deletion vectors", marks=pytest.mark.slow
        ),
    ],
)
def test_as_many_copies_of_a_row_go_from_a_large_table_as_its_sources_lost(
    world: RefreshWorld,
    monkeypatch: pytest.MonkeyPatch,
    partitioned: str,
    storage: str,
    written: tuple[int, int] | None,
    files: bool,
) -> None:
    take_tables_for_large(monkeypatch, True, files=files)
    world.spark(
        "CREATE TABLE o (k INT, s STRING) USING iceberg",
        "INSERT INTO o VALUES (1, 'a'), (1, 'a'), (1, 'a'), (2, NULL), (2, NULL), (3, 'c')",
    )
    # One of the names that the refresh would give a column of its own.
    query = "SELECT k, s, k AS _number FROM o"
    world.create("mt", query, clauses=f"{partitioned} WITH ('refresh.strategy' = 'incremental'{storage})")
    world.spark("INSERT OVERWRITE o VALUES (1, 'a'), (2, NULL), (2, NULL), (2, NULL), (4, 'd')")

    run = world.tick("mt")

    assert (run.strategy, world.rows("mt")) == ("stages", world.plain(query))
    assert written is None or (run.rows_inserted, run.rows_deleted) == written
    jobs = (
        f"SELECT summary['spark.app.id'] IS NOT NULL FROM lake.{world.namespace}.mt.snapshots "
        "ORDER BY committed_at DESC"
    )
    assert world.plain(f"{jobs} LIMIT 1") == [(bool(partitioned or storage),)]
    world.spark("UPDATE o SET s = 'e' WHERE k = 2")
    assert (world.tick("mt").strategy, world.rows("mt")) == ("stages", world.plain(query))


@pytest.mark.timeout(600)
def test_groups_that_a_delete_leaves_in_doubt_are_computed_again_and_no_others(world: RefreshWorld) -> None:
    world.spark(
        "CREATE TABLE o (k INT, v INT) USING iceberg",
        "INSERT INTO o VALUES (1, 5), (1, NULL), (2, 6), (2, 7), (3, 8), (NULL, 9), "
        "(NULL, 1), (4, NULL), (4, 2)",
    )
    counted, summed = (
        "SELECT k, count(*) AS n, sum(v) AS v FROM o GROUP BY k",
        "SELECT k, sum(v) AS v FROM o GROUP BY k",
    )
    world.create("counted", counted, clauses=INCREMENTAL)
    world.create("summed", summed, clauses=INCREMENTAL)
    # A sum without a value, one with another, a group without rows, one of NULL, and one that only changed.
    world.spark("DELETE FROM o WHERE v IN (5, 6, 8, 9)", "UPDATE o SET v = v + 1 WHERE k = 4")

    runs = [world.tick("counted"), world.tick("summed", world.clock.now())]

    assert {run.strategy for run in runs} == {"merge"}
    assert (world.rows("counted"), world.rows("summed")) == (world.plain(counted), world.plain(summed))


@pytest.mark.slow
def test_sums_of_doubles_are_added_up_if_a_user_asks_for_it_and_never_taken_back(world: RefreshWorld) -> None:
    world.spark(
        "CREATE TABLE o (k INT, x DOUBLE) USING iceberg", "INSERT INTO o VALUES (1, 0.1), (1, 0.2), (2, 0.3)"
    )
    query = "SELECT k, sum(x) AS s FROM o GROUP BY k"
    world.create("mt", query, clauses=INCREMENTAL.replace("(", "('refresh.sums-of-doubles' = 'merged', ", 1))
    rounded = "SELECT k, CAST(s AS DECIMAL(30, 6)) AS s FROM {}"

    def refreshed(statement: str) -> str | None:
        world.spark(statement)
        run = world.tick("mt")
        assert world.plain(rounded.format("mt")) == world.plain(rounded.format(f"({query})"))
        return run.strategy

    assert refreshed("INSERT INTO o VALUES (1, 1e16), (3, 0.5)") == "merge"
    # The sum of what is left is 0.3, not 0.
    assert refreshed("DELETE FROM o WHERE x > 1e15") == "stages"


@pytest.mark.timeout(600)
def test_the_first_rows_are_kept_while_appended_rows_are_no_ties_of_those_beside_the_limit(
    world: RefreshWorld,
) -> None:
    world.spark(
        "CREATE TABLE o (at INT, name STRING) USING iceberg",
        "INSERT INTO o VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    )
    query = "SELECT name, at FROM o ORDER BY at DESC LIMIT 2"
    world.create("mt", query, clauses=INCREMENTAL)

    def refreshed(statement: str) -> str:
        world.spark(statement)
        run = world.tick("mt")
        assert world.rows("mt") == world.plain(query)
        return f"{run.strategy}: {run.reason}"

    assert refreshed("INSERT INTO o VALUES (5, 'e'), (4, 'd'), (NULL, 'n')").startswith("stages")
    world.spark("INSERT INTO o VALUES (4, 'x'), (4, 'y')")
    run = world.tick("mt")
    assert run.strategy == "recompute"
    assert str(run.reason).endswith("recomputed: rows on both sides of the LIMIT are equal in the ORDER BY")
    assert refreshed("INSERT INTO o VALUES (7, 'g'), (6, 'f')").startswith("stages")


def test_rows_are_found_by_rounded_values_but_not_by_rounded_keys(world: RefreshWorld) -> None:
    world.spark("CREATE TABLE o (k DOUBLE, n INT) USING iceberg", "INSERT INTO o VALUES (0.1, 1), (0.2, 1)")
    queries = {
        "counts": "SELECT k, count(DISTINCT n) AS n FROM o GROUP BY k",
        "places": "SELECT k, row_number() OVER (PARTITION BY k ORDER BY n) AS n FROM o",
    }
    world.create("counts", queries["counts"], clauses=f"(k FLOAT, n BIGINT) {INCREMENTAL}")
    world.create("places", queries["places"], clauses=f"(k FLOAT, n INT) {AUTO}")
    world.spark("INSERT INTO o VALUES (0.1, 2)")

    runs = [world.tick(name) for name in queries]

    rounded = "SELECT CAST(k AS DECIMAL(2, 1)) AS k, n FROM {}"
    for name, query in queries.items():
        assert world.plain(rounded.format(name)) == world.plain(rounded.format(f"({query})"))
    assert [run.strategy for run in runs] == ["stages", "recompute"]


def test_rows_whose_values_cannot_be_compared_are_replaced_by_key(world: RefreshWorld) -> None:
    world.spark(
        "CREATE TABLE o (k INT, v MAP<STRING, INT>) USING iceberg",
        "INSERT INTO o VALUES (1, map('a', 1)), (1, NULL), (2, map('b', 2)), (3, NULL)",
    )
    query = "SELECT k, v['a'] AS a, v FROM o"
    world.create("mt", query, clauses=INCREMENTAL)
    world.spark("DELETE FROM o WHERE v['a'] = 1", "UPDATE o SET v = map('a', 3) WHERE k = 2")

    run = world.tick("mt")

    assert (run.strategy, str(run.reason).partition("; ")[2]) == ("stages", "rows are replaced by k")
    shown = "SELECT k, a, to_json(v) AS v FROM {}"
    assert world.plain(shown.format("mt")) == world.plain(shown.format(f"({query})"))


@pytest.mark.slow
def test_rows_that_only_maps_tell_apart_are_taken_out_and_put_in(world: RefreshWorld) -> None:
    maps = ("map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)", "map('b', 2, 'a', 1)", "map()", "NULL", "NULL")
    world.spark(
        "CREATE TABLE o (k INT, m MAP<STRING, INT>) USING iceberg",
        f"INSERT INTO o VALUES {', '.join(f'(1, {each})' for each in maps)}, (2, NULL)",
    )
    world.create("mt", "SELECT k, map_keys(m) AS names, m['a'] AS a FROM o", clauses=INCREMENTAL)
    world.create("totals", "SELECT k, count(m) AS n, sum(m['a']) AS a FROM o GROUP BY k", clauses=INCREMENTAL)
    world.spark(
        "DELETE FROM o WHERE get(map_keys(m), 0) = 'b'",
        "UPDATE o SET m = map('b', 3) WHERE m IS NULL",
        "DELETE FROM o WHERE k = 2",
    )

    runs = [world.tick("mt"), world.tick("totals")]

    assert [run.strategy for run in runs] == ["stages", "merge"]
    assert world.rows("mt") == world.plain("SELECT k, map_keys(m) AS names, m['a'] AS a FROM o")
    assert world.rows("totals") == world.plain("SELECT k, count(m) AS n, sum(m['a']) AS a FROM o GROUP BY k")


@pytest.mark.parametrize(
    ("column", "query"),
    [
        ("ARRAY<MAP<STRING, INT>>", "SELECT k, size(v) AS n FROM o"),
        ("MAP<STRING, INT>", "SELECT abs(k) AS k, v FROM o"),
    ],
)
def test_rows_that_cannot_be_told_apart_or_found_again_are_recomputed(
    world: RefreshWorld, column: str, query: str
) -> None:
    world.spark(
        f"CREATE TABLE o (k INT, v {column}) USING iceberg", "INSERT INTO o VALUES (1, NULL), (2, NULL)"
    )
    world.create("mt", query, clauses=AUTO)
    world.spark("DELETE FROM o WHERE k = 1")

    run = world.tick("mt")

    assert [row[0] for row in world.plain("SELECT k FROM mt")] == [2]
    assert "values of column v cannot be compared" in str(run.reason)


@pytest.mark.parametrize("large", [True, False], ids=["in place", "written anew"])
def test_rows_with_zeros_of_both_signs_go(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    take_tables_for_large(monkeypatch, large, files=False)
    world.spark(
        f"CREATE TABLE o (k INT, d DOUBLE) USING iceberg TBLPROPERTIES ({FORMATS[1]})",
        "INSERT INTO o VALUES (1, 0.0D), (1, -0.0D), (1, -0.0D), (2, 0.0D)",
    )
    world.create("mt", "SELECT k, d FROM o", clauses=INCREMENTAL)
    world.spark("DELETE FROM o WHERE k = 1")

    run = world.tick("mt")

    assert (run.strategy, world.rows("mt")) == ("stages", [(2, 0.0)])


def test_tables_of_sessions_with_other_settings_follow_one_change(world: RefreshWorld) -> None:
    query = "SELECT o.id, c.name FROM o JOIN c ON o.k = c.k"
    world.spark(
        "CREATE TABLE o (id INT, k INT) USING iceberg",
        "INSERT INTO o SELECT id, id % 5 FROM range(50)",
        "CREATE TABLE c (k INT, name STRING) USING iceberg",
        "INSERT INTO c SELECT id, concat('n', id) FROM range(6)",
    )
    world.create("here", query, clauses=INCREMENTAL)
    world.context = world.context_with({"table.local-time-zone": "America/New_York"})
    world.create("there", query, clauses=INCREMENTAL)
    world.spark("UPDATE o SET k = k + 1 WHERE id = 7")

    runs = [world.tick("here"), world.tick("there")]

    assert [run.strategy for run in runs] == ["stages", "stages"], runs
    assert world.rows("here") == world.rows("there") == world.plain(query)


@pytest.mark.parametrize("storage", FORMATS[:2], ids=["copy on write", "merge on read"])
def test_zeros_of_both_signs_are_different_values(world: RefreshWorld, storage: str) -> None:
    world.spark(
        f"CREATE TABLE o (id INT, d DOUBLE, f FLOAT) USING iceberg TBLPROPERTIES ({storage})",
        "INSERT INTO o SELECT id, 0.0D, 0.0F FROM range(5)",
    )
    query = "SELECT id, CAST(d AS STRING) AS d, CAST(f AS STRING) AS f FROM o"
    world.create("mt", query, clauses=INCREMENTAL)
    world.spark("UPDATE o SET d = -0.0D WHERE id = 2", "UPDATE o SET f = -0.0F WHERE id = 3")

    run = world.tick("mt")

    assert run.strategy == "stages"
    assert world.rows("mt") == world.plain(query)


@pytest.mark.parametrize("gone", ["id < 3", "id < 2", "true"], ids=["a file", "a part of one", "all"])
def test_rows_with_nested_values_go_from_a_source_with_row_ids(world: RefreshWorld, gone: str) -> None:
    world.spark(
        "CREATE TABLE o (id INT, l ARRAY<DOUBLE>) USING iceberg TBLPROPERTIES ('format-version' = '3')",
        "INSERT INTO o SELECT id, array(id, 0.0D) FROM range(0, 3, 1, 1)",
        "INSERT INTO o SELECT id, array(id, -0.0D) FROM range(3, 6, 1, 1)",
    )
    queries = {"rows": "SELECT * FROM o", "sums": "SELECT id % 2 AS k, count(*) AS n FROM o GROUP BY 1"}
    for name, query in queries.items():
        world.create(name, query, clauses=INCREMENTAL)
    world.spark(f"DELETE FROM o WHERE {gone}")

    runs = [world.tick(name) for name in queries]

    assert [run.status for run in runs] == [RunStatus.SUCCEEDED, RunStatus.SUCCEEDED], runs
    assert [run.strategy for run in runs] == ["stages", "merge"], runs
    for name, query in queries.items():
        assert repr(world.rows(name)) == repr(world.plain(query))


def test_a_small_table_is_written_anew_without_a_job(world: RefreshWorld) -> None:
    world.spark(
        "CREATE TABLE o (k INT, n INT, d DOUBLE) USING iceberg",
        "INSERT INTO o VALUES (1, 1, 0.5), (1, 2, 2), (4, 2, -0.0D), (4, 2, -0.0D), (2, 3, NULL), "
        "(NULL, 4, double('NaN'))",
    )
    queries = {
        "counts": "SELECT k, count(*) AS c, count(d) AS d FROM o GROUP BY k",
        "copied": "SELECT d, k, n + 1 AS n FROM o",
    }
    for name, query in queries.items():
        world.create(name, query, clauses=INCREMENTAL)
    changes = [
        "INSERT INTO o VALUES (1, 5, 1.5), (3, 1, 0.0D)",
        "DELETE FROM o WHERE k = 2",
        "UPDATE o SET n = 7, d = 1 WHERE k = 1",
    ]

    found = []
    for change in changes:
        world.spark(change)
        before = started_jobs(world.session)
        runs = [world.tick(name) for name in queries]
        jobs = started_jobs(world.session) - before
        found.append(([run.strategy for run in runs], jobs))
        for name, query in queries.items():
            # By their texts: NaN is not equal to itself, and the zeros of both signs are equal.
            assert repr(world.rows(name)) == repr(world.plain(query))

    assert found == [(["merge", "append"], 0), (["merge", "stages"], 0), (["merge", "stages"], 0)]


@pytest.mark.slow
def test_only_the_partitions_of_a_source_are_read_again_that_hold_keys_which_changed(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_a_job_read_keys(monkeypatch)
    query = "SELECT k, count(DISTINCT n) AS n FROM o GROUP BY k"
    world.spark(
        "CREATE TABLE o (k INT, n INT) USING iceberg PARTITIONED BY (bucket(8, k))",
        "INSERT INTO o SELECT IF(id = 0, NULL, id % 16), id FROM range(64)",
    )
    world.create("mt", query, clauses=INCREMENTAL)
    world.spark("INSERT INTO o VALUES (3, 100), (NULL, 101)")
    others = world.plain("SELECT _file FROM o GROUP BY _file HAVING NOT bool_or(k <=> 3 OR k IS NULL)")
    files = [Path(urlsplit(str(file)).path) for (file,) in others]

    for file in files:
        file.rename(f"{file}.away")
    run = world.tick("mt")
    for file in files:
        Path(f"{file}.away").rename(file)

    assert (run.status, run.strategy, len(files) > 2) == (RunStatus.SUCCEEDED, "stages", True)
    assert world.rows("mt") == world.plain(query)


@pytest.mark.parametrize(
    ("partitions", "left_out", "keys"),
    [
        ("k", "-", 12),
        pytest.param("k", "0", 12, marks=pytest.mark.slow),
        pytest.param("truncate(1, k)", "0", 200, marks=pytest.mark.slow),
    ],
)
def test_texts_are_replaced_as_keys_where_a_source_has_a_partition_without_a_value(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, partitions: str, left_out: str, keys: int
) -> None:
    let_a_job_read_keys(monkeypatch)
    query = "SELECT k, count(DISTINCT n) AS n FROM o GROUP BY k"
    world.spark(
        f"CREATE TABLE o (k STRING, n INT) USING iceberg PARTITIONED BY ({partitions})",
        "INSERT INTO o VALUES ('0', 1), ('7', 1), ('c', 1), (NULL, 1)",
    )
    world.create("mt", query, clauses=INCREMENTAL)
    world.spark(f"INSERT INTO o SELECT nullif(CAST(id AS STRING), '{left_out}'), 5 FROM range({keys})")

    run = world.tick("mt")

    assert (run.strategy, world.rows("mt")) == ("stages", world.plain(query)), run.error or run.reason


def test_the_recorded_plans_are_those_that_spark_makes(world: RefreshWorld) -> None:
    world.spark(*(f"CREATE TABLE {name} ({columns}) USING iceberg" for name, columns in SOURCES.items()))
    plans, trees = recorded(), recorded_trees()

    for query in QUERIES[::9]:
        made = plans_of(world.session, query.sql)
        assert made == (plans[query.name], trees[query.name]), query.name


@pytest.mark.slow
@pytest.mark.parametrize("clauses", ["", *([INCREMENTAL] if DEPTH > 1 else [])])
def test_tables_of_many_columns_and_of_many_aggregates_are_refreshed(
    world: RefreshWorld, clauses: str
) -> None:
    numbers = range(rounds(20, 1000 // DEPTH))
    columns = ", ".join(f"c{number} INT" for number in numbers)
    world.spark(f"CREATE TABLE wide (id INT, k STRING, {columns}) USING iceberg")
    queries = {
        "all_columns": "SELECT * FROM wide",
        "sums": (
            f"SELECT k, {', '.join(f'sum(c{number}) AS s{number}' for number in numbers)} "
            "FROM wide GROUP BY k"
        ),
    }

    def rows(*ids: int) -> str:
        values = (
            f"({id_}, 'k{id_ % 2}', {', '.join(str(id_ * number % 97) for number in numbers)})" for id_ in ids
        )
        return f"INSERT INTO wide VALUES {', '.join(values)}"

    world.spark(rows(1, 2, 3))
    for name, query in queries.items():
        created = world.create(name, query, clauses=clauses)
        assert created.status is RunStatus.SUCCEEDED, created.error

    for change in (
        rows(4, 5),
        "UPDATE wide SET c7 = c7 + 1, c19 = NULL WHERE id < 3",
        "DELETE FROM wide WHERE k = 'k1'",
    ):
        world.spark(change)
        for name, query in queries.items():
            run = world.tick(name)
            assert (run.status, run.error) == (RunStatus.SUCCEEDED, None)
            assert sorted(world.rows(name), key=str) == sorted(world.plain(query), key=str)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("partitions", "clauses"),
    [
        ("PARTITIONED BY (city)", INCREMENTAL),
        *([("", ""), ("", INCREMENTAL), ("PARTITIONED BY (city)", "")] if DEPTH > 1 else []),
    ],
)
def test_equality_deletes_of_another_writer_are_seen_by_refreshes(
    world: RefreshWorld, partitions: str, clauses: str
) -> None:
    world.spark(
        f"CREATE TABLE orders (city STRING, amount INT) USING iceberg {partitions} "
        "TBLPROPERTIES ('format-version' = '2')",
        "INSERT INTO orders VALUES ('Rome', 1), ('Rome', 2), ('Oslo', 3), (NULL, 4)",
        "CREATE TABLE names (city STRING, country STRING) USING iceberg",
        "INSERT INTO names VALUES ('Rome', 'IT'), ('Oslo', 'NO')",
    )
    queries = {
        "dear": "SELECT city, amount FROM orders WHERE amount > 1",
        "totals": (
            "SELECT city, count(*) AS n, sum(amount) AS amount, max(amount) AS most FROM orders GROUP BY city"
        ),
        "joined": "SELECT o.city, amount, country FROM orders AS o LEFT JOIN names AS n ON o.city = n.city",
        "cities": "SELECT DISTINCT city FROM orders",
    }
    for name, query in queries.items():
        world.create(name, query, clauses=clauses)
    writer = UpsertWriter(world, "orders", key="city")

    def check(*commits: dict[str, int | None]) -> None:
        for values in commits:
            writer.commit(values)
        for name, query in queries.items():
            run = world.tick(name)
            assert (run.status, run.error) == (RunStatus.SUCCEEDED, None)
            assert sorted(world.rows(name), key=str) == sorted(world.plain(query), key=str)

    check({"Rome": 7, "Bern": 8, "Oslo": None})
    check({"Bern": None}, {"Rome": 1}, {"Rome": 9})
    assert writer.deletes() == 6
    world.spark(
        f"CALL lake.system.rewrite_data_files(table => '{world.namespace}.orders', "
        "options => map('rewrite-all', 'true'))"
    )
    check({"Rome": None, "Kiew": 2})
