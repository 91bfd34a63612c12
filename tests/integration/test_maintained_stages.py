"""How a table with stages is written: without a job if little changed, in place if it is large.

The rows of many queries after many changes are the subject of test_staged_histories.py.
"""

from __future__ import annotations

import pytest

from mt_core.model.run import RefreshRun, RunStatus
from mt_core.spark.incremental import block_changes
from mt_core.spark.readings.reading_changes import LocalRelations
from tests.integration.maintained_world import INCREMENTAL, MERGE_ON_READ, take_tables_for_large
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.support.started_jobs import started_jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

BELOW_SUMS = {
    "left": "SELECT segment, avg(price) AS a, count(*) AS n FROM l LEFT JOIN o ON l.o = o.id "
    "GROUP BY segment",
    "full": "SELECT segment, sum(price) AS s, count(*) AS n FROM l FULL JOIN o ON l.o = o.id "
    "GROUP BY segment",
    "exists": "SELECT flag, avg(price) AS a FROM l WHERE EXISTS (SELECT 1 FROM o WHERE o.id = l.o AND "
    "o.segment <> 's1') GROUP BY flag",
    "window": "SELECT segment, r, sum(t) AS s FROM (SELECT o, rank() OVER (PARTITION BY o ORDER BY qty) "
    "AS r, sum(price) OVER (PARTITION BY o) AS t FROM l) AS x JOIN o ON x.o = o.id WHERE r < 4 "
    "GROUP BY segment, r",
    "groups": "SELECT segment, sum(m) AS s FROM o JOIN (SELECT o, max(qty) AS m FROM l GROUP BY o "
    "HAVING count(DISTINCT flag) > 1) AS g ON o.id = g.o GROUP BY segment",
}
UPSERT = INCREMENTAL.replace(")", ", 'write.upsert' = 'equality-delete')")


def create(world: RefreshWorld, query: str, clauses: str = INCREMENTAL) -> None:
    """Create the sources `l` and `o`, and a materialized table."""
    create_sources(world)
    created = world.create("mt", query, clauses=clauses)
    assert created.status is RunStatus.SUCCEEDED, created.error


def create_sources(world: RefreshWorld) -> None:
    world.spark(
        "CREATE TABLE l (o BIGINT, flag STRING, qty INT, price DECIMAL(12,2)) "
        f"USING iceberg TBLPROPERTIES ({MERGE_ON_READ})",
        f"CREATE TABLE o (id BIGINT, segment STRING) USING iceberg TBLPROPERTIES ({MERGE_ON_READ})",
        "INSERT INTO l SELECT id % 100, substr('ANR', 1 + cast(id % 3 AS INT), 1), cast(id % 50 AS INT), "
        "cast(id * 1.17 AS DECIMAL(12,2)) FROM range(1000)",
        "INSERT INTO o SELECT id, concat('s', id % 5) FROM range(100)",
    )


def refreshed(world: RefreshWorld, query: str, *statements: str) -> RefreshRun:
    """Change the sources and refresh the table; assert that it has the rows of its query."""
    world.spark(*statements)
    run = world.tick("mt")
    assert run.status is RunStatus.SUCCEEDED, run.error
    assert world.rows("mt") == world.plain(query), run.reason
    return run


def test_a_small_change_of_a_report_over_one_source_starts_no_job(world: RefreshWorld) -> None:
    query = (
        "SELECT flag, avg(price) AS a, sum(qty) / count(*) AS q FROM l GROUP BY flag ORDER BY flag LIMIT 9"
    )
    create(world, query)
    refreshed(world, query, "UPDATE l SET qty = qty + 1 WHERE o = 3")
    world.spark("UPDATE l SET price = price + 1 WHERE o = 7")

    before = started_jobs(world.session)
    run = world.tick("mt")

    assert (run.strategy, started_jobs(world.session) - before) == ("stages", 0), run.reason
    assert world.rows("mt") == world.plain(query)


@pytest.mark.parametrize("clauses", [INCREMENTAL, UPSERT], ids=["rows", "keys"])
def test_only_changed_groups_of_a_large_table_are_replaced(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, clauses: str
) -> None:
    take_tables_for_large(monkeypatch, True, files=False)
    query = "SELECT l.o, sum(qty) AS q, avg(price) AS p FROM l JOIN o ON l.o = o.id GROUP BY l.o"
    create(world, query, clauses)

    changed = refreshed(world, query, "UPDATE l SET price = price + 1, qty = qty + 3 WHERE o % 50 = 1")
    gone = refreshed(world, query, "DELETE FROM l WHERE o = 5", "INSERT INTO o VALUES (1000, NULL)")
    new = refreshed(world, query, "INSERT INTO l VALUES (1000, 'A', 5, 100.25), (NULL, 'X', 7, 3.50)")

    assert [run.strategy for run in (changed, gone, new)] == ["stages"] * 3
    assert [run.rows_inserted for run in (changed, gone, new)] == [2, 0, 1]


JOIN = "SELECT segment, avg(price) AS a, count(*) AS n FROM l JOIN o ON l.o = o.id GROUP BY segment"
OF_BOTH = "UPDATE l SET price = price + 1 WHERE o = 7", "DELETE FROM o WHERE id % 40 = {}"
"""Changes of both sources, each time of other rows of `o`."""


@pytest.mark.parametrize(
    "query",
    [
        JOIN,
        "SELECT count(*) AS n FROM l CROSS JOIN o",
        "SELECT segment, n, a FROM o JOIN (SELECT o, count(*) AS n, avg(price) AS a FROM l GROUP BY o) AS g "
        "ON g.o = o.id",
    ],
    ids=["join", "join without columns", "relation beside a state"],
)
def test_a_small_change_of_several_sources_starts_no_job(world: RefreshWorld, query: str) -> None:
    create(world, query)
    refreshed(world, query, *(each.format(3) for each in OF_BOTH))
    world.spark(*(each.format(4) for each in OF_BOTH))

    before = started_jobs(world.session)
    run = world.tick("mt")

    assert (run.strategy, started_jobs(world.session) - before) == ("stages", 0), run.reason
    assert world.rows("mt") == world.plain(query)


def test_a_small_change_below_operators_that_are_not_linear_starts_no_job(world: RefreshWorld) -> None:
    create_sources(world)
    for name, query in BELOW_SUMS.items():
        created = world.create(f"mt_{name}", query, clauses=INCREMENTAL)
        assert created.status is RunStatus.SUCCEEDED, (name, created.error)
    runs = dict[str, tuple[str | None, int]]()

    for number in (3, 4):
        world.spark(*(each.format(number) for each in OF_BOTH))
        point = world.next_point()
        for name in BELOW_SUMS:
            before = started_jobs(world.session)
            run = world.tick(f"mt_{name}", point)
            runs[name] = run.strategy, started_jobs(world.session) - before

    assert runs == dict.fromkeys(BELOW_SUMS, ("stages", 0))
    for name, query in BELOW_SUMS.items():
        assert world.rows(f"mt_{name}") == world.plain(query), name


def test_a_job_joins_changed_rows_with_many_rows(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(world, JOIN)
    refreshed(world, JOIN, *(each.format(3) for each in OF_BOTH))
    world.spark(*(each.format(4) for each in OF_BOTH))
    monkeypatch.setattr(block_changes, "MOST_JOINED_ROWS", 20)

    before = started_jobs(world.session)
    run = world.tick("mt")

    assert (run.strategy, started_jobs(world.session) > before) == ("stages", True), run.reason
    assert world.rows("mt") == world.plain(JOIN)


@pytest.mark.parametrize(
    "table",
    [
        "(SELECT o AS id, price FROM l UNION ALL SELECT id, 1.50 FROM o)",
        "(SELECT l.o AS id, l.price FROM l LEFT JOIN o ON l.o = o.id WHERE o.id IS NULL OR l.qty > 3)",
        "(SELECT l.o AS id, l.price FROM l LEFT ANTI JOIN (SELECT id, count(*) AS n FROM o GROUP BY id) x "
        "ON l.o = x.id AND x.n > 1)",
    ],
    ids=["union", "left join", "anti join"],
)
def test_many_changed_rows_are_joined_with_whole_sources_where_they_change_the_rows_alone(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    query = f"SELECT o.segment, count(*) AS n, sum(x.price) AS s FROM {table} x JOIN o ON x.id = o.id "
    query += "GROUP BY o.segment"
    create(world, query)
    statements = (
        "INSERT INTO l VALUES (5, 'A', 7, 2.50), (NULL, 'N', 1, 1), (1000, 'N', 1, 1)",
        "UPDATE l SET price = price + 1 WHERE o % 40 = 3",
    )
    few = refreshed(world, query, *statements)
    monkeypatch.setattr(LocalRelations, "change", lambda relations, number: None)

    many = refreshed(world, query, *statements)

    assert (few.strategy, many.strategy) == ("stages", "stages"), many.reason
