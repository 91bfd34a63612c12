"""The machine's clock is put ahead or back while tables are refreshed: nothing is lost, done twice,
or waited for by days.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from mt_core.errors import TableBusy
from mt_core.model.gateway import GatewayLease
from mt_core.model.run import RunStatus
from mt_core.tables.refresh.workers import Workers
from mt_core.tables.registry import in_transaction
from mt_core.tables.runs.due import CLOCK_SKEW
from mt_core.tables.runs.ledger import ClaimedRun
from mt_core.tables.upkeep.gateways import LEASE, living_owners, take_lease
from mt_core.tables.upkeep.maintenance import maintain
from mt_core.tables.upkeep.reconcile import reconcile
from mt_core.testing.fake_clock import FakeClock
from tests.support.manager_world import DAILY, START, ManagerWorld
from tests.support.memory_registry import MemoryRegistry
from tests.unit.tables.continuous_table import LiveTable
from tests.unit.tables.test_late_data import LateWorld, day

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
JUMPS = [-3 * DAY, -HOUR, HOUR, 3 * DAY]
jumps = pytest.mark.parametrize("jump", JUMPS)


@contextmanager
def ahead(world: ManagerWorld, jump: timedelta) -> Iterator[None]:
    """Put the clock ahead, and back after the block; the gateway notices it at its next pass."""
    world.clock.put(jump)
    yield
    world.clock.put(-jump)
    world.recover()


@jumps
def test_a_refresh_during_which_the_clock_is_put_takes_no_longer_than_it_may_and_is_carried_out_once(
    jump: timedelta,
) -> None:
    world = ManagerWorld()
    world.sql(DAILY)

    def watch(claimed: ClaimedRun, step: str) -> None:
        if step == "write":
            world.clock.put(jump)
            workers.renew_leases([claimed])
            world.ledger.recover()

    workers = Workers(world.services, count=1, watch=watch)
    workers.run_next()

    (run,) = world.runs()
    assert (run.status, run.attempt, world.engine.writes) == (RunStatus.SUCCEEDED, 1, 1)


@jumps
def test_a_continuous_table_follows_its_source_as_before(jump: timedelta) -> None:
    world = LiveTable()
    world.append(10)
    world.look(after=5)

    world.clock.put(jump)
    world.append(11)
    world.look(after=5)

    assert world.shows_its_source()
    assert [run.status for run in world.stretches()] == [RunStatus.RUNNING]
    world.look(after=1)
    (shown,) = world.show("SHOW MATERIALIZED TABLES LIKE 'live'")
    assert shown["health"] == "OK"


@jumps
def test_a_batch_during_which_the_clock_is_put_is_recorded_with_the_time_that_it_took(
    jump: timedelta,
) -> None:
    world = LiveTable()
    world.append(10)
    world.when_writing(lambda: world.clock.put(jump))

    world.look(after=5)

    (batch,) = world.stretches()[0].recent
    assert (batch.seconds, batch.lag is None or batch.lag >= 0) == (0, True)


@jumps
def test_a_pause_after_a_failure_is_as_long_as_before(jump: timedelta) -> None:
    world = LiveTable()
    world.append(10)
    world.engine.failing["write"] = RuntimeError("planned")
    world.look(after=5)

    world.clock.put(jump)
    world.look(after=9)
    before = world.shows_its_source()
    world.look(after=1)

    assert (before, world.shows_its_source()) == (False, True)


def test_a_run_whose_lease_was_written_by_a_clock_that_was_days_ahead_is_taken_back_soon() -> None:
    world = ManagerWorld()
    world.sql(DAILY)
    world.clock.put(3 * DAY)
    assert world.claim() is not None
    world.clock.put(-3 * DAY)

    world.ledger.recover()
    world.clock.advance(timedelta(minutes=2))
    world.ledger.recover()
    world.work()

    assert world.runs()[-1].status is RunStatus.SUCCEEDED


def test_a_command_that_died_while_the_clock_was_days_ahead_is_settled_at_the_next_pass() -> None:
    world = ManagerWorld()
    world.sql(DAILY)
    world.clock.put(3 * DAY)
    world.services.intents.take(world.table().identifier, "SUSPEND", check=lambda _table: None)
    world.clock.put(-3 * DAY)
    assert world.refused(lambda: world.sql("ALTER MATERIALIZED TABLE daily SUSPEND"), TableBusy)

    reconcile(world.services)

    assert world.table().intent is None


def test_a_gateway_waits_no_longer_than_a_lease_for_one_that_died_while_the_clock_was_days_ahead() -> None:
    clock, holders = FakeClock(START), list[str | None]()
    registry = MemoryRegistry(clock)

    def take(owner: str) -> None:
        holder = in_transaction(registry, lambda tx: take_lease(tx, GatewayLease(owner=owner)))
        holders.append(holder and holder.owner)

    clock.put(3 * DAY)
    take("dead")
    clock.put(-3 * DAY)
    take("other")
    clock.advance(LEASE)
    take("other")

    assert holders == [None, "dead", None]


def test_a_gateway_keeps_its_registry_when_the_clock_is_put_back_behind_the_end_of_the_last_one() -> None:
    clock = FakeClock(START)
    registry = MemoryRegistry(clock)

    def take(owner: str) -> GatewayLease | None:
        return in_transaction(registry, lambda tx: take_lease(tx, GatewayLease(owner=owner)))

    assert take("killed") is None
    clock.advance(LEASE)
    assert take("ours") is None
    clock.put(-3 * DAY)

    renewed = take("ours")

    assert renewed is None
    assert in_transaction(registry, living_owners) == {"ours"}


def test_a_run_that_waits_for_another_table_waits_no_longer_because_the_clock_is_put_back() -> None:
    world = ManagerWorld()
    world.sql(DAILY)
    world.work()
    world.sql(DAILY.replace("daily", "above").replace("FROM orders", "FROM daily"))
    world.work()
    world.clock.advance(3 * DAY)
    world.tick(world.latest_point("above"), "above")
    assert world.claim() is None
    assert world.runs("above")[-1].waits_until is not None

    world.clock.put(-2 * DAY)
    world.ledger.recover()
    waits_until = world.runs("above")[-1].waits_until

    assert waits_until is not None
    assert waits_until - world.clock.now() <= 12 * HOUR + timedelta(minutes=1)


def test_a_clock_that_jumps_ahead_deletes_no_file_no_snapshot_and_no_run() -> None:
    world = ManagerWorld()
    world.sql(DAILY)
    world.work()
    before, snapshots = (
        world.runs(),
        list(world.engine.ancestors(world.engine.load(world.table().identifier))),
    )

    world.clock.put(400 * DAY)
    maintain(world.services)

    assert world.runs() == before
    assert list(world.engine.ancestors(world.engine.load(world.table().identifier))) == snapshots


def test_a_table_takes_late_rows_of_a_point_covered_while_the_clock_was_ahead() -> None:
    late = LateWorld()
    with ahead(late.world, 3 * DAY):
        late.world.tick(late.world.latest_point())
        late.world.work()
    late.add(1)

    late.pass_a_day()

    assert late.rows() == late.query()


def test_a_point_covered_while_the_clock_was_ahead_is_due_when_it_comes_again() -> None:
    late = LateWorld()
    with ahead(late.world, 3 * DAY):
        late.world.tick(late.world.latest_point())
        late.world.work()
    late.add(4)
    late.world.pass_days(1)
    late.today += 1

    run = late.pass_a_day()

    assert run.points == (day(6), day(5))
    assert late.rows() == late.query()


def test_a_run_that_the_clock_is_put_back_under_covers_no_point_that_is_to_come() -> None:
    late = LateWorld()
    with ahead(late.world, 3 * DAY):
        late.world.tick(late.world.latest_point())
        held = late.world.claim()
        assert held is not None
    for _ in late.world.attempt(held):
        pass
    late.add(1)

    run = late.pass_a_day()

    assert (run.status, run.points) == (RunStatus.SUCCEEDED, (day(5),))
    assert late.rows() == late.query()


def test_a_run_requested_while_the_clock_was_ahead_takes_no_point_that_is_to_come() -> None:
    late = LateWorld()
    with ahead(late.world, 400 * DAY):
        late.world.tick(late.world.latest_point())

    late.world.work()

    assert [run.points for run in late.world.runs()[-2:]] == [(day(4),), ()]


def test_a_table_created_while_the_clock_was_ahead_is_refreshed_at_its_points_and_late_without_them() -> None:
    world = ManagerWorld()
    with ahead(world, 400 * DAY):
        world.sql(DAILY)
        world.work()
    (workflow,) = world.scheduler.workflows.values()
    assert workflow.schedule.since <= world.clock.now() + CLOCK_SKEW
    world.pass_days(1)

    run = world.tick(world.latest_point())
    world.work()
    world.pass_days(5)

    assert world.run(run.run_id).points == (world.latest_point() - 5 * DAY,)
    assert world.show("SHOW MATERIALIZED TABLES LIKE 'daily'")[0]["health"] == "LATE"


@pytest.mark.parametrize("resumes", [False, True])
def test_a_table_waits_for_a_point_of_the_one_below_that_was_requested_while_the_clock_was_ahead(
    *, resumes: bool
) -> None:
    world = ManagerWorld()
    world.sql(DAILY)
    world.sql(DAILY.replace("daily", "above").replace("FROM orders", "FROM daily"))
    world.work()
    with ahead(world, 3 * DAY):
        world.tick(world.latest_point())
        world.work()
        if resumes:
            world.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
            world.sql("ALTER MATERIALIZED TABLE daily RESUME")
    world.pass_days(1)

    world.tick(world.latest_point(), "above")

    assert world.claim() is None
    assert world.runs("above")[-1].waits_for
