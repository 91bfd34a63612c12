"""Scalar subqueries below states and in rows: what a refresh does if their values change, and if not."""

from __future__ import annotations

import pytest

from mt_core.model.run import RefreshRun, RunStatus
from mt_core.spark.states import tiny_states
from mt_core.tables.refresh import change_plan
from tests.integration.maintained_world import AUTO, INCREMENTAL, MERGE_ON_READ, take_tables_for_large
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.integration.staged_world import check_states
from tests.support.started_jobs import started_jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


class Sources:
    """The tables `a` of accounts, `o` of orders and `p` of parameters, and a materialized table over them."""

    def __init__(self, world: RefreshWorld, query: str, clauses: str = INCREMENTAL) -> None:
        self.world, self.query, self.states = world, query, 0
        world.spark(
            *(
                f"CREATE TABLE {columns} USING iceberg TBLPROPERTIES ({MERGE_ON_READ})"
                for columns in (
                    "a (id INT, city STRING, balance INT)",
                    "o (account INT, price DECIMAL(9,2))",
                    "p (name STRING, v INT)",
                )
            ),
            "INSERT INTO a SELECT id, concat('c', id % 4), id FROM range(21)",
            "INSERT INTO o SELECT id % 25, id * 1.5 FROM range(60)",
            "INSERT INTO p VALUES ('least', 5), ('most', 50)",
        )
        created = world.create("mt", query, clauses=clauses)
        assert created.status is RunStatus.SUCCEEDED, created.error

    def change(self, *statements: str, by: str = "stages") -> RefreshRun:
        """Change the sources and refresh the table; assert that it has the rows of its query."""
        self.world.spark(*statements)
        run = self.world.tick("mt")
        assert run.status is RunStatus.SUCCEEDED, run.error
        assert self.world.rows("mt") == self.world.plain(self.query), run.reason
        assert run.strategy == by, run.reason
        self.states = check_states(self.world, "mt")
        return run


RICH = (
    "SELECT city, count(*) AS n, avg(price) AS m FROM a JOIN o ON id = account "
    "WHERE balance >= (SELECT avg(balance) FROM a) GROUP BY city"
)


def test_a_state_is_computed_anew_if_a_value_below_it_changes(world: RefreshWorld) -> None:
    sources = Sources(world, RICH)

    # The average moves from 10 beyond 11, so that rows of account 10 leave, which did not change.
    sources.change("UPDATE a SET balance = balance + 50 WHERE id = 20")
    sources.change("DELETE FROM a WHERE id > 15", "INSERT INTO o VALUES (10, 1.25), (11, NULL)")
    sources.change("DELETE FROM a")
    sources.change("INSERT INTO a VALUES (1, 'c1', 5), (2, NULL, NULL), (3, 'c3', 7)")


def test_while_a_value_stays_the_same_a_small_change_starts_no_job(world: RefreshWorld) -> None:
    sources = Sources(world, RICH)
    statements = (
        "UPDATE a SET balance = balance + 1 - (id % 2) * 2, city = 'c{0}' WHERE id IN ({0}, {0} + 1)",
        "UPDATE o SET price = price + 1 WHERE account IN ({0} - 9, {0} + 4)",
    )
    sources.change(*(each.format(14) for each in statements))
    world.spark(*(each.format(12) for each in statements))

    before = started_jobs(world.session)
    run = world.tick("mt")

    assert (run.strategy, started_jobs(world.session) - before) == ("stages", 0), run.reason
    assert world.rows("mt") == world.plain(RICH)


def test_no_row_is_written_if_only_the_state_of_a_value_has_changed(world: RefreshWorld) -> None:
    sources = Sources(world, RICH)

    # An account of the average balance, without orders.
    run = sources.change("INSERT INTO a VALUES (30, 'c1', 10)")
    other = sources.change("INSERT INTO o VALUES (30, 4.75)")

    assert (run.rows_inserted, run.rows_deleted, other.rows_inserted) == (0, 0, 4)


def test_a_value_is_not_computed_if_nothing_that_the_subquery_reads_has_changed(world: RefreshWorld) -> None:
    # An aggregate that is no state.
    query = RICH.replace("avg(balance) FROM a", "min(v) FROM p")
    sources = Sources(world, query)
    sources.change("UPDATE o SET price = price + 1 WHERE account IN (5, 18)")
    world.spark("UPDATE o SET price = price + 1 WHERE account IN (5, 18)")

    before = started_jobs(world.session)
    run = world.tick("mt")

    assert (run.strategy, started_jobs(world.session) - before) == ("stages", 0), run.reason
    # What does not change the value changes nothing.
    sources.change("INSERT INTO p VALUES ('large', 70)", by="nothing")
    sources.change("INSERT INTO p VALUES ('small', 2)", "DELETE FROM o WHERE account = 11")


def test_a_value_without_a_row_is_null(world: RefreshWorld) -> None:
    query = (
        "SELECT city, avg(price) AS m, (SELECT v FROM p WHERE name = 'least') AS v FROM a "
        "JOIN o ON id = account WHERE coalesce(balance >= (SELECT v FROM p WHERE name = 'least'), city = "
        "'c2') GROUP BY city"
    )
    sources = Sources(world, query)

    sources.change("DELETE FROM p WHERE name = 'least'")
    sources.change("INSERT INTO p VALUES ('least', NULL)", "INSERT INTO o VALUES (2, 99.95)")
    sources.change("UPDATE p SET v = 19")


def test_a_subquery_that_returns_no_null_has_the_value_null_without_a_row(world: RefreshWorld) -> None:
    sources = Sources(
        world,
        "SELECT city, count(*) AS n, EXISTS (SELECT 1 FROM p WHERE v > 60) AS large FROM a "
        "WHERE EXISTS (SELECT 1 FROM p WHERE v > 60) OR balance > 7 GROUP BY city",
    )
    assert world.rows("mt") == world.plain(sources.query)

    sources.change("INSERT INTO p VALUES ('large', 70)")
    sources.change("DELETE FROM p WHERE v > 60", "INSERT INTO a VALUES (22, 'c2', 3)")


def test_a_value_may_be_kept_in_a_table(world: RefreshWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_states, "MOST_TINY", 0)
    sources = Sources(world, RICH)

    same = sources.change("INSERT INTO a VALUES (30, 'c1', 10)")
    sources.change("UPDATE a SET balance = 40 WHERE id = 30")

    assert same.rows_inserted == 0


def test_a_subquery_of_two_rows_fails_as_in_the_query(world: RefreshWorld) -> None:
    sources = Sources(world, RICH.replace("avg(balance) FROM a", "v FROM p WHERE name = 'least'"))

    world.spark("INSERT INTO p VALUES ('least', 6)")
    run = world.tick("mt")

    assert run.status is RunStatus.FAILED
    assert "SCALAR_SUBQUERY_TOO_MANY_ROWS" in (run.error or ""), run.error
    sources.change("DELETE FROM p WHERE v = 5", by="stages")


def test_a_state_may_depend_on_values_of_other_states(world: RefreshWorld) -> None:
    # The second state depends on a value of the first one, and the third one on a value of the second one.
    query = (
        "SELECT city, avg(price) AS m, (SELECT sum(v) FROM p) AS limit FROM a JOIN o ON id = account "
        "WHERE balance < (SELECT sum(balance) / 4 FROM a WHERE balance < (SELECT sum(v) FROM p)) "
        "GROUP BY city"
    )
    sources = Sources(world, query)

    sources.change("UPDATE p SET v = v - 40 WHERE name = 'most'")
    sources.change("UPDATE p SET v = v + 1 - 2 * cast(name = 'most' AS INT)", by="nothing")
    sources.change("UPDATE a SET balance = balance + 3 WHERE id = 2")
    sources.change("INSERT INTO o VALUES (7, 1000)")


def test_only_changed_groups_of_a_large_table_are_replaced_while_values_stay_the_same(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_tables_for_large(monkeypatch, True, files=False)
    query = RICH.replace("city,", "account,").replace("GROUP BY city", "GROUP BY account")
    sources = Sources(world, query)

    same = sources.change("UPDATE o SET price = price + 1 WHERE account IN (3, 17)")
    other = sources.change("UPDATE a SET balance = balance + 21 WHERE id = 17")

    assert (same.rows_inserted, other.rows_inserted) == (1, 10)


ABOVE = (
    "SELECT id, city, balance - (SELECT min(v) FROM p) AS v FROM a "
    "WHERE balance > (SELECT avg(balance) FROM a)"
)


def test_rows_change_one_by_one_while_the_values_in_them_stay_the_same(world: RefreshWorld) -> None:
    sources = Sources(world, ABOVE)
    # The average stays 10.
    swap = "UPDATE a SET balance = balance + 1 - (id % 2) * 2 WHERE id IN ({0}, {0} + 1)"
    runs = [sources.change(swap.format(14), "INSERT INTO p VALUES ('more', 70)")]
    world.spark(swap.format(16))

    before = started_jobs(world.session)
    runs.append(world.tick("mt"))

    assert started_jobs(world.session) == before
    assert world.rows("mt") == world.plain(ABOVE)
    assert [(run.strategy, run.rows_inserted, run.rows_deleted) for run in runs] == [("stages", 10, 10)] * 2
    assert sources.states == 3


def test_all_rows_are_computed_if_a_value_in_them_changes(world: RefreshWorld) -> None:
    sources = Sources(world, ABOVE)

    # The average moves from 10 beyond 11, so that the row of account 11 leaves, which did not change.
    sources.change("UPDATE a SET balance = balance + 50 WHERE id = 20")
    sources.change("DELETE FROM p")
    sources.change("INSERT INTO p VALUES ('least', 3)", "DELETE FROM a WHERE id > 15")
    sources.change("DELETE FROM a", by="stages")
    sources.change("INSERT INTO a VALUES (1, 'c1', 5), (2, NULL, NULL), (3, 'c3', 7)")
    none = sources.change("INSERT INTO a VALUES (4, 'c4', 6)")

    assert (none.rows_inserted, none.rows_deleted) == (0, 0)


def test_rows_need_no_kept_values_until_these_may_change(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_plan, "_dear", lambda *_: None)
    query = "SELECT id, city, price + (SELECT sum(v) FROM p) AS v FROM a JOIN o ON id = account"
    sources = Sources(world, query, AUTO)

    sources.change("INSERT INTO a VALUES (21, 'c9', 7)", by="append")
    sources.change("UPDATE a SET city = 'c8' WHERE id IN (3, 21)", "DELETE FROM o WHERE account = 4")
    before = sources.states
    sources.change("UPDATE p SET v = v + 1", by="recompute")
    sources.change("DELETE FROM o WHERE account = 5")
    sources.change("UPDATE p SET v = v + 1", by="recompute")
    sources.change("UPDATE p SET v = v + 1")
    sources.change("INSERT INTO o VALUES (7, 1000)", by="append")

    assert (before, sources.states) == (0, 2)


def test_a_large_table_with_values_is_changed_in_place(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_tables_for_large(monkeypatch, True, files=True)
    sources = Sources(world, ABOVE)

    run = sources.change("UPDATE a SET city = 'c9' WHERE id IN (3, 17)")

    assert (run.rows_inserted, run.rows_deleted) == (1, 1)
