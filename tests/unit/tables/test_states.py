"""The states of a table's stages: which runs keep them, which use them, and which leave the table without."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mt_core.errors import EngineError
from mt_core.incremental.shape import Occurrence, QueryShape, Reach
from mt_core.incremental.stages.stage_plan import Stage, StagePlan, Value
from mt_core.incremental.strategy import NotApplied, ResultUnchanged, Way
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.storage import STATES
from mt_core.model.table import TableIdentifier
from mt_core.tables.engine import Write
from mt_core.tables.registry import in_transaction
from tests.support.blocks import block_over
from tests.support.manager_world import ManagerWorld

ORDERS = "lake.default.orders"
TOTALS = TableIdentifier("lake", ("default",), "totals")
STAGES = StagePlan(
    stages=tuple(
        Stage(
            name=name,
            places=(f"[{number},[]]",),
            readings=frozenset({0}),
            keys=0,
            words="sum(amount)",
            blocks=block_over(0),
        )
        for number, name in enumerate(("0" * 16, "1" * 16))
    )
)
SHAPE = QueryShape(
    occurrences={0: Occurrence(reach=Reach.NONE, reason="an aggregate without keys")},
    lineage=({}, {}),
    keys=(),
    merge="the aggregate is not on top",
    stages=STAGES,
)
VALUE = Value(tree=1, name="2" * 16, rest=frozenset({1}), readings=frozenset({1}))
"""The value of a scalar subquery that reads another source, which does not change."""
SAME = replace(SHAPE, stages=StagePlan(stages=(), values=(VALUE,), rows=block_over(0)))
OF_STATE = Value(tree=1, name="2" * 16, stages=frozenset({"0" * 16}), readings=frozenset({0}))
"""The value of a scalar subquery over a state of the source that the rows are read from."""
MOVED = replace(SHAPE, stages=replace(STAGES, values=(OF_STATE,), rows=block_over(0)))
NO_STATES = "main has no states of the query's stages"


def orders(*amounts: int) -> list[dict[str, object]]:
    # Many rows that stay, so that a change is much smaller than its source.
    return [{"ds": "2026-03-01", "amount": each} for each in (*range(100, 200), *amounts)]


class Staged(ManagerWorld):
    """A world with a table whose query has two stages, refreshed once.

    `ways` has, for each write, its way, with a plus if it keeps states. The fake engine refuses states of
    other rows than those to which a write applies changes.
    """

    def __init__(self, strategy: str, mode: str = "FULL", shape: QueryShape = SHAPE) -> None:
        super().__init__()
        self.ways: list[str] = []
        self.failure: Exception | None = None
        self.breaks_states = False
        self.engine.shape, self.engine.on_write = shape, self._note
        self.engine.commit(ORDERS, orders())
        self.sql(
            f"CREATE MATERIALIZED TABLE totals WITH ('refresh.strategy' = '{strategy}') "
            f"FRESHNESS = INTERVAL '1' HOUR REFRESH_MODE = {mode} AS SELECT * FROM orders"
        )
        self.work()

    def _note(self, write: Write) -> None:
        way = Way.RECOMPUTE if write.maintenance is None else write.maintenance.strategy.way
        self.ways.append(way + ("" if write.stages is None else "+"))
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        if self.breaks_states and self.ways[-1] == "recompute+":
            raise EngineError("the state table cannot be created")

    def refresh(self, *amounts: int) -> RefreshRun:
        """Change the source and carry out the tick of the next hour."""
        self.engine.commit(ORDERS, orders(*amounts))
        return self.tick_now()

    def tick_now(self) -> RefreshRun:
        self.clock.advance(timedelta(hours=1))
        asked = self.tick(self.latest_point("totals"), "totals")
        self.work()
        run = self.run(asked.run_id)
        assert run.status in (RunStatus.SUCCEEDED, RunStatus.SKIPPED), run.error
        return run

    @property
    def has_states(self) -> bool:
        return STATES in self.engine.load(TOTALS).properties


def test_with_incremental_the_first_refresh_keeps_states_and_each_change_is_applied_to_them() -> None:
    world = Staged("incremental")

    runs = [world.refresh(1), world.refresh(2)]

    assert world.ways == ["recompute+", "stages+", "stages+"]
    assert [run.strategy for run in runs] == ["stages", "stages"]


def test_with_auto_states_are_kept_from_the_second_change_on() -> None:
    world = Staged("auto")

    runs = [world.refresh(number) for number in range(4)]

    assert world.ways == ["recompute", "recompute", "recompute+", "stages+", "stages+"]
    assert [NO_STATES in run.reason for run in runs] == [True, True, False, False]


def test_with_full_there_are_no_states() -> None:
    world = Staged("full")

    world.refresh(1)
    world.refresh(2)
    world.refresh(3)

    assert world.ways == ["recompute"] * 4
    assert not world.has_states


def test_a_commit_without_rows_between_two_changes_carries_the_states() -> None:
    world = Staged("incremental")
    world.engine.shape = replace(SHAPE, stages=STAGES)
    rows = orders(1)
    world.refresh(1)
    world.engine.commit(ORDERS, rows)

    nothing = world.tick_now()
    staged = world.refresh(2)

    assert (nothing.strategy, staged.strategy) == ("nothing", "stages")


def test_a_change_that_the_states_show_to_change_nothing_carries_them() -> None:
    world = Staged("incremental")
    world.failure = ResultUnchanged()

    nothing = world.refresh(1)
    # The states of the fake engine name a version of the source, which this run has left behind.
    assert (nothing.strategy, world.has_states) == ("nothing", True)


@pytest.mark.parametrize("strategy", ["incremental", "auto"])
def test_a_change_that_cannot_be_applied_is_recomputed_with_states(strategy: str) -> None:
    world = Staged(strategy)
    while world.ways[-1] != "stages+":
        world.refresh(len(world.ways))
    world.failure = NotApplied("a state was lost")

    run = world.refresh(100)
    world.refresh(101)

    assert world.ways[-3:] == ["stages+", "recompute+", "stages+"]
    assert "recomputed: a state was lost" in run.reason


@pytest.mark.parametrize("strategy", ["incremental", "auto"])
def test_rows_are_published_without_states_that_cannot_be_kept_which_are_not_tried_again_at_once(
    strategy: str,
) -> None:
    world = Staged(strategy)
    while world.ways[-1] != "stages+":
        world.refresh(len(world.ways))
    world.failure, world.breaks_states = NotApplied("a state was lost"), True
    del world.ways[:]

    runs = [world.refresh(number) for number in range(10, 15)]
    has_states = world.has_states
    world.breaks_states = False
    later = [world.refresh(number) for number in range(15, 18)]

    assert world.ways[:3] == ["stages+", "recompute+", "recompute"]
    assert "without states since these failed: the state table cannot be created" in runs[0].reason
    assert (world.ways[3:7], has_states) == (["recompute"] * 4, False)
    assert runs[1].reason.endswith("recomputed: states of the query's stages could not be kept")
    assert (world.ways[7:], later[-1].strategy) == (["recompute+", "stages+", "stages+"], "stages")


def test_a_refresh_by_hand_keeps_the_states_of_a_table_that_has_some() -> None:
    worlds = [Staged("auto"), Staged("auto")]
    for number in range(3):
        worlds[1].refresh(number)

    for world in worlds:
        world.sql("ALTER MATERIALIZED TABLE totals REFRESH")
        world.work()

    assert [world.ways[-1] for world in worlds] == ["recompute", "recompute+"]


def test_a_foreign_commit_makes_the_states_useless_and_the_next_run_recomputes_with_states() -> None:
    world = Staged("incremental")
    storage = world.engine.storages[TOTALS]
    main = storage.snapshots[storage.main]
    storage.commit(replace(main.facts, snapshot_id="9999", run_id=None, states={}), main.rows)

    world.refresh(1)
    world.refresh(2)

    assert world.ways == ["recompute+", "recompute+", "stages+"]


def test_a_rollback_of_main_leaves_states_of_other_rows_which_are_not_used() -> None:
    world = Staged("incremental")
    storage = world.engine.storages[TOTALS]
    first = storage.main
    world.refresh(1)
    storage.main = first

    world.refresh(2)
    world.refresh(3)

    assert world.ways == ["recompute+", "stages+", "recompute+", "stages+"]


def test_rows_in_doubt_have_no_states_until_a_user_ends_the_doubt() -> None:
    world = Staged("incremental")
    world.refresh(1)
    doubted = replace(world.table("totals"), doubt="VERIFY found other rows")
    in_transaction(world.registry, lambda tx: tx.tables.replace(doubted))

    world.refresh(2)
    has_states = world.has_states
    world.sql("ALTER MATERIALIZED TABLE totals RESUME")
    world.refresh(3)
    world.refresh(4)

    assert world.ways[-3:] == ["recompute", "recompute+", "stages+"]
    assert not has_states


def test_a_run_whose_answer_was_lost_publishes_rows_and_states_together() -> None:
    world = Staged("incremental")
    world.engine.plan_lost_answer("publish", landed=True)

    world.refresh(1)
    world.engine.plan_lost_answer("publish", landed=False)
    world.refresh(2)
    world.refresh(3)

    assert {*world.ways} == {"recompute+", "stages+"}
    assert world.ways[0] == "recompute+"


def test_rows_are_changed_without_kept_values_if_no_value_may_change() -> None:
    world = Staged("auto", shape=SAME)

    runs = [world.refresh(1), world.refresh(2)]

    assert (world.ways, world.has_states) == (["recompute", "append", "stages"], False)
    assert [run.strategy for run in runs] == ["append", "stages"]


def test_kept_values_are_carried_by_a_run_that_changes_none() -> None:
    world = Staged("incremental", shape=SAME)

    world.refresh(1)
    world.refresh(2)

    assert (world.ways, world.has_states) == (["recompute+", "append+", "stages+"], True)


def test_rows_need_kept_values_that_are_not_reproducible_although_they_do_not_change() -> None:
    assert not isinstance(SAME.stages, str)
    values = (replace(VALUE, is_reproducible=False),)
    world = Staged("auto", shape=replace(SAME, stages=replace(SAME.stages, values=values)))

    for number in range(3):
        world.refresh(number)

    assert world.ways == ["recompute", "recompute", "recompute+", "stages+"]


def test_a_run_without_states_leaves_it_to_the_next_one_to_keep_those_that_would_serve() -> None:
    world = Staged("auto", shape=MOVED)
    world.refresh(1)
    world.engine.shape = SAME
    world.refresh(2)
    world.engine.shape = MOVED

    world.refresh(3)
    world.refresh(4)

    assert world.ways == ["recompute", "recompute", "stages", "recompute+", "stages+"]


def test_explain_refresh_says_what_a_change_of_states_is_joined_with() -> None:
    world = Staged("incremental")
    world.engine.commit(ORDERS, orders(1))
    alone = str(world.show("EXPLAIN REFRESH totals"))
    world.engine.shape = replace(SHAPE, stages=replace(STAGES, rest=frozenset({0})))

    joined = str(world.show("EXPLAIN REFRESH totals"))

    assert "joins" not in alone
    assert "reads 1 of 101 bytes; joins about 101 bytes: all of lake.default.orders" in joined
