"""What the ledger and EXPLAIN say of changes of sources, over real Spark and Iceberg."""

from __future__ import annotations

import pytest

from mt_core.errors import DefinitionInvalid
from mt_core.model.run import RefreshRun
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

APPLIED = "WITH ('refresh.strategy' = 'incremental')"


def counts_of(run: RefreshRun) -> tuple[object, ...]:
    assert run.error is None, run.error
    return run.strategy, run.rows_inserted, run.rows_updated, run.rows_deleted


def test_the_ledger_counts_what_each_strategy_did_to_the_rows_and_what_it_read(world: RefreshWorld) -> None:
    world.spark(
        "CREATE TABLE o (k INT, v INT) USING iceberg",
        "INSERT INTO o VALUES (1, 1), (1, 2), (2, 3)",
    )
    first = world.create("listed", "SELECT k, v + 1 AS w FROM o", clauses=APPLIED)
    world.create("counted", "SELECT k, count(*) AS n FROM o GROUP BY k", clauses=APPLIED)
    world.spark("INSERT INTO o VALUES (2, 4), (3, 5)")

    listed, counted = world.tick("listed"), world.tick("counted", world.clock.now())
    again = world.refresh("listed")

    assert counts_of(first) == ("recompute", 3, None, 0)
    assert counts_of(listed) == ("append", 2, 0, 0)
    assert counts_of(counted) == ("merge", 3, None, 2)
    assert counts_of(again) == ("recompute", 5, None, 5)
    assert first.bytes_read
    assert listed.bytes_read
    assert counted.bytes_read == listed.bytes_read
    assert again.bytes_read == first.bytes_read + listed.bytes_read


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT k, count(*) OVER () AS n FROM o", "no column divides the result"),
        ("SELECT k, current_timestamp() AS t FROM o", "the query is not stable: "),
        ("SELECT k, name COLLATE UTF8_LCASE AS name FROM o", "a collation makes different strings equal"),
        ("SELECT k FROM lake.{namespace}.o.snapshots JOIN o ON k > 0", "is not a table at one version"),
        ("SELECT o.k FROM o JOIN {files} f ON o.k = f.k", "files has no versions"),
    ],
)
def test_create_refuses_the_strategy_incremental_for_a_query_that_can_apply_no_change(
    world: RefreshWorld, query: str, reason: str
) -> None:
    files = f"spark_catalog.default.{world.namespace}_files"
    world.spark(
        "CREATE TABLE o (k INT, name STRING) USING iceberg",
        f"CREATE TABLE {files} (k INT) USING parquet",
    )
    create = f"CREATE MATERIALIZED TABLE t {APPLIED} FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS "

    message = world.refused(create + query.format(files=files, namespace=world.namespace), DefinitionInvalid)

    assert reason in message


def test_sources_that_are_empty_at_first_do_not_keep_a_table_from_the_strategy_incremental(
    world: RefreshWorld,
) -> None:
    world.spark("CREATE TABLE o (k INT) USING iceberg")
    world.create("t", "SELECT k FROM o", clauses=APPLIED)
    world.spark("INSERT INTO o VALUES (1)")
    world.tick("t")
    world.spark("INSERT INTO o VALUES (2)")

    run = world.tick("t")

    assert counts_of(run) == ("append", 1, 0, 0)


def test_explain_says_before_creation_and_before_a_refresh_how_changes_are_applied(
    world: RefreshWorld,
) -> None:
    world.spark("CREATE TABLE o (k INT, v INT) USING iceberg", "INSERT INTO o VALUES (1, 1), (2, 3)")
    query = "SELECT k, count(*) AS n FROM o GROUP BY k"
    create = f"CREATE MATERIALIZED TABLE counted {APPLIED} FRESHNESS = INTERVAL '1' DAY AS {query}"
    before = world.state()
    created = world.text(f"EXPLAIN {create}").splitlines()
    assert world.state() == before
    world.sql(create)
    world.work()
    world.spark("INSERT INTO o VALUES (2, 4)")

    refreshed = world.text("EXPLAIN REFRESH counted").splitlines()
    run = world.tick("counted")

    assert created[1] == "  columns:  k INT, n BIGINT"
    assert created[-2:] == [
        "    appended rows: merge: only appends below one aggregate that combines",
        "    changed rows:  merge: rows changed below one aggregate of counts and sums",
    ]
    assert refreshed[-2:] == created[-2:]
    assert refreshed[-3] == f"    since then:    1 row appended, {run.bytes_read:,} bytes"
    assert refreshed[3].startswith("  strategy: merge: ")
    assert f"reads {run.bytes_read:,} of " in refreshed[3]


def test_explain_refresh_names_the_columns_by_which_a_change_of_states_is_joined(world: RefreshWorld) -> None:
    world.spark(
        "CREATE TABLE o (id INT, c BIGINT, v INT, note STRING) USING iceberg",
        "INSERT INTO o SELECT id, id % 7, 1, 'n' FROM range(100)",
        "CREATE TABLE c (c INT, n STRING) USING iceberg",
        "INSERT INTO c SELECT id, string(id % 2) FROM range(10)",
        "CREATE TABLE e (n STRING) USING iceberg",
        "INSERT INTO e VALUES ('0'), ('1')",
    )
    world.sql(
        f"CREATE MATERIALIZED TABLE joined {APPLIED} FRESHNESS = INTERVAL '1' DAY AS "
        "SELECT c.n, sum(o.v) AS v FROM o JOIN c ON o.c = c.c JOIN e ON c.n = e.n GROUP BY c.n"
    )
    world.work()
    world.spark("DELETE FROM o WHERE id = 3", "UPDATE c SET n = '0' WHERE c = 1")

    strategy = world.text("EXPLAIN REFRESH joined").splitlines()[3]

    assert strategy.startswith("  strategy: stages: a state of sum by n; reads ")
    joined = strategy.rpartition("; joins about ")[2].replace(f"lake.{world.namespace}.", "")
    assert joined.partition(" bytes: ")[2] == "c by c, o by c, all of e"
