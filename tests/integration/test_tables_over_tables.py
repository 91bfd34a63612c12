"""Tables over tables on real Spark: long chains, diamonds and mixed modes show what their queries give."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mt_core.model.run import RunStatus
from tests.depth import dice, rounds
from tests.integration.follower import Follower
from tests.integration.follower import follower as follower
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CHAIN = {
    "one": "SELECT city, amount FROM orders WHERE amount > 1",
    "two": "SELECT city, amount, amount * 2 AS twice FROM one",
    "three": "SELECT city, count(*) AS n, sum(twice) AS twice FROM two GROUP BY city",
    "four": "SELECT city, twice FROM three WHERE n > 0",
    "five": "SELECT count(*) AS cities, sum(twice) AS twice FROM four",
}
DIAMOND = {
    "low": "SELECT city, min(amount) AS amount FROM orders GROUP BY city",
    "high": "SELECT city, max(amount) AS amount FROM orders GROUP BY city",
    "span": "SELECT l.city, h.amount - l.amount AS span FROM low l JOIN high h ON l.city <=> h.city",
}
DAYS = {
    "low": "SELECT ds, city, count(*) AS n, sum(amount) AS amount FROM days GROUP BY ds, city",
    "high": "SELECT ds, max(amount) AS most, sum(n) AS n FROM low GROUP BY ds",
}
BY_DAY = "PARTITIONED BY (ds) WITH ('partition.fields.ds.date-formatter' = 'yyyy-MM-dd')"
CHANGES = (
    "INSERT INTO orders VALUES ('Rome', 5), ('Bern', 6)",
    "UPDATE orders SET amount = amount + 10 WHERE city = 'Oslo'",
    "DELETE FROM orders WHERE city = 'Rome' AND amount < 3",
)


def check(follower: Follower, queries: dict[str, str]) -> None:
    world = follower.world
    assert {name: world.rows(name) for name in queries} == {
        name: world.plain(text) for name, text in queries.items()
    }


@pytest.mark.slow
def test_five_tables_over_each_other_follow_within_the_sum_of_their_freshnesses(follower: Follower) -> None:
    world = follower.world
    for name, query in CHAIN.items():
        follower.follow(name, query, strategy="auto")

    for change in CHANGES:
        world.spark(change)
        for name, query in CHAIN.items():
            for _ in range(2):
                world.clock.advance(timedelta(seconds=5))
                follower.lookout.poll()
            check(follower, {name: query})
    assert follower.differences(*CHAIN) == {}


def test_a_batch_of_which_a_table_takes_no_row_is_none_for_the_table_above(follower: Follower) -> None:
    world = follower.world
    follower.follow("dear", "SELECT city, amount FROM orders WHERE amount > 100")
    follower.follow("above", "SELECT city FROM dear")
    versions = f"SELECT count(*) FROM {world.namespace}.{{}}.snapshots"
    before = [world.plain(versions.format(name)) for name in ("dear", "above")]

    world.spark("INSERT INTO orders VALUES ('Rome', 1)")
    for _ in range(4):
        world.clock.advance(timedelta(seconds=5))
        follower.lookout.poll()

    [[(dear,)], [(above,)]] = [world.plain(versions.format(name)) for name in ("dear", "above")]
    assert (dear - before[0][0][0], above - before[1][0][0]) == (1, 0)
    check(follower, {"above": "SELECT city FROM dear"})


@pytest.mark.slow
def test_two_paths_from_one_source_meet_again_and_agree(follower: Follower) -> None:
    for name, query in DIAMOND.items():
        follower.follow(name, query, strategy="auto")

    for change in CHANGES:
        follower.step(change)
        check(follower, DIAMOND)
        assert follower.differences("span") == {}


@pytest.mark.slow
def test_a_full_table_over_a_continuous_one_over_a_full_one_shows_what_was_published_below(
    follower: Follower,
) -> None:
    world = follower.world
    world.create("daily", "SELECT city, sum(amount) AS amount FROM orders GROUP BY city")
    follower.follow("live", "SELECT city, amount FROM daily WHERE amount > 2", strategy="auto")
    world.create("best", "SELECT max(amount) AS amount FROM live")

    for change in CHANGES:
        before = world.rows("live")
        follower.step(change)
        assert world.rows("live") == before
        assert world.tick("daily").status is RunStatus.SUCCEEDED
        follower.step()
        assert world.tick("best", world.clock.now()).status in (RunStatus.SUCCEEDED, RunStatus.SKIPPED)

        assert world.rows("live") == world.plain(
            "SELECT * FROM (SELECT city, sum(amount) AS amount FROM orders GROUP BY city) WHERE amount > 2"
        )
        assert world.rows("best") == world.plain("SELECT max(amount) FROM live")


@pytest.mark.slow
@pytest.mark.parametrize("clauses", ["", BY_DAY], ids=["whole", "by day"])
def test_two_full_tables_of_one_freshness_agree_after_each_schedule_time_while_rows_come_late_at_random(
    world: RefreshWorld, clauses: str
) -> None:
    chance, day = dice(7), world.clock.now()
    world.spark("CREATE TABLE days (ds STRING, city STRING, amount INT) USING iceberg")

    def rows_come() -> None:
        """Append rows of the day, of which no table has any before its next schedule time,
        and of days before.
        """
        days = [day - timedelta(days=chance.randrange(3)) for _ in range(4)]
        rows = (
            f"('{each:%Y-%m-%d}', '{chance.choice(('Rome', 'Oslo'))}', {chance.randrange(9)})"
            for each in (day, *days)
        )
        world.spark(f"INSERT INTO days VALUES {', '.join(rows)}")

    rows_come()
    for name, query in DAYS.items():
        world.create(name, query, clauses=clauses)

    for _ in range(rounds(2, 10)):
        rows_come()
        point = world.next_point()
        if chance.random() < 0.5:
            world.spark(f"UPDATE days SET amount = amount + 10 WHERE ds < '{day:%Y-%m-%d}' AND city = 'Rome'")
        low = world.plain(DAYS["low"])
        # The one above is asked for first, and rows come between their refreshes.
        runs = {name: world.request_tick(name, point) for name in ("high", "low")}
        world.work(before="write", do=rows_come)

        assert {name: world.run(run).status for name, run in runs.items()} == dict.fromkeys(
            runs, RunStatus.SUCCEEDED
        )
        assert world.rows("low") == low
        assert world.rows("high") == world.plain(DAYS["high"])
        day = point
