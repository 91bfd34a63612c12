"""Tables whose rows refreshes replace by key have the rows of their queries, whatever types the keys have."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mt_core.model.run import RefreshRun, RunStatus
from mt_core.spark.iceberg import recent_files
from mt_core.tables.upkeep.compaction import compact
from tests.depth import DEPTH
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

OPTIONS = "'refresh.strategy' = 'incremental', 'write.upsert' = 'equality-delete'"
KEYS = {
    "s": "CAST(id % 40 AS STRING)",
    "i": "CAST(id % 2 AS INT)",
    "l": "id % 3 + 5000000000",
    "d": "CAST(id % 4 AS DECIMAL(9, 2)) / 8",
    "t": "TIMESTAMP '2026-03-29 02:30:00.000001' + make_interval(0, 0, 0, 0, CAST(id % 5 AS INT))",
    "ntz": "TIMESTAMP_NTZ '2026-03-29 02:30:00.000001' + make_interval(0, 0, 0, 0, CAST(id % 5 AS INT))",
    "day": "DATE '1969-12-31' + CAST(id % 2 AS INT)",
    "b": "CAST(CAST(id % 4 AS STRING) AS BINARY)",
    "f": "id % 2 = 0",
}
"""Columns of each type that rows can be deleted by, each NULL in some rows."""


@pytest.fixture
def orders(world: RefreshWorld) -> RefreshWorld:
    """A source `o` that is much larger than what a test changes of it."""
    keys = ", ".join(
        f"IF(id % 7 = {number}, NULL, {key}) AS {name}" for number, (name, key) in enumerate(KEYS.items())
    )
    world.spark(
        f"CREATE TABLE o USING iceberg AS SELECT id, {keys}, CAST(id % 100 AS INT) AS v, "
        "uuid() AS ballast FROM range(20000)"
    )
    return world


def create(world: RefreshWorld, name: str, query: str, *, clauses: str = "", options: str = "") -> RefreshRun:
    return world.create(name, query, clauses=f"{clauses} WITH ({OPTIONS}{options})")


def commits(world: RefreshWorld, name: str) -> int:
    return len(world.plain(f"SELECT snapshot_id FROM lake.{world.namespace}.{name}.snapshots"))


def deletes(world: RefreshWorld, name: str) -> dict[int, int]:
    """Return the number of delete files of a table by what they delete by: 1 places, 2 keys."""
    files = f"lake.{world.namespace}.{name}.delete_files"
    counts = world.plain(f"SELECT content, count(*) FROM {files} GROUP BY content")
    return dict(counts)  # type: ignore[arg-type]


def test_groups_that_changed_are_replaced_by_their_keys_in_one_commit(orders: RefreshWorld) -> None:
    keys = ", ".join(KEYS)
    query = f"SELECT median(v) AS middle, {keys}, count(*) AS n FROM o GROUP BY {keys}"
    create(orders, "mt", query)
    before = commits(orders, "mt")
    orders.spark(
        "INSERT INTO o SELECT * FROM o WHERE id < 30",
        f"INSERT INTO o (v, {keys}) SELECT 1, 'new', i, l, d, t, ntz, day, b, f FROM o WHERE id = 8",
    )

    replaced = orders.tick("mt")

    assert (replaced.error, replaced.strategy, replaced.rows_deleted) == (None, "stages", None)
    assert (commits(orders, "mt") - before, deletes(orders, "mt")) == (1, {2: 1})
    assert orders.rows("mt") == orders.plain(query)
    orders.spark("DELETE FROM o WHERE s = 'new'")
    assert orders.tick("mt").strategy == "stages"
    assert orders.rows("mt") == orders.plain(query)
    assert deletes(orders, "mt") == {2: 2}


@pytest.mark.slow
def test_groups_that_are_read_are_deleted_by_their_places_in_the_files_of_the_last_changes(
    orders: RefreshWorld,
) -> None:
    query = "SELECT s, i, count(v) AS filled, count(*) AS n FROM o GROUP BY s, i"
    create(orders, "mt", query)
    counted = []
    for change in (
        "INSERT INTO o SELECT * FROM o WHERE id < 30",
        "INSERT INTO o SELECT * FROM o WHERE id BETWEEN 20 AND 60",
        "INSERT INTO o (v, s) VALUES (1, 'new')",
        "DELETE FROM o WHERE s = 'new'",
    ):
        before = set(orders.rows("mt"))
        orders.spark(change)

        run = orders.tick("mt")

        now = set(orders.rows("mt"))
        assert (run.error, run.strategy, orders.rows("mt")) == (None, "merge", orders.plain(query))
        assert deletes(orders, "mt") == {1: 1}, change
        counted.append((run.rows, run.rows_deleted))
        assert counted[-1] == (len(now - before), len(before - now))


@pytest.mark.slow
def test_files_of_changes_that_are_full_are_gathered_in_larger_ones(
    orders: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "SELECT s, i, count(v) AS filled, count(*) AS n FROM o GROUP BY s, i"
    create(orders, "mt", query)
    files = f"SELECT content, count(*) FROM lake.{orders.namespace}.mt.files GROUP BY content"
    data = dict(orders.plain(files))[0]  # type: ignore[call-overload]
    monkeypatch.setattr(recent_files, "MOST_RECENT", 10)

    def change(rows: str) -> tuple[int, int]:
        before = set(orders.rows("mt"))
        orders.spark(f"INSERT INTO o SELECT * FROM o WHERE id {rows}")
        run = orders.tick("mt")
        now = set(orders.rows("mt"))
        assert (run.error, run.strategy, orders.rows("mt")) == (None, "merge", orders.plain(query))
        assert (run.rows, run.rows_deleted) == (len(now - before), len(before - now))
        found = dict(orders.plain(files))  # type: ignore[call-overload]
        return found[0] - data, found[1]

    # Those of one change are full. The next change begins with new ones, and the one after it gathers both
    # with its own.
    assert [change(rows) for rows in ("< 30", "BETWEEN 20 AND 40", "BETWEEN 10 AND 35")] == [
        (1, 1),
        (2, 2),
        (1, 1),
    ]
    assert [change(rows) for rows in ("< 3", "< 4", "BETWEEN 4 AND 20")] == [(2, 2), (2, 2), (1, 1)]
    monkeypatch.setattr(recent_files, "MOST_GATHERED", 20)
    assert [change(rows) for rows in ("BETWEEN 4 AND 20", "< 3")] == [(2, 2), (3, 3)]


@pytest.mark.parametrize("version", ["2", pytest.param("3", marks=pytest.mark.slow)])
def test_partitions_get_delete_files_of_their_own(orders: RefreshWorld, version: str) -> None:
    query = "SELECT avg(v) AS v, day, max(ballast) AS last, i, s FROM o GROUP BY s, day, i"
    create(
        orders, "mt", query, clauses="PARTITIONED BY (day, i)", options=f", 'format-version' = '{version}'"
    )
    orders.spark("INSERT INTO o SELECT * FROM o WHERE id < 30")

    run = orders.tick("mt")

    assert (run.error, run.strategy, orders.rows("mt")) == (None, "stages", orders.plain(query))
    assert deletes(orders, "mt") == {2: len(orders.plain("SELECT DISTINCT day, i FROM o WHERE id < 30"))}


@pytest.mark.parametrize(
    ("key", "clauses"),
    [
        ("CAST(v AS DOUBLE)", ""),
        pytest.param("CAST(v AS STRING)", "PARTITIONED BY (last)", marks=pytest.mark.slow),
    ],
)
def test_rows_that_keys_cannot_delete_are_looked_up(orders: RefreshWorld, key: str, clauses: str) -> None:
    query = f"SELECT {key} AS k, count(*) AS n, max(i) AS last FROM o GROUP BY {key}"
    create(orders, "mt", query, clauses=clauses)
    orders.spark("INSERT INTO o SELECT * FROM o WHERE id < 3")

    run = orders.tick("mt")

    assert (run.strategy, orders.rows("mt")) == ("merge", orders.plain(query))
    assert 2 not in deletes(orders, "mt")


@pytest.mark.slow
def test_a_compaction_takes_the_deletes_away(orders: RefreshWorld) -> None:
    query = "SELECT s, median(v) AS middle FROM o GROUP BY s"
    create(orders, "mt", query)
    for number in range(3):
        orders.spark(f"INSERT INTO o SELECT * FROM o WHERE id = {number}")
        orders.tick("mt")
    settings = replace(orders.services.settings, compact_delete_files=2)
    rows = orders.rows("mt")

    run = compact(replace(orders.services, settings=settings), orders.table("mt"))

    assert run is not None
    assert orders.rows("mt") == rows == orders.plain(query)
    assert deletes(orders, "mt") == {}
    orders.spark("INSERT INTO o SELECT * FROM o WHERE id = 1")
    assert orders.tick("mt").strategy == "stages"
    assert (orders.rows("mt"), deletes(orders, "mt")) == (orders.plain(query), {2: 1})


class Lost(Exception):
    """Ends a worker as the loss of its process does."""


@pytest.mark.slow
@pytest.mark.parametrize(("function", "by"), [("median", 2), ("sum", 1)], ids=["keys", "places"])
def test_a_run_that_is_lost_at_any_step_replaces_its_groups_once(
    orders: RefreshWorld, function: str, by: int
) -> None:
    query = f"SELECT s, {function}(v) AS total FROM o GROUP BY s"
    create(orders, "mt", query)
    work = orders.work

    def lose() -> None:
        raise Lost

    steps = ("staged", "publish: commit", "published", "end")
    # In CI before the commit, and after it.
    for number, step in enumerate(steps if DEPTH > 1 else steps[1:3], 1):
        orders.spark(f"INSERT INTO o SELECT * FROM o WHERE id = {number}")
        orders.work = lambda step=step: work(before=step, do=lose)  # type: ignore[method-assign, misc]
        with pytest.raises(Lost):
            orders.tick("mt")
        orders.clock.advance(timedelta(hours=1))
        assert orders.ledger.recover() == 1
        work()

        run = orders.runs("mt")[-1]
        assert (run.status, run.attempt, orders.rows("mt")) == (
            RunStatus.SUCCEEDED,
            2,
            orders.plain(query),
        ), step
        assert set(deletes(orders, "mt")) == {by}
    assert orders.engine.metadata.load(orders.table("mt").identifier).branches == {}
