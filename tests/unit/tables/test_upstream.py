"""Tables that read materialized tables are refreshed after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from mt_core.errors import ConfigError
from mt_core.model.run import RunKind, RunStatus
from mt_core.model.table import TableIdentifier
from mt_core.tables.registry import in_transaction
from mt_core.tables.runs.ledger import MOST_MARKED
from tests.support.manager_world import START, ManagerWorld
from tests.support.registry_facts import a_run

ORDERS = "lake.default.orders"
KEY = "materialized-table.upstream-wait"
ONE_PM = START + timedelta(hours=1)


def over(name: str, source: str, *, freshness: str = "'1' HOUR", options: str = "") -> str:
    return (
        f"CREATE MATERIALIZED TABLE {name} {options} FRESHNESS = INTERVAL {freshness} REFRESH_MODE = FULL "
        f"AS SELECT * FROM {source}"
    )


def chain(*names: str) -> ManagerWorld:
    """Return a world at 13:00 in which each of the tables reads the one before it,
    and new orders wait for all of them.
    """
    world = ManagerWorld()
    for name, source in zip(names, ("orders", *names), strict=False):
        world.sql(over(name, source))
        world.work()
    world.clock.advance(timedelta(hours=1))
    world.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": amount} for amount in (1, 2)])
    return world


def waits_for(world: ManagerWorld, name: str) -> object:
    """Return what SHOW REFRESHES says of the newest run of the table."""
    return world.show(f"SHOW REFRESHES FOR {name} LIMIT 1")[0]["reason"]


def described(world: ManagerWorld, name: str) -> object:
    """Return what DESCRIBE EXTENDED says of the run that waits, None if none does."""
    return {row["name"]: row["type"] for row in world.show(f"DESCRIBE EXTENDED {name}")}.get("waiting")


def ends(world: ManagerWorld, *names: str) -> list[str]:
    """Return the tables in the order in which their scheduled runs ended."""
    runs = [
        (run.finished_at, run.claim, name)
        for name in names
        for run in world.runs(name)[1:]
        if run.finished_at
    ]
    return [name for _, _, name in sorted(runs, key=lambda run: run[0])]


def claim(world: ManagerWorld) -> str | None:
    claimed = world.claim()
    return None if claimed is None else claimed.table.identifier.name


@pytest.mark.parametrize("order", [("low", "high"), ("high", "low")])
def test_two_tables_of_one_freshness_agree_whichever_tick_comes_first(order: Sequence[str]) -> None:
    world = chain("low", "high")

    for name in order:
        world.tick(ONE_PM, name)
        world.work()

    assert world.rows("high") == world.rows("low")
    assert len(world.rows("high")) == 2
    assert [run.status for run in world.runs("high")] == [RunStatus.SUCCEEDED] * 2


def test_a_run_waits_while_that_of_its_upstream_is_queued_or_running_and_holds_no_worker() -> None:
    world = chain("low", "high")
    world.sql(over("apart", "orders"))
    world.work()
    high, low = world.tick(ONE_PM, "high"), world.tick(ONE_PM, "low")

    running = world.claim()
    assert running is not None
    assert running.run.run_id == low.run_id
    assert world.claim() is None
    assert waits_for(world, "high") == "waits for lake.default.low at 2026-03-01 13:00:00"
    assert described(world, "high") == (
        "PERIODIC whole table waits for lake.default.low at 2026-03-01 13:00:00, "
        "until 2026-03-01 13:30:00 at most"
    )
    assert described(world, "low") is None

    world.tick(ONE_PM, "apart")
    assert claim(world) == "apart"

    assert list(world.attempt(running))
    world.work()
    assert str(world.run(high.run_id).reason).startswith("lake.default.low changed")
    assert str(waits_for(world, "high")).startswith("lake.default.low changed")


def test_a_run_goes_on_when_that_of_its_upstream_failed() -> None:
    world = chain("low", "high")
    world.tick(ONE_PM, "high")
    world.tick(ONE_PM, "low")
    world.engine.failing["write"] = ValueError("broken")

    world.work()

    assert world.runs("low")[-1].status is RunStatus.FAILED
    assert (world.runs("high")[-1].status, waits_for(world, "high")) == (
        RunStatus.SKIPPED,
        "sources unchanged",
    )


def test_a_run_goes_on_when_that_of_its_upstream_is_cancelled() -> None:
    world = chain("low", "high")
    world.tick(ONE_PM, "high")
    low = world.tick(ONE_PM, "low")
    world.services.intents.take(world.table("low").identifier, "ALTER", check=lambda _table: None)
    assert claim(world) is None

    world.manager.requests.cancel_run(low.run_id)

    assert claim(world) == "high"


def test_a_run_goes_on_without_an_upstream_that_is_not_refreshed_and_says_so() -> None:
    world = chain("low", "high")
    world.tick(ONE_PM, "high")

    world.clock.advance(timedelta(minutes=29, seconds=59))
    assert claim(world) is None
    world.clock.advance(timedelta(seconds=1))
    world.work()

    assert world.runs("high")[-1].status is RunStatus.SKIPPED
    assert waits_for(world, "high") == (
        "sources unchanged; did not wait for lake.default.low at 2026-03-01 13:00:00"
    )


def test_a_schedule_time_that_was_answered_without_work_is_not_waited_for() -> None:
    world = chain("low", "high")
    world.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 1}])
    world.tick(ONE_PM, "low")
    world.work()

    world.tick(ONE_PM, "high")

    assert claim(world) == "high"


def test_a_later_schedule_time_that_joins_a_run_that_waits_is_waited_for_too() -> None:
    world = chain("low", "high")
    world.sql(f"ALTER MATERIALIZED TABLE high SET ('{KEY}' = '3 h')")
    world.tick(ONE_PM, "high")
    assert claim(world) is None
    world.tick(ONE_PM, "low")
    world.clock.advance(timedelta(hours=1))
    world.tick(ONE_PM + timedelta(hours=1), "high")

    world.work()

    assert waits_for(world, "high") == f"covered by {world.runs('high')[-2].run_id}"
    assert world.runs("high")[-2].why == "waits for lake.default.low at 2026-03-01 14:00:00"

    world.tick(ONE_PM + timedelta(hours=1), "low")
    world.work()
    assert world.runs("high")[-2].status is RunStatus.SUCCEEDED


def test_a_chain_of_five_is_refreshed_from_its_beginning() -> None:
    names = ("first", "second", "third", "fourth", "fifth")
    world = chain(*names)
    for name in reversed(names):
        world.tick(ONE_PM, name)

    for _ in names:
        world.clock.advance(timedelta(seconds=1))
        claimed = world.claim()
        assert claimed is not None
        assert claim(world) is None
        assert list(world.attempt(claimed))

    assert ends(world, *names) == list(names)
    assert [len(world.rows(name)) for name in names] == [2] * 5


def test_the_joint_of_a_diamond_waits_for_both_sides() -> None:
    world = chain("top", "left", "joint")
    world.sql(over("right", "top"))
    world.work()
    with world.registry.transaction() as tx:
        joint = tx.tables.named(TableIdentifier("lake", ("default",), "joint"))
        assert joint is not None
        sources = ("lake.default.left", "lake.default.right", ORDERS)
        tx.tables.replace(replace(joint, definition=replace(joint.definition, sources=sources)))
    for name in ("joint", "right", "left", "top"):
        world.tick(ONE_PM, name)

    order: list[str] = []
    while (claimed := world.claim()) is not None:
        order.append(claimed.table.identifier.name)
        if order[-1] == "right":
            assert waits_for(world, "joint") == (
                "waits for lake.default.left at 2026-03-01 13:00:00, lake.default.right at "
                "2026-03-01 13:00:00"
            )
        assert list(world.attempt(claimed))

    assert order == ["top", "right", "left", "joint"]


def test_a_suspended_upstream_is_not_waited_for() -> None:
    world = chain("low", "high")
    world.sql("ALTER MATERIALIZED TABLE low SUSPEND")
    world.tick(ONE_PM, "high")

    assert claim(world) == "high"


@pytest.mark.parametrize("statement", ["ALTER MATERIALIZED TABLE low SUSPEND", "DROP MATERIALIZED TABLE low"])
def test_an_upstream_that_is_suspended_or_dropped_meanwhile_is_waited_for_no_longer(statement: str) -> None:
    world = chain("low", "high")
    world.tick(ONE_PM, "high")
    assert claim(world) is None
    world.sql(statement)

    assert world.ledger.recover() == 1

    assert claim(world) == "high"


def test_a_continuous_upstream_is_not_waited_for() -> None:
    world = chain("low", "high")
    world.sql("ALTER MATERIALIZED TABLE low SET REFRESH_MODE = CONTINUOUS")
    world.tick(ONE_PM, "high")

    assert claim(world) == "high"


def test_a_wait_goes_on_after_a_restart_and_ends_when_it_would_have() -> None:
    world = chain("low", "high")
    world.tick(ONE_PM, "high")
    world.tick(ONE_PM, "low")
    assert world.work(stop_before="write")

    world.clock.advance(timedelta(minutes=10))
    world.restart()
    world.recover()

    resumed = world.claim()
    assert resumed is not None
    assert (resumed.table.identifier.name, claim(world)) == ("low", None)
    world.clock.advance(timedelta(minutes=20))
    assert claim(world) == "high"
    assert waits_for(world, "high") == "did not wait for lake.default.low at 2026-03-01 13:00:00"


def test_refreshes_by_hand_and_rebuilds_do_not_wait() -> None:
    world = chain("low", "high")
    world.tick(ONE_PM, "low")
    assert claim(world) == "low"

    world.sql("ALTER MATERIALIZED TABLE high REFRESH")
    assert claim(world) == "high"


def test_a_forced_refresh_of_a_schedule_time_does_not_wait() -> None:
    world = chain("low", "high")
    world.tick(ONE_PM, "high", force=True)

    assert claim(world) == "high"


def test_a_table_of_a_shorter_freshness_waits_only_where_schedule_times_of_its_upstream_fall_due() -> None:
    world = ManagerWorld()
    world.sql(over("low", "orders", freshness="'1' DAY"))
    world.work()
    world.sql(over("high", "low"))
    world.work()
    world.clock.advance(timedelta(hours=12))
    world.tick(world.clock.now(), "high")
    assert claim(world) is None
    assert waits_for(world, "high") == "waits for lake.default.low at 2026-03-02 00:00:00"
    world.tick(world.clock.now(), "low")
    world.work()

    world.clock.advance(timedelta(hours=1))
    world.tick(world.clock.now(), "high")

    assert claim(world) == "high"


@pytest.mark.parametrize(("wait", "minutes"), [("0 s", 0), ("10 min", 10), ("2 h", 120)])
def test_the_table_and_else_the_gateway_says_how_long_to_wait(wait: str, minutes: int) -> None:
    world = ManagerWorld()
    world.sql(over("low", "orders"))
    world.sql(over("high", "low", options=f"WITH ('{KEY}' = '{wait}')"))
    world.work()
    world.clock.advance(timedelta(hours=1))
    world.tick(ONE_PM, "high")
    if minutes:
        world.clock.advance(timedelta(minutes=minutes) - timedelta(seconds=1))
        assert claim(world) is None
        world.clock.advance(timedelta(seconds=1))

    assert claim(world) == "high"


def test_a_wait_that_is_no_duration_is_refused_at_create_and_alter() -> None:
    world = chain("low")

    text = world.refused(
        lambda: world.sql(over("high", "low", options=f"WITH ('{KEY}' = 'soon')")), ConfigError
    )
    world.refused(lambda: world.sql(f"ALTER MATERIALIZED TABLE low SET ('{KEY}' = 'soon')"), ConfigError)

    assert text.startswith(f"{KEY}: 'soon'")


def test_any_number_of_runs_that_have_to_wait_keeps_no_other_from_being_claimed() -> None:
    world = chain("low", "high")
    with world.registry.transaction() as tx:
        high = tx.tables.named(TableIdentifier("lake", ("default",), "high"))
        assert high is not None
        for number in range(2 * MOST_MARKED):
            table = replace(
                high, table_id=f"t{number}", identifier=replace(high.identifier, name=f"t{number}")
            )
            tx.tables.insert(table)
            run = a_run(table.table_id, kind=RunKind.PERIODIC, schedule_time=ONE_PM, points=(ONE_PM,))
            tx.runs.insert(replace(run, requested_at=tx.now()))
    world.tick(ONE_PM, "low")

    assert (claim(world), claim(world)) == ("low", None)


def test_schedule_times_that_failed_alone_keep_no_other_table_waiting() -> None:
    world = ManagerWorld()
    world.sql(
        "CREATE MATERIALIZED TABLE daily PARTITIONED BY (ds) WITH ('partition.fields.ds.date-formatter' = "
        "'yyyy-MM-dd') FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS SELECT * FROM orders"
    )
    world.sql(over("high", "daily", freshness="'1' DAY"))
    world.work()
    world.pass_days(2)
    point = world.latest_point()
    with world.registry.transaction() as tx:
        table = tx.tables.named(TableIdentifier("lake", ("default",), "daily"))
        assert table is not None
        tx.tables.replace(replace(table, failing=(point - timedelta(days=1),)))
        alone = a_run(table.table_id, kind=RunKind.PERIODIC, points=(point - timedelta(days=1),), solo=True)
        tx.runs.insert(alone)
        tx.runs.insert(replace(alone, run_id="done", points=(point,), solo=False, status=RunStatus.SUCCEEDED))

    world.tick(point, "high")

    assert claim(world) == "high"


@pytest.mark.parametrize(
    ("read", "waits"),
    [
        (["lake.default.low"], True),
        (["lake.default.low AS OF 7"], False),
        (["lake.default.low AS OF `a tag`", "lake.default.low"], True),
    ],
)
def test_a_table_that_reads_another_at_a_version_of_its_own_text_does_not_wait_for_it(
    read: Sequence[str], waits: bool
) -> None:
    world = chain("low", "high")
    refreshed = world.runs("high")[-1]
    vector = tuple({"name": name, "kind": "table", "version": {}} for name in read)
    in_transaction(
        world.registry, lambda tx: tx.runs.replace(replace(refreshed, vector=vector), expected=refreshed)
    )

    world.tick(ONE_PM, "high")
    claimed = claim(world)

    assert claimed == (None if waits else "high")
