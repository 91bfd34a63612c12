from __future__ import annotations

import pytest

from mt_core.errors import DefinitionInvalid
from mt_core.model.run import RunStatus
from mt_core.tables.engine import Query
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world

pytestmark = pytest.mark.spark


@pytest.fixture
def people(world: RefreshWorld) -> RefreshWorld:
    """A world with two sources, one of them of four columns."""
    world.spark(
        "CREATE TABLE cust (id INT, city STRING, country STRING, note STRING) USING iceberg",
        "INSERT INTO cust VALUES (1, 'Rome', 'Italy', 'n1')",
        "CREATE TABLE twin (id INT, city STRING, country STRING, note STRING) USING iceberg",
        "INSERT INTO twin VALUES (2, 'Oslo', 'Norway', 'n2')",
        "CREATE TABLE nested (id INT, s STRUCT<a:INT, b:STRING>, cities ARRAY<STRING>) USING iceberg",
        "INSERT INTO nested VALUES (1, named_struct('a', 7, 'b', 'x'), array('Rome'))",
    )
    return world


MOVED = [
    "ALTER TABLE cust ALTER COLUMN note FIRST",
    "ALTER TABLE cust ADD COLUMN zip STRING AFTER id",
    "INSERT INTO cust (id, city, country, note) VALUES (3, 'Bern', 'Swiss', 'n3')",
]

QUERIES = {
    "a star": "SELECT * FROM cust",
    "TABLE": "TABLE cust",
    "a star of an alias": "SELECT c.*, upper(c.city) AS up FROM cust AS c",
    "a star of a full name": "SELECT lake.{ns}.cust.* FROM cust",
    "a union of stars": "SELECT * FROM cust UNION ALL SELECT * FROM twin",
    "a union of tables": "TABLE cust UNION ALL (TABLE twin)",
    "a CTE": (
        "WITH c AS (SELECT * FROM cust), d AS (SELECT * FROM c) SELECT * FROM d UNION ALL SELECT * FROM twin"
    ),
    "a CTE with names": "WITH c(a, b, d, e) AS (SELECT * FROM cust) SELECT a, e FROM c",
    "names by position": "SELECT a, d FROM cust AS x(a, b, c, d)",
    "a subquery": "SELECT n.* FROM (SELECT * FROM cust WHERE id < 9) AS n(a, b, c, d)",
    "a join": "SELECT * FROM cust JOIN (SELECT id AS other, s FROM nested) n ON cust.id = n.other",
    "a join using": "SELECT * FROM cust JOIN (SELECT id, s FROM nested) n USING (id)",
    "a full join using": "SELECT * FROM cust FULL JOIN (SELECT id, s FROM nested) n USING (id)",
    "a lateral join": (
        "SELECT n.id AS nid, l.* FROM nested n, LATERAL (SELECT * FROM cust WHERE cust.id = n.id) l"
    ),
    "except": "SELECT * EXCEPT (note) FROM cust",
    "an exists": "SELECT * FROM cust c WHERE EXISTS (SELECT * FROM nested WHERE nested.id = c.id)",
    "an in": "SELECT * FROM cust WHERE city IN (SELECT * FROM (SELECT explode(cities) AS c FROM nested))",
    "functions": "SELECT count(*) AS n, struct(max(id), min(id)) AS s FROM cust c",
    "a struct of a star": "SELECT id, struct(*) AS s FROM cust",
    "fields": "SELECT id, s.* FROM nested",
    "a window": "SELECT *, row_number() OVER (ORDER BY id) AS n FROM cust",
    "grouping": "SELECT c.*, count(*) AS n FROM cust c GROUP BY ALL",
    "order and limit": "SELECT DISTINCT * FROM cust ORDER BY ALL LIMIT 5",
    "pivot": "SELECT * FROM (SELECT id, city FROM cust) PIVOT (count(id) FOR city IN ('Rome', 'Oslo'))",
    "lateral view": "SELECT * FROM nested LATERAL VIEW explode(cities) e AS city",
    "values": "SELECT * FROM VALUES (1, 'a'), (2, 'b') AS v(id, x)",
    "a multiplication": "SELECT id * 2 AS twice, '*' AS star /* * */ FROM cust -- *",
    "recursion": (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r"
    ),
    "from first": "FROM cust SELECT *",
    "a pipe": "SELECT * FROM cust |> SELECT *, 1 AS one",
}


@pytest.mark.slow
def test_stars_written_out_mean_what_they_meant_after_the_source_moved_and_got_columns(
    people: RefreshWorld,
) -> None:
    texts = {name: query.format(ns=people.namespace) for name, query in QUERIES.items()}
    before = {name: people.plain(text) for name, text in texts.items()}
    found = {
        name: people.engine.queries.analyse(
            Query(text=text, catalog="lake", namespace=(people.namespace,))
        ).expanded_query
        for name, text in texts.items()
    }
    at_first = {name: people.plain(text) for name, text in found.items()}

    people.spark(*MOVED, "DELETE FROM cust WHERE id = 3")

    assert at_first == before
    assert {name: people.plain(text) for name, text in found.items()} == before
    assert found["a star"].count("`cust`.") == 4


def test_a_table_of_a_star_is_refreshed_after_the_source_moved_and_got_columns(people: RefreshWorld) -> None:
    people.create("mt", "SELECT * FROM cust UNION ALL TABLE twin")
    people.spark(*MOVED)

    run = people.refresh("mt")

    assert (run.status, run.error) == (RunStatus.SUCCEEDED, None)
    assert people.rows("mt") == [
        (1, "Rome", "Italy", "n1"), (2, "Oslo", "Norway", "n2"), (3, "Bern", "Swiss", "n3"),
    ]  # fmt: skip
    assert people.table("mt").definition.original_query == "SELECT * FROM cust UNION ALL TABLE twin"


LOST = {
    "a column is narrower than it was": [
        "ALTER TABLE cust DROP COLUMN big",
        "ALTER TABLE cust ADD COLUMN big DECIMAL(9,4)",
    ],
    "a column is text now": [
        "ALTER TABLE cust DROP COLUMN big",
        "ALTER TABLE cust ADD COLUMN big DECIMAL(10,2)",
        "ALTER TABLE cust DROP COLUMN id",
        "ALTER TABLE cust ADD COLUMN id STRING FIRST",
    ],
    "a column has another name": ["ALTER TABLE cust RENAME COLUMN city TO town"],
    "a column is dropped": ["ALTER TABLE cust DROP COLUMN town"],
}


def test_a_source_of_another_shape_fails_the_refresh_and_changes_no_row(people: RefreshWorld) -> None:
    people.spark("ALTER TABLE cust ADD COLUMN big DECIMAL(10,2)")
    people.create("mt", "SELECT * FROM cust")
    before, errors = people.rows("mt"), {}

    for what, changes in LOST.items():
        people.spark(*changes)
        run = people.refresh("mt")
        assert (run.status, people.rows("mt")) == (RunStatus.FAILED, before), what
        errors[what] = run.error or ""

    assert all(
        f"ALTER MATERIALIZED TABLE lake.{people.namespace}.mt AS …" in error for error in errors.values()
    )
    assert (
        "column big is DECIMAL(9,4) now and was DECIMAL(10,2)" in errors["a column is narrower than it was"]
    )
    assert "column id is STRING now and was INT" in errors["a column is text now"]


def test_a_source_whose_column_got_a_wider_type_is_read_if_the_table_holds_it(people: RefreshWorld) -> None:
    people.create("mt (id BIGINT, city STRING)", "SELECT id, city FROM cust")
    people.create("narrow", "SELECT id, city FROM cust")
    people.spark(
        "ALTER TABLE cust ALTER COLUMN id TYPE BIGINT", "INSERT INTO cust VALUES (5000000000, 'a', 'b', 'c')"
    )

    wide, narrow = people.refresh("mt"), people.refresh("narrow")

    assert (wide.status, people.rows("mt")) == (RunStatus.SUCCEEDED, [(1, "Rome"), (5000000000, "a")])
    assert narrow.status is RunStatus.FAILED
    assert "column id is BIGINT now and was INT" in (narrow.error or "")


def test_rows_of_a_run_that_began_before_columns_were_appended_have_no_value_there(
    people: RefreshWorld,
) -> None:
    people.create("mt", "SELECT id, city FROM cust")
    people.spark(
        "ALTER TABLE mt ADD COLUMN note STRING", "INSERT INTO cust VALUES (2, 'Oslo', 'Norway', 'n2')"
    )

    run = people.refresh("mt")

    assert (run.status, run.error) == (RunStatus.SUCCEEDED, None)
    assert people.rows("mt") == [(1, "Rome", None), (2, "Oslo", None)]


def test_a_star_that_cannot_be_written_out_is_refused_with_the_way_out(people: RefreshWorld) -> None:
    text = people.refused(
        "CREATE MATERIALIZED TABLE mt REFRESH_MODE = FULL AS SELECT * EXCEPT (s.a) FROM nested",
        DefinitionInvalid,
    )

    assert "* EXCEPT (s.a) of the query cannot be expanded" in text
    assert "name the columns" in text


def test_an_altered_query_is_stored_with_its_stars_written_out(people: RefreshWorld) -> None:
    people.create("mt", "SELECT id, city FROM cust")

    people.sql("ALTER MATERIALIZED TABLE mt AS SELECT * FROM cust")
    people.work()

    assert "*" not in people.table("mt").definition.expanded_query
    assert people.rows("mt") == [(1, "Rome", "Italy", "n1")]
    assert people.table("mt").definition.sources == (f"lake.{people.namespace}.cust",)
