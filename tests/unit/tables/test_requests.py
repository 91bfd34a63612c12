"""Refresh requests: keys, coalescing, cancelling, and what cannot be asked."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from mt_core.errors import (
    DefinitionInvalid,
    EngineError,
    MtError,
    OperationNotFound,
    QueryFailed,
    RequestInvalid,
    RequestKeyReused,
    TableGone,
    TableInitializing,
    TableNotFound,
)
from mt_core.model.partition import WHOLE, PartitionSpec, Scope
from mt_core.model.run import RunKind, RunStatus
from mt_core.tables.table_commands import RefreshRequest
from tests.support.manager_world import DAILY, WHOLE_TABLE, ManagerWorld
from tests.unit.tables.daily_table import ORDERS, daily_world, manual, statuses

MARCH_2 = datetime(2026, 3, 2, tzinfo=UTC)
MARCH_3 = datetime(2026, 3, 3, tzinfo=UTC)


@pytest.fixture
def world() -> ManagerWorld:
    return daily_world()


def ds(*values: str) -> Scope:
    return Scope.of(PartitionSpec.of({"ds": value}) for value in values)


# ------------------------------------------------------------------------------------------------------- keys


@pytest.mark.parametrize("worked", [False, True])
def test_a_request_of_the_same_key_attaches_to_the_run_it_has(world: ManagerWorld, worked: bool) -> None:
    first = world.tick(MARCH_3)
    if worked:
        world.work()

    again = world.tick(MARCH_3)

    assert again.run_id == first.run_id
    assert len(world.runs()) == 2


def test_a_request_whose_run_failed_gives_a_new_run_that_says_what_it_retries(world: ManagerWorld) -> None:
    world.engine.failing["write"] = RuntimeError("no executor")
    first = manual(world, {"ds": "2026-03-01"}, key="mine")
    world.work()

    again = manual(world, {"ds": "2026-03-01"}, key="mine")
    world.work()

    assert world.run(first.run_id).status is RunStatus.FAILED
    assert again.retry_of == first.run_id
    assert (world.run(again.run_id).status, again.scope) == (RunStatus.SUCCEEDED, ds("2026-03-01"))
    assert manual(world, {"ds": "2026-03-01"}, key="mine").run_id == again.run_id


def test_a_key_used_for_another_table_is_a_request_of_its_own(world: ManagerWorld) -> None:
    world.sql(WHOLE_TABLE)
    world.work()
    first = manual(world, {"ds": "2026-03-01"}, key="nightly-2026-03-01")

    other = RefreshRequest(
        identifier_text="lake.default.totals", is_periodic=False, request_key="nightly-2026-03-01"
    )
    second = world.manager.requests.request_refresh(other)
    world.work()

    assert second.run_id != first.run_id
    assert second.table_id == world.table("totals").table_id
    assert world.run(second.run_id).status is RunStatus.SUCCEEDED


@pytest.mark.parametrize("ended", [False, True])
def test_a_key_used_for_another_request_of_the_table_is_refused_with_the_way_out(
    world: ManagerWorld, ended: bool
) -> None:
    manual(world, {"ds": "2026-03-01"}, key="mine")
    manual(world, {"ds": "2026-03-03"}, key="widens it")
    if ended:
        world.engine.failing["write"] = RuntimeError("no executor")
        world.work()
    before = world.state()

    text = world.refused(lambda: manual(world, {"ds": "2026-03-02"}, key="mine"), RequestKeyReused)
    world.refused(lambda: world.tick(world.latest_point(), key="mine"), RequestKeyReused)

    assert text == (
        "Idempotency-Key 'mine' belongs to another refresh of lake.default.daily: it was sent with MANUAL "
        "ds=2026-03-01, now it is sent with MANUAL ds=2026-03-02; use another key for another request."
    )
    assert world.state() == before


def test_a_coalesced_request_whose_host_failed_can_be_asked_again(world: ManagerWorld) -> None:
    manual(world, {"ds": "2026-03-01"}, key="host")
    covered = manual(world, {"ds": "2026-03-02"}, key="mine")
    world.engine.failing["write"] = RuntimeError("no executor")
    world.work()
    shown = world.run(covered.run_id)

    again = manual(world, {"ds": "2026-03-02"}, key="mine")
    world.work()

    assert (shown.status, shown.error) == (RunStatus.FAILED, "write failed: no executor")
    assert again.retry_of == covered.run_id
    assert world.run(again.run_id).status is RunStatus.SUCCEEDED


def test_a_periodic_request_on_a_suspended_table_is_skipped_and_the_same_key_runs_after_resume(
    world: ManagerWorld,
) -> None:
    world.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
    world.engine.commit(ORDERS, [{"ds": "2026-03-02", "amount": 2}])

    skipped = world.tick(MARCH_3, key="tick")
    world.sql("ALTER MATERIALIZED TABLE daily RESUME")
    run = world.tick(MARCH_3, key="tick")
    world.work()

    assert (skipped.status, skipped.decision, skipped.points) == (RunStatus.SKIPPED, "suspended", ())
    assert skipped.reason == "lake.default.daily is suspended"
    assert run.run_id != skipped.run_id
    assert (world.run(run.run_id).status, world.run(run.run_id).scope) == (
        RunStatus.SUCCEEDED,
        ds("2026-03-01", "2026-03-02"),
    )
    assert world.rows() == [{"ds": "2026-03-02", "amount": 2}]


def test_a_refresh_by_hand_works_while_the_table_is_suspended(world: ManagerWorld) -> None:
    world.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
    world.engine.commit(ORDERS, [{"ds": "2026-03-02", "amount": 2}])

    run = manual(world)
    world.work()

    assert world.run(run.run_id).status is RunStatus.SUCCEEDED
    assert world.rows() == [{"ds": "2026-03-02", "amount": 2}]


# ------------------------------------------------------------------------------------------------- coalescing


def test_requests_that_wait_become_one_run_and_each_sees_its_outcome(world: ManagerWorld) -> None:
    first, second = manual(world, {"ds": "2026-03-01"}), manual(world, {"ds": "2026-03-02"})
    before = world.run(second.run_id)
    world.work()

    assert (second.status, second.covered_by) == (RunStatus.COALESCED, first.run_id)
    assert (before.run_id, before.status) == (second.run_id, RunStatus.QUEUED)
    seen = world.run(second.run_id)
    assert (seen.run_id, seen.status, seen.covered_by) == (second.run_id, RunStatus.SUCCEEDED, first.run_id)
    assert seen.scope == ds("2026-03-01", "2026-03-02")
    assert statuses(world) == [RunStatus.SUCCEEDED, RunStatus.COALESCED]


def test_a_request_with_other_options_is_a_run_of_its_own(world: ManagerWorld) -> None:
    manual(world, dynamic_options={"write.format.default": "orc"})
    manual(world, execution_config={"spark.sql.shuffle.partitions": "8"})

    assert statuses(world) == [RunStatus.QUEUED, RunStatus.QUEUED]


def test_a_request_by_hand_is_not_coalesced_into_a_periodic_one_which_could_skip_it(
    world: ManagerWorld,
) -> None:
    world.tick(MARCH_3)
    manual(world)
    world.work()

    assert [(run.kind, run.status) for run in world.runs()[1:]] == [
        (RunKind.PERIODIC, RunStatus.SKIPPED),
        (RunKind.MANUAL, RunStatus.SUCCEEDED),
    ]


def test_a_request_is_not_coalesced_into_a_run_that_has_been_claimed(world: ManagerWorld) -> None:
    manual(world)
    world.work(stop_before="publish: read")

    again = manual(world)
    world.restart()
    world.recover()
    third = manual(world)

    assert again.status is RunStatus.QUEUED
    assert third.covered_by == again.run_id


# ---------------------------------------------------------------------------------------------------- waiting


def test_waiting_for_a_run_gives_it_as_it_is_when_the_time_is_over(world: ManagerWorld) -> None:
    run = manual(world)
    waiting = world.manager.requests.wait_run(run.run_id, 0)
    world.work()

    assert waiting.status is RunStatus.QUEUED
    assert world.manager.requests.wait_run(run.run_id, 0).status is RunStatus.SUCCEEDED


def test_waiting_for_a_refresh_that_the_ledger_does_not_have_is_refused(world: ManagerWorld) -> None:
    text = world.refused(lambda: world.manager.requests.wait_run("nobody", 0), OperationNotFound)

    assert text == "Refresh nobody is not in the ledger."


# --------------------------------------------------------------------------------------------------- refusals

TICK = RefreshRequest(
    identifier_text="lake.default.daily", is_periodic=True, schedule_time="2026-03-02 00:00:00"
)
HAND = RefreshRequest(identifier_text="lake.default.daily", is_periodic=False)


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        (
            replace(TICK, schedule_time=None),
            RequestInvalid,
            ["scheduleTime is missing", "yyyy-MM-dd HH:mm:ss"],
        ),
        (replace(TICK, schedule_time=""), RequestInvalid, ["scheduleTime is missing"]),
        (replace(TICK, schedule_time="2026-03-02"), RequestInvalid, ["scheduleTime: '2026-03-02'", "UTC"]),
        (replace(TICK, schedule_time="2026-02-30 00:00:00"), RequestInvalid, ["'2026-02-30 00:00:00'"]),
        (
            replace(TICK, static_partitions={"ds": "1"}),
            RequestInvalid,
            ["staticPartitions", "isPeriodic = false"],
        ),
        (
            replace(HAND, schedule_time="2026-03-02 00:00:00"),
            RequestInvalid,
            [
                "scheduleTime goes with isPeriodic = true",
                "lake.default.daily takes its partition from staticPartitions",
            ],
        ),
        (replace(HAND, static_partitions={"dx": "1"}), DefinitionInvalid, ["dx", "partition columns are ds"]),
        (
            replace(HAND, identifier_text="daily"),
            RequestInvalid,
            ["'daily' is not a full name", "catalog.database"],
        ),
        (
            replace(HAND, identifier_text="default.daily"),
            RequestInvalid,
            ["'default.daily' is not a full name"],
        ),
        (replace(HAND, identifier_text="lake.`default"), RequestInvalid, ["is not a table name"]),
        (
            replace(HAND, identifier_text="lake.default.nope"),
            TableNotFound,
            ["lake.default.nope does not exist"],
        ),
        (
            replace(HAND, table_id="old"),
            TableGone,
            ["lake.default.daily was dropped and recreated", "old"],
        ),
        (
            replace(TICK, table_id="old", identifier_text="lake.default.nope"),
            TableGone,
            ["(old) was dropped"],
        ),
    ],
)
def test_a_request_that_cannot_be_used_is_refused_and_queues_nothing(
    world: ManagerWorld, request_: RefreshRequest, error: type[MtError], words: list[str]
) -> None:
    before = world.state()

    refusal = world.refused(lambda: world.manager.requests.request_refresh(request_), error)

    assert all(word in refusal for word in words), refusal
    assert world.state() == before


def test_a_request_on_a_table_that_is_being_created_says_when_to_ask_again() -> None:
    world = ManagerWorld()
    refusals: list[TableInitializing] = []
    create = world.scheduler.create_refresh_workflow

    def asked_meanwhile(workflow):
        try:
            world.manager.requests.request_refresh(TICK)
        except TableInitializing as error:
            refusals.append(error)
        return create(workflow)

    world.scheduler.create_refresh_workflow = asked_meanwhile

    world.sql(DAILY)

    assert [(error.http_status, error.retry_after_s) for error in refusals] == [(503, 2)]
    assert "lake.default.daily is being created" in str(refusals[0])
    assert [run.kind for run in world.runs()] == [RunKind.INITIAL]


@pytest.mark.parametrize("text", ["lake.default.daily", "`lake`.`default`.`daily`", "lake.`default`.daily"])
def test_a_table_is_found_under_its_plain_and_its_quoted_name(world: ManagerWorld, text: str) -> None:
    run = world.manager.requests.request_refresh(replace(HAND, identifier_text=text))

    assert (run.table_id, run.scope) == (world.table().table_id, WHOLE)


def test_the_schedule_time_is_read_in_the_zone_of_the_table() -> None:
    world = ManagerWorld()
    world.context = replace(world.context, properties={"table.local-time-zone": "Asia/Tokyo"})
    world.sql(DAILY)
    world.work()
    world.pass_days(1)

    run = world.manager.requests.request_refresh(replace(TICK, schedule_time="2026-03-02 00:00:00"))

    assert run.schedule_time == MARCH_2 - timedelta(hours=9)
    assert run.scope == ds("2026-03-01")


def test_partition_columns_of_a_request_are_spelt_as_the_table_spells_them(world: ManagerWorld) -> None:
    assert manual(world, {"DS": "2026-03-01"}).scope == ds("2026-03-01")


# ------------------------------------------------------------------------------------------------------- jobs


def test_the_job_of_a_run_is_found_while_it_is_at_work_and_afterwards(world: ManagerWorld) -> None:
    requests, table = world.manager.requests, world.table().identifier
    run = manual(world)
    waiting = requests.running_jobs()
    at_work = []
    world.engine.on_write = lambda write: at_work.append(
        (requests.running_jobs(), requests.job(write.job_id))
    )

    world.work()

    ((listed, found),) = at_work
    assert (waiting, requests.running_jobs(), requests.job("nobody")) == ([], [], None)
    assert found is not None
    assert list(listed) == [found]
    assert (found.run.run_id, found.run.status, found.table) == (run.run_id, RunStatus.RUNNING, table)
    ended = requests.job(found.run.job_id or "")
    assert ended is not None
    assert (ended.run.run_id, ended.run.status) == (run.run_id, RunStatus.SUCCEEDED)


def test_the_job_of_a_dropped_table_names_none(world: ManagerWorld) -> None:
    job_id = world.runs()[0].job_id or ""
    world.sql("DROP MATERIALIZED TABLE daily")

    job = world.manager.requests.job(job_id)

    assert job is not None
    assert (job.run.job_id, job.table) == (job_id, None)


# ------------------------------------------------------------------------------------------------------ force


def test_a_forced_refresh_of_a_schedule_time_is_done_though_nothing_has_changed(world: ManagerWorld) -> None:
    plain = world.tick(MARCH_3, key="first")
    world.work()
    unchanged = world.tick(MARCH_3, key="second")
    world.work()

    forced = world.tick(MARCH_3, key="third", force=True)
    world.work()

    found = {run.run_id: run for run in world.runs()}
    assert found[plain.run_id].status is found[unchanged.run_id].status is RunStatus.SKIPPED
    assert (found[forced.run_id].status, found[forced.run_id].reason) == (
        RunStatus.SUCCEEDED,
        "requested manually",
    )
    assert (forced.kind, forced.scope, forced.schedule_time) == (RunKind.MANUAL, ds("2026-03-02"), MARCH_3)


def test_a_forced_refresh_covers_its_schedule_time(world: ManagerWorld) -> None:
    world.pass_days(2)
    world.tick(MARCH_2, key="first", force=True)
    world.work()

    assert world.table().covered_until == MARCH_2


# ----------------------------------------------------------------------------------------------------- broken


@pytest.mark.parametrize(
    ("error", "broken"),
    [
        (QueryFailed("[UNRESOLVED_COLUMN] amont", error_class="UNRESOLVED_COLUMN.WITH_SUGGESTION"), True),
        (QueryFailed("the connection was refused"), False),
        (QueryFailed("the database is away", error_class="FAILED_JDBC.LOAD_TABLE"), False),
        (EngineError("the catalog is away"), False),
    ],
)
def test_a_refresh_whose_query_cannot_be_understood_is_known_to_fail_again(
    world: ManagerWorld, error: MtError, broken: bool
) -> None:
    world.engine.failing["read_vector"] = error

    run = world.tick(MARCH_3)
    world.work()

    ended = next(each for each in world.runs() if each.run_id == run.run_id)
    assert (ended.status, ended.broken) == (RunStatus.FAILED, broken)
    assert str(error) in (ended.error or "")


@pytest.mark.parametrize(
    ("trigger", "force", "kind", "status", "reason"),
    [
        (None, False, "PERIODIC", "SKIPPED", "sources unchanged"),
        ("scheduled", False, "PERIODIC", "SKIPPED", "sources unchanged"),
        ("manual", False, "MANUAL", "SKIPPED", "sources unchanged"),
        ("backfill", False, "BACKFILL", "SKIPPED", "sources unchanged"),
        ("backfill", True, "BACKFILL", "SUCCEEDED", "requested by a backfill"),
        ("manual", True, "MANUAL", "SUCCEEDED", "requested manually"),
        ("asset_triggered", False, "ASSET_TRIGGERED", "SKIPPED", "sources unchanged"),
    ],
)
def test_show_refreshes_says_what_began_the_scheduler_s_own_run(
    world: ManagerWorld, trigger: str | None, force: bool, kind: str, status: str, reason: str
) -> None:
    world.tick(MARCH_3, key="first")
    world.work()

    run = world.tick(MARCH_3, key="second", force=force, trigger=trigger)
    world.work()

    [shown] = [row for row in world.show("SHOW REFRESHES FOR daily EXTENDED") if row["refresh"] == run.run_id]
    assert (shown["kind"], shown["status"], shown["reason"]) == (kind, status, reason)
    assert world.run(run.run_id).trigger == trigger
    facts = {row["name"]: row["type"] for row in world.show("DESCRIBE EXTENDED daily")}
    assert any(f"{status} {kind} " in str(fact) for fact in facts.values())


def test_the_same_key_finds_the_run_though_an_older_package_says_nothing_of_its_trigger(
    world: ManagerWorld,
) -> None:
    before = world.tick(MARCH_3, key="tick")
    after = world.tick(MARCH_3, key="tick", trigger="backfill")

    assert after.run_id == before.run_id
