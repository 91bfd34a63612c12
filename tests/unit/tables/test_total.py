"""Every statement in every state of a table: allowed or refused by name, and a refusal changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from mt_core.errors import (
    IllegalStatus,
    MtError,
    NotMaterializedTable,
    StorageMissing,
    TableBusy,
    TableExists,
    TableGone,
    TableInitializing,
    TableNotFound,
)
from mt_core.model.run import OPEN, RunStatus
from mt_core.model.table import RefreshStatus, TableIdentifier
from mt_core.tables.registry import in_transaction
from mt_core.tables.table_commands import RefreshRequest
from tests.support.manager_world import DAILY, ManagerWorld

DAILY_ID = TableIdentifier("lake", ("default",), "daily")
ALTERED = "SELECT * FROM lake.default.orders"


class Killed(BaseException):
    """The process dies here."""


# ----------------------------------------------------------------------------------------------------- states


def missing(world: ManagerWorld) -> None:
    """There is nothing of that name."""


def initializing(world: ManagerWorld) -> None:
    world.scheduler.failing["create"] = Killed()
    with pytest.raises(Killed):
        world.sql(DAILY)


def activated(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work()


def suspended(world: ManagerWorld) -> None:
    activated(world)
    world.sql("ALTER MATERIALIZED TABLE daily SUSPEND")


def under_way(command: str) -> Callable[[ManagerWorld], None]:
    def arrange(world: ManagerWorld) -> None:
        activated(world)
        world.services.intents.take(DAILY_ID, command, check=lambda _table: None)

    arrange.__name__ = f"{command.lower().replace(' ', '_')}_under_way"
    return arrange


def being_resumed(world: ManagerWorld) -> None:
    suspended(world)
    world.services.intents.take(DAILY_ID, "RESUME", check=lambda _table: None)


def without_workflow(world: ManagerWorld) -> None:
    activated(world)
    world.scheduler.workflows.clear()


def without_storage(world: ManagerWorld) -> None:
    activated(world)
    world.engine.storages.clear()


def plain_table(world: ManagerWorld) -> None:
    world.engine.create_source("lake.default.daily", [{"ds": "2026-03-01", "amount": 1}])


def running(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work(stop_before="publish: read")


STATES = [
    missing,
    initializing,
    activated,
    suspended,
    under_way("SUSPEND"),
    under_way("RESUME"),
    being_resumed,
    under_way("ALTER"),
    under_way("MAINTENANCE"),
    under_way("SET FRESHNESS"),
    without_workflow,
    without_storage,
    plain_table,
    running,
]

# ------------------------------------------------------------------------------------------------- statements


def sql(text: str) -> Callable[[ManagerWorld], object]:
    return lambda world: world.sql(text)


def periodic(world: ManagerWorld) -> object:
    request = RefreshRequest(
        identifier_text="lake.default.daily",
        is_periodic=True,
        schedule_time="2026-03-01 00:00:00",
        request_key="tick",
    )
    return world.manager.requests.request_refresh(request)


def manual(world: ManagerWorld) -> object:
    request = RefreshRequest(identifier_text="lake.default.daily", is_periodic=False)
    return world.manager.requests.request_refresh(request)


STATEMENTS: dict[str, Callable[[ManagerWorld], object]] = {
    "CREATE": sql(DAILY),
    "CREATE OR ALTER": sql(DAILY.replace("CREATE", "CREATE OR ALTER", 1)),
    "SUSPEND": sql("ALTER MATERIALIZED TABLE daily SUSPEND"),
    "RESUME": sql("ALTER MATERIALIZED TABLE daily RESUME"),
    "RESUME WITH": sql("ALTER MATERIALIZED TABLE daily RESUME WITH ('sink.parallelism' = '4')"),
    "REFRESH": sql("ALTER MATERIALIZED TABLE daily REFRESH"),
    "REFRESH PARTITION": sql("ALTER MATERIALIZED TABLE daily REFRESH PARTITION (ds = '2026-03-01')"),
    "SET FRESHNESS": sql("ALTER MATERIALIZED TABLE daily SET FRESHNESS = INTERVAL '2' DAY"),
    "SET options": sql("ALTER MATERIALIZED TABLE daily SET ('refresh.strategy' = 'auto')"),
    "RESET options": sql("ALTER MATERIALIZED TABLE daily RESET ('refresh.strategy')"),
    "ALTER AS": sql(f"ALTER MATERIALIZED TABLE daily AS {ALTERED}"),
    "DROP": sql("DROP MATERIALIZED TABLE daily"),
    "DROP IF EXISTS": sql("DROP MATERIALIZED TABLE IF EXISTS daily"),
    "SHOW TABLES": sql("SHOW MATERIALIZED TABLES"),
    "SHOW CREATE": sql("SHOW CREATE MATERIALIZED TABLE daily"),
    "DESCRIBE": sql("DESCRIBE daily"),
    "DESCRIBE EXTENDED": sql("DESCRIBE EXTENDED daily"),
    "SHOW REFRESHES": sql("SHOW REFRESHES FOR daily"),
    "EXPLAIN REFRESH": sql("EXPLAIN REFRESH daily"),
    "EXPLAIN CREATE": sql(f"EXPLAIN {DAILY}"),
    "periodic": periodic,
    "manual": manual,
}
READING = {
    "SHOW TABLES",
    "SHOW CREATE",
    "DESCRIBE",
    "DESCRIBE EXTENDED",
    "SHOW REFRESHES",
    "EXPLAIN REFRESH",
    "EXPLAIN CREATE",
}

Outcome = type[MtError] | None
WORDS: dict[str, Outcome] = {
    "ok": None,
    "busy": TableBusy,
    "gone": TableNotFound,
    "illegal": IllegalStatus,
    "lost": StorageMissing,
    "other": NotMaterializedTable,
    "start": TableInitializing,
    "taken": TableExists,
}
# One row a statement, one column a state in the order of STATES;
# "other" is a table that is no materialized one.
OUTCOMES = """
                    missing initial active  suspend SUSPEND RESUME  resumed ALTER   MAINTEN FRESHN  no-flow no-stor plain   running
CREATE            | ok      taken   taken   taken   taken   taken   taken   taken   taken   taken   taken   taken   taken   taken
CREATE OR ALTER   | ok      busy    ok      ok      busy    busy    busy    busy    busy    busy    ok      ok      taken   ok
SUSPEND           | gone    busy    ok      illegal busy    busy    busy    busy    busy    busy    ok      ok      other   ok
RESUME            | gone    busy    illegal ok      busy    busy    busy    busy    busy    busy    ok      ok      other   illegal
RESUME WITH       | gone    busy    ok      ok      busy    busy    busy    busy    busy    busy    ok      ok      other   ok
REFRESH           | gone    start   ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      other   ok
REFRESH PARTITION | gone    start   ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      other   ok
SET FRESHNESS     | gone    busy    ok      ok      busy    busy    busy    busy    busy    busy    ok      ok      other   ok
SET options       | gone    busy    ok      ok      busy    busy    busy    busy    busy    busy    ok      ok      other   ok
RESET options     | gone    busy    ok      ok      busy    busy    busy    busy    busy    busy    ok      ok      other   ok
ALTER AS          | gone    busy    ok      ok      busy    busy    busy    busy    busy    busy    ok      ok      other   ok
DROP              | gone    ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      other   ok
DROP IF EXISTS    | ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      other   ok
SHOW TABLES       | ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      ok
SHOW CREATE       | gone    ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      other   ok
DESCRIBE          | ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      ok
DESCRIBE EXTENDED | ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      ok
SHOW REFRESHES    | gone    ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      other   ok
EXPLAIN REFRESH   | gone    start   ok      ok      ok      ok      ok      ok      ok      ok      ok      lost    other   ok
EXPLAIN CREATE    | ok      taken   taken   taken   taken   taken   taken   taken   taken   taken   taken   taken   taken   taken
periodic          | gone    start   ok      ok      ok      ok      start   ok      ok      ok      ok      ok      gone    ok
manual            | gone    start   ok      ok      ok      ok      ok      ok      ok      ok      ok      ok      gone    ok
"""  # noqa: E501
EXPECTED: dict[str, list[Outcome]] = {
    name.strip(): [WORDS[word] for word in words.split()]
    for name, bar, words in (line.partition("|") for line in OUTCOMES.splitlines())
    if bar
}
CASES = [
    pytest.param(statement, state, outcome, id=f"{statement}-{state.__name__}")
    for statement, outcomes in EXPECTED.items()
    for state, outcome in zip(STATES, outcomes, strict=True)
]


def test_the_table_of_outcomes_is_the_full_product() -> None:
    assert EXPECTED.keys() == STATEMENTS.keys()
    assert len(CASES) == len(STATEMENTS) * len(STATES)


@pytest.mark.parametrize(("statement", "state", "outcome"), CASES)
def test_every_statement_in_every_state_is_allowed_or_refused_and_a_refusal_changes_nothing(
    world: ManagerWorld, statement: str, state: Callable[[ManagerWorld], None], outcome: Outcome
) -> None:
    state(world)
    before = world.state()

    refusal = _refusal(world, statement)

    assert type(refusal) is (outcome or type(None)), refusal
    if refusal is not None:
        assert "daily" in str(refusal)
    if refusal is not None or statement in READING:
        assert world.state() == before


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("state", [each for each in STATES if each not in (missing, plain_table)])
def test_after_any_statement_in_any_state_the_table_can_be_described_and_dropped_and_leaves_nothing(
    world: ManagerWorld, statement: str, state: Callable[[ManagerWorld], None]
) -> None:
    state(world)
    _refusal(world, statement)
    known = not statement.startswith("DROP")

    described = world.sql("DESCRIBE EXTENDED daily")
    warnings = world.sql("DROP MATERIALIZED TABLE IF EXISTS daily").warnings

    assert described.passthrough is not known
    assert warnings == ()
    _assert_nothing_left(world)


@pytest.mark.parametrize("state", [each for each in STATES if each not in (missing, plain_table)])
def test_drop_makes_the_name_free_for_another_table(
    world: ManagerWorld, state: Callable[[ManagerWorld], None]
) -> None:
    state(world)
    old = world.table().table_id
    world.sql("DROP MATERIALIZED TABLE daily")

    world.sql(DAILY)
    world.work()

    assert world.table().table_id != old
    assert world.table().status is RefreshStatus.ACTIVATED
    assert [run.status for run in world.runs()] == [RunStatus.SUCCEEDED]
    assert world.rows() == [{"ds": "2026-03-01", "amount": 1}]


@pytest.mark.parametrize("arrange", [activated, suspended])
def test_resume_makes_a_workflow_again_that_was_removed_in_the_scheduler(
    world: ManagerWorld, arrange: Callable[[ManagerWorld], None]
) -> None:
    arrange(world)
    workflows = {key: replace(flow, paused=False) for key, flow in world.scheduler.workflows.items()}
    world.scheduler.workflows.clear()

    world.sql("ALTER MATERIALIZED TABLE daily RESUME")

    table = world.table()
    assert table.status is RefreshStatus.ACTIVATED
    assert table.intent is None
    made = world.scheduler.workflows
    assert {key: replace(flow, token=0) for key, flow in made.items()} == {
        key: replace(flow, token=0) for key, flow in workflows.items()
    }


@pytest.mark.parametrize("arrange", [activated, suspended])
def test_resume_makes_lost_storage_again_and_fills_it(
    world: ManagerWorld, arrange: Callable[[ManagerWorld], None]
) -> None:
    arrange(world)
    rows = world.rows()
    world.engine.storages.clear()

    world.sql("ALTER MATERIALIZED TABLE daily RESUME")
    world.work()

    assert world.table().status is RefreshStatus.ACTIVATED
    assert world.table().rebuild_due is None
    assert world.rows() == rows
    assert [run.kind.value for run in world.runs()] == ["INITIAL", "REBUILD"]


def test_storage_made_again_stays_due_to_be_filled_when_the_first_try_fails(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.engine.commit(
        "lake.default.orders", [{"ds": "2026-02-01", "amount": 7}, {"ds": "2026-03-01", "amount": 1}]
    )
    world.work()
    world.engine.storages.clear()
    world.sql("ALTER MATERIALIZED TABLE daily RESUME")
    world.engine.failing["write"] = RuntimeError("no space left")
    world.work()
    world.pass_days(1)

    world.tick(world.latest_point())
    world.work()

    assert world.rows() == [{"ds": "2026-02-01", "amount": 7}, {"ds": "2026-03-01", "amount": 1}]
    assert world.table().rebuild_due is None


def test_a_failing_repair_of_storage_queues_one_rebuild_only(world: ManagerWorld) -> None:
    suspended(world)
    world.engine.storages.clear()
    world.scheduler.failing["modify"] = RuntimeError("away")
    world.refused(lambda: world.sql("ALTER MATERIALIZED TABLE daily RESUME"), MtError)

    world.sql("ALTER MATERIALIZED TABLE daily RESUME")
    world.work()

    assert world.rows() == [{"ds": "2026-03-01", "amount": 1}]
    assert [run.kind.value for run in world.runs()] == ["INITIAL", "REBUILD"]


def test_a_stale_request_for_a_dropped_table_is_gone_and_for_a_new_one_of_its_name_too(
    world: ManagerWorld,
) -> None:
    activated(world)
    old = world.table().table_id
    world.sql("DROP MATERIALIZED TABLE daily")
    request = RefreshRequest(
        identifier_text="lake.default.daily",
        is_periodic=True,
        schedule_time="2026-03-01 00:00:00",
        table_id=old,
    )
    dropped = world.refused(lambda: world.manager.requests.request_refresh(request), TableGone)
    world.sql(DAILY)
    before = world.state()

    created_again = world.refused(lambda: world.manager.requests.request_refresh(request), TableGone)

    assert old in dropped
    assert old in created_again
    assert world.table().table_id in created_again
    assert world.state() == before


def _refusal(world: ManagerWorld, statement: str) -> MtError | None:
    try:
        STATEMENTS[statement](world)
    except MtError as error:
        return error
    return None


def _assert_nothing_left(world: ManagerWorld) -> None:
    state = world.state()
    open_runs = in_transaction(
        world.registry, lambda tx: list(tx.runs.newest(statuses=OPEN - {RunStatus.RUNNING}))
    )
    assert {key: value for key, value in state.items() if key != "runs"} == {
        "tables": [],
        "tombstones": [],
        "definitions": [],
        "workflows": {},
        "storages": {},
    }
    assert open_runs == []
