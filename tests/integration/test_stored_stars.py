"""Queries that a release has stored with stars, which took columns by position."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mt_core.model.run import RunStatus
from mt_core.registry.migrations.versions.v0005_stars import by_name
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.queries.positions import positional_part
from mt_core.tables.registry import in_transaction
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

MOVED = [
    "ALTER TABLE twin ALTER COLUMN city FIRST",
    "ALTER TABLE twin ALTER COLUMN id AFTER country",
    "INSERT INTO cust VALUES (3, 'Bern', 'Swiss')",
]


@pytest.fixture
def people(world: RefreshWorld) -> RefreshWorld:
    """A world with two sources of the same columns."""
    world.spark(
        "CREATE TABLE cust (id STRING, city STRING, country STRING) USING iceberg",
        "INSERT INTO cust VALUES ('1', 'Rome', 'Italy')",
        "CREATE TABLE twin (id STRING, city STRING, country STRING) USING iceberg",
        "INSERT INTO twin VALUES ('2', 'Oslo', 'Norway')",
    )
    return world


def create_stored(world: RefreshWorld, name: str, query: str) -> None:
    """Create a table whose query is stored as the migration has left it."""
    world.create(name, query)
    table = world.table(name)
    names = [{"name": column.name} for column in table.definition.columns]
    stored = by_name({"columns": names, "expanded_query": query})
    definition = replace(table.definition, expanded_query=stored, query_types={})
    in_transaction(world.registry, lambda tx: tx.tables.replace(replace(table, definition=definition)))


@pytest.mark.parametrize(
    "query",
    ["SELECT * FROM cust UNION ALL SELECT * FROM twin", "SELECT * FROM (TABLE cust UNION TABLE twin)"],
)
def test_a_stored_union_of_stars_fails_with_the_way_out_and_changes_no_row(
    people: RefreshWorld, query: str
) -> None:
    create_stored(people, "mt", query)
    people.spark(*MOVED)
    before = people.rows("mt")

    failed = people.refresh("mt")
    people.sql("ALTER MATERIALIZED TABLE mt AS SELECT * FROM cust UNION SELECT id, city, country FROM twin")
    people.work()

    assert (failed.status, failed.broken, before) == (
        RunStatus.FAILED, True, [("1", "Rome", "Italy"), ("2", "Oslo", "Norway")],
    )  # fmt: skip
    assert f"ALTER MATERIALIZED TABLE lake.{people.namespace}.mt AS …" in (failed.error or "")
    assert people.rows("mt") == [*before, ("3", "Bern", "Swiss")]


def test_a_stored_star_of_a_nested_query_gives_the_columns_that_the_table_has(people: RefreshWorld) -> None:
    create_stored(people, "mt", "WITH t AS (SELECT * FROM twin) SELECT * FROM (SELECT t.* FROM t) n")
    people.spark(
        *MOVED,
        "ALTER TABLE twin ADD COLUMN note STRING FIRST",
        "INSERT INTO twin VALUES ('x', 'B', 'S', '4')",
    )

    run = people.refresh("mt")

    assert (run.status, people.rows("mt")) == (
        RunStatus.SUCCEEDED,
        [("2", "Oslo", "Norway"), ("4", "B", "S")],
    )


POSITIONAL = {
    "SELECT id, city FROM (SELECT * FROM cust UNION ALL SELECT * FROM twin)": "*",
    "SELECT id FROM (TABLE cust EXCEPT SELECT id, city, country FROM twin)": "cust",
    "SELECT id FROM (WITH c AS (SELECT * FROM cust) SELECT c.* FROM c INTERSECT SELECT * FROM twin)": "c.*",
    "SELECT id FROM (SELECT DISTINCT * FROM cust)": "*",
    "SELECT a FROM cust AS x(a, b, c)": "cust",
    "SELECT a FROM (WITH w(a, b, c) AS (SELECT * FROM cust) SELECT a FROM w)": "*",
    "SELECT id, s FROM (SELECT id, struct(*) AS s FROM cust)": "*",
    "SELECT id FROM cust WHERE id IN (SELECT * FROM (SELECT id FROM twin))": "*",
    "SELECT id, n FROM (SELECT cust.*, count(*) AS n FROM cust GROUP BY ALL)": "cust.*",
    "SELECT id FROM (SELECT * FROM cust ORDER BY 1 LIMIT 1)": "*",
    "SELECT id FROM (SELECT * FROM cust ORDER BY ALL LIMIT 1)": "*",
    "SELECT Rome FROM (SELECT * FROM cust PIVOT (count(id) FOR city IN ('Rome')))": "cust",
    "WITH RECURSIVE r AS (SELECT * FROM cust UNION ALL SELECT * FROM r) SELECT id FROM r": "*",
}
BY_NAME = [
    (
        "SELECT id FROM (SELECT * FROM (SELECT *, upper(city) AS up FROM cust WHERE id > '0') c "
        "JOIN twin USING (id))"
    ),
    "SELECT id FROM (SELECT id FROM (SELECT * FROM cust) UNION SELECT city FROM (TABLE twin))",
    "SELECT id FROM (SELECT * FROM cust c WHERE EXISTS (SELECT * FROM twin WHERE twin.id = c.id))",
    "SELECT id FROM (SELECT * FROM cust ORDER BY city DESC LIMIT 3)",
    "SELECT id FROM (SELECT * FROM cust LATERAL VIEW explode(array(1)) e AS n)",
    "SELECT id, n FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM cust)",
    "SELECT id, count(*) AS n, 2 * 3 AS six FROM cust GROUP BY id HAVING count(*) > 0",
    "SELECT DISTINCT id FROM cust",
    "SELECT n FROM VALUES (1) AS v(n)",
]


def test_parts_that_take_columns_by_position_are_found_and_no_others(people: RefreshWorld) -> None:
    with active_session(people.session):
        positional = {query: positional_part(people.session, query) for query in POSITIONAL}
        by_names = {query: positional_part(people.session, query) for query in BY_NAME}

    assert positional == POSITIONAL
    assert by_names == dict.fromkeys(BY_NAME)
