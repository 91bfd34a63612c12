"""A change of a source is applied to a query only as far as the query reads what changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from mt_core.model.run import RefreshRun, RunStatus
from mt_core.spark.iceberg.scan_tasks import source_rows
from mt_core.spark.readings import row_images
from tests.integration.maintained_world import FORMATS, INCREMENTAL
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.support.started_jobs import started_jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

UNREAD = "no row or column that the query reads changed"
AUTO = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """The strategy of each table's refresh, and the number of jobs that all of them started."""

    ways: Mapping[str, str | None]
    jobs: int


def create_sources(world: RefreshWorld, properties: str = FORMATS[0]) -> None:
    world.spark(
        f"CREATE TABLE o (id INT, k INT, amt DECIMAL(10, 2), note STRING, m MAP<STRING, INT>) USING iceberg "
        f"TBLPROPERTIES ({properties})",
        "INSERT INTO o SELECT id, id % 5, id * 10, 'n', map('a', id) FROM range(20)",
        "CREATE TABLE c (k INT, seg STRING, cap INT, note STRING) USING iceberg "
        f"TBLPROPERTIES ({properties})",
        "INSERT INTO c SELECT id, concat('s', id), id * 2, 'n' FROM range(6)",
    )


def refresh(world: RefreshWorld, queries: Mapping[str, str], *changes: str) -> Refreshed:
    """Change sources and refresh all tables; assert that each has the rows of its query."""
    world.spark(*changes)
    before, point = started_jobs(world.session), world.next_point()
    runs: dict[str, RefreshRun] = {name: world.tick(name, point) for name in queries}
    jobs = started_jobs(world.session) - before
    for name, query in queries.items():
        assert runs[name].status in (RunStatus.SUCCEEDED, RunStatus.SKIPPED), (name, runs[name].error)
        assert world.rows(name) == world.plain(query), (name, runs[name].reason)
        if runs[name].strategy == "nothing":
            assert UNREAD in str(runs[name].reason)
    return Refreshed(ways={name: run.strategy for name, run in runs.items()}, jobs=jobs)


def create(world: RefreshWorld, queries: Mapping[str, str], clauses: str = INCREMENTAL) -> None:
    for name, query in queries.items():
        run = world.create(name, query, clauses=clauses)
        assert run.status is RunStatus.SUCCEEDED, (name, run.error)


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param(FORMATS[0], id="copy on write"),
        pytest.param(FORMATS[1], id="position deletes", marks=pytest.mark.slow),
        pytest.param(FORMATS[2], id="deletion vectors", marks=pytest.mark.slow),
    ],
)
def test_an_update_of_a_column_that_a_query_does_not_read_starts_no_job(
    world: RefreshWorld, properties: str
) -> None:
    create_sources(world, properties)
    world.spark("CREATE VIEW ov AS SELECT id, k, amt AS a, note AS n FROM o")
    queries = {
        "projection": "SELECT id, amt * 2 AS a FROM o WHERE k > 1",
        "counted": "SELECT count(*) AS n FROM o",
        "grouped": "SELECT k, sum(amt) AS s FROM (SELECT * FROM o) GROUP BY k",
        "aliased": "SELECT a.x, a.y FROM o AS a(x, y, z, u, v)",
        "of_view": "SELECT id, a FROM ov WHERE k < 4",
        "of_cte": "WITH w AS (SELECT * FROM o) SELECT w.id, v.k FROM w JOIN w AS v ON w.id = v.id",
        "joined": "SELECT o.id, c.seg FROM o LEFT JOIN c ON o.k = c.k",
        "scalar": "SELECT seg, (SELECT max(amt) FROM o) AS most FROM c",
        "existing": "SELECT seg FROM c WHERE EXISTS (SELECT * FROM o WHERE o.k = c.k AND o.amt > 50)",
        "ranked": "SELECT id, rank() OVER (ORDER BY amt) AS r FROM o",
        "limited": "SELECT id, amt FROM o ORDER BY amt DESC, id LIMIT 3",
    }
    create(world, queries, AUTO)

    found = refresh(world, queries, "UPDATE o SET note = 'x', m = map('b', 1) WHERE id % 3 = 0")

    assert found == Refreshed(ways=dict.fromkeys(queries, "nothing"), jobs=0)


def test_rows_that_an_update_moves_out_of_and_into_a_filter_go_and_come(world: RefreshWorld) -> None:
    create_sources(world)
    queries = {
        "dear": "SELECT id, note FROM o WHERE amt > 100 AND k <> 4",
        "sums": "SELECT k, count(*) AS n, sum(amt) AS s FROM o WHERE amt BETWEEN 50 AND 150 GROUP BY k",
    }
    create(world, queries)

    out = refresh(world, queries, "UPDATE o SET amt = 1 WHERE id = 12")
    into = refresh(world, queries, "UPDATE o SET amt = 120 WHERE id = 1")
    outside = refresh(world, queries, "UPDATE o SET amt = amt + 1, note = 'y' WHERE id IN (2, 3)")
    rejected = refresh(world, queries, "DELETE FROM o WHERE id = 2", "INSERT INTO o (id, amt) VALUES (50, 3)")
    appended = refresh(
        world, queries, "INSERT INTO o VALUES (60, 4, 7, 'z', NULL), (61, NULL, NULL, 'z', NULL)"
    )

    both = {"dear": "stages", "sums": "merge"}
    neither = dict.fromkeys(queries, "nothing")
    # The sum of the group that only lost a row is computed again, by a job.
    assert (out.ways, into) == (both, Refreshed(ways=both, jobs=0))
    assert [outside, rejected, appended] == [Refreshed(ways=neither, jobs=0)] * 3


def test_two_readings_of_a_source_with_different_filters_change_by_themselves(world: RefreshWorld) -> None:
    create_sources(world)
    queries = {
        "pairs": (
            "SELECT a.id, b.id AS other FROM (SELECT * FROM o WHERE amt < 50) AS a "
            "JOIN (SELECT * FROM o WHERE amt > 150) AS b ON a.k = b.k"
        ),
        "parts": (
            "SELECT id, 'low' AS part FROM o WHERE amt < 50 UNION ALL SELECT k, note FROM o WHERE amt > 150"
        ),
        "outer_join": "SELECT c.k, c.seg, o.id FROM c LEFT JOIN o ON c.k = o.k AND o.amt > 100",
        "filtered_join": "SELECT o.id, c.seg FROM o, c WHERE o.k = c.k AND o.amt < 100 AND c.cap > 4",
        "without": "SELECT k, seg FROM c WHERE NOT EXISTS (SELECT 1 FROM o WHERE o.k = c.k AND amt > 100)",
    }
    create(world, queries)

    between = refresh(world, queries, "UPDATE o SET amt = 101, k = 3 - k WHERE id = 10")
    low = refresh(world, queries, "UPDATE o SET k = 9 - k WHERE amt < 50")
    neither = refresh(world, queries, "UPDATE o SET note = 'x' WHERE amt < 150")
    small = refresh(world, queries, "UPDATE c SET cap = cap - 1, note = 'x' WHERE cap < 4")

    assert between.ways == {
        "pairs": "nothing", "parts": "nothing", "outer_join": "stages", "filtered_join": "nothing",
        "without": "nothing",
    }  # fmt: skip
    assert low.ways == {
        "pairs": "stages", "parts": "nothing", "outer_join": "nothing", "filtered_join": "stages",
        "without": "nothing",
    }  # fmt: skip
    assert neither == Refreshed(ways=dict.fromkeys(queries, "nothing"), jobs=0)
    assert small.ways == dict.fromkeys(queries, "nothing") | {"pairs": None, "parts": None}
    assert small.jobs == 0


def test_a_query_that_no_change_can_be_applied_to_is_not_recomputed_for_columns_that_it_does_not_read(
    world: RefreshWorld,
) -> None:
    create_sources(world)
    queries = {
        "histogram": "SELECT n, count(*) AS m FROM (SELECT k, count(*) AS n FROM o GROUP BY k) GROUP BY n"
    }
    create(world, queries, AUTO)

    unread = refresh(world, queries, "UPDATE o SET amt = amt + 1")
    read = refresh(world, queries, "UPDATE o SET k = 1 WHERE id = 0")

    assert (unread, read.ways) == (
        Refreshed(ways={"histogram": "nothing"}, jobs=0),
        {"histogram": "recompute"},
    )


def test_a_column_that_cannot_be_compared_matters_only_to_a_query_that_reads_it(world: RefreshWorld) -> None:
    world.spark(
        "CREATE TABLE o (k INT, v ARRAY<MAP<STRING, INT>>) USING iceberg",
        "INSERT INTO o VALUES (1, NULL), (2, NULL)",
    )
    queries = {"keys": "SELECT k FROM o", "sizes": "SELECT k, size(v) AS n FROM o"}
    create(world, queries)

    found = refresh(world, queries, "DELETE FROM o WHERE k = 1")

    assert found.ways == {"keys": "stages", "sizes": "recompute"}


def test_a_condition_is_not_applied_to_a_row_that_a_condition_below_it_excludes(world: RefreshWorld) -> None:
    world.spark(
        "CREATE TABLE o (k INT, s STRING) USING iceberg", "INSERT INTO o VALUES (1, '1'), (2, 'x'), (3, '3')"
    )
    queries = {"numbers": "SELECT k FROM (SELECT * FROM o WHERE k <> 2) WHERE CAST(s AS INT) > 0"}
    create(world, queries)

    found = refresh(world, queries, "UPDATE o SET s = 'y' WHERE k = 2")

    assert found == Refreshed(ways={"numbers": "nothing"}, jobs=0)


def test_small_appends_of_several_sources_are_read_once_and_by_no_job(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_sources(world)
    queries = {
        "joined": "SELECT o.id, c.seg FROM o JOIN c ON o.k = c.k WHERE c.cap > 4",
        "copied": "SELECT id, note FROM o",
        "counted": "SELECT k, count(*) AS n FROM o GROUP BY k",
        "segments": "SELECT seg FROM c WHERE cap > 4",
    }
    create(world, queries)
    reads = list[tuple[str, ...]]()

    def counted(*args: object, **kwargs: object) -> object:
        reads.append(tuple(args[3].names))  # type: ignore[attr-defined]
        return source_rows(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(row_images, "source_rows", counted)
    changes = ("INSERT INTO o VALUES (70, 4, 5, 'a', NULL)", "INSERT INTO c VALUES (7, 's7', 1, 'a')")
    first = refresh(world, queries, *changes)
    reads.clear()
    second = refresh(world, queries, *changes)

    assert first.ways == {"joined": "append", "copied": "append", "counted": "merge", "segments": "nothing"}
    assert second.ways == first.ways
    assert reads == [("id", "k", "note"), ("k", "seg", "cap")]
