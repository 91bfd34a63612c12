"""Refreshes of a whole table that apply what changed in its source, in place of computing all rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mt_core.errors import QueryFailed, RequestInvalid
from mt_core.incremental.cost import RETRIED_AFTER
from mt_core.incremental.shape import Occurrence, QueryShape, Reach
from mt_core.incremental.strategy import ResultUnchanged, TooManyKeys
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.table import TableIdentifier
from mt_core.tables.engine import Write
from mt_core.tables.registry import Transaction, in_transaction
from tests.support.manager_world import DAILY, ManagerWorld

ORDERS = "lake.default.orders"
TOTALS = TableIdentifier("lake", ("default",), "totals")
TEN = [{"ds": "2026-03-01", "amount": number} for number in range(10)]
ELEVEN = [*TEN, {"ds": "2026-03-02", "amount": 10}]
APPLIED = "lake.default.orders changed; only rows are added"


class Totals(ManagerWorld):
    """A world with a whole table of ten rows, refreshed once;
    `ways` is how each write since then got its rows.
    """

    def __init__(self, strategy: str) -> None:
        super().__init__()
        self.ways: list[str] = []
        self.engine.commit(ORDERS, TEN)
        self.sql(
            f"CREATE MATERIALIZED TABLE totals WITH ('refresh.strategy' = '{strategy}') "
            "FRESHNESS = INTERVAL '1' HOUR REFRESH_MODE = FULL AS SELECT * FROM orders"
        )
        self.work()
        self.engine.on_write = self._note

    def _note(self, write: Write) -> None:
        self.ways.append("recompute" if write.maintenance is None else str(write.maintenance.strategy.way))

    def request(self) -> RefreshRun:
        """Send the tick of the next hour."""
        self.clock.advance(timedelta(hours=1))
        return self.tick(self.latest_point("totals"), "totals")

    def refresh(self) -> RefreshRun:
        """Carry out the tick of the next hour; assert that the table has the rows of its source."""
        run = self.request()
        self.work()
        return self.succeeded(run)

    def succeeded(self, run: RefreshRun) -> RefreshRun:
        source = self.engine.sources[ORDERS]
        assert self.rows("totals") == sorted(
            source.versions[source.current], key=lambda row: tuple(str(value) for value in row.values())
        )
        assert self.run(run.run_id).status is RunStatus.SUCCEEDED, self.run(run.run_id).error
        return self.run(run.run_id)


def test_appended_rows_are_added_and_the_reason_says_so() -> None:
    world = Totals("auto")
    world.engine.commit(ORDERS, ELEVEN)

    run = world.refresh()

    assert (world.ways, run.rows, run.reason) == (["append"], 1, APPLIED)


def facts_of(run: RefreshRun) -> tuple[object, ...]:
    return run.strategy, run.rows, run.rows_inserted, run.rows_updated, run.rows_deleted, run.bytes_read


def test_the_ledger_says_how_a_refresh_got_its_rows_what_it_did_to_them_and_how_much_it_read() -> None:
    world = Totals("auto")
    world.engine.commit(ORDERS, ELEVEN)
    appended = world.refresh()
    world.engine.commit(ORDERS, TEN[1:])
    changed = world.refresh()
    world.sql("ALTER MATERIALIZED TABLE totals REFRESH")
    world.work()
    recomputed = world.runs("totals")[-1]

    skipped = world.request()
    world.work()

    assert facts_of(appended) == ("append", 1, 1, 0, 0, 1)
    assert facts_of(changed) == ("stages", 9, 9, None, 11, 2)
    assert facts_of(recomputed) == ("recompute", 9, 9, None, 9, 9)
    assert facts_of(world.run(skipped.run_id)) == (None, None, None, None, None, None)


def test_what_a_refresh_of_some_partitions_reads_is_not_known() -> None:
    world = ManagerWorld()
    world.sql(DAILY)
    world.work()
    world.pass_days(1)
    world.engine.commit(ORDERS, [*ELEVEN, {"ds": "2026-03-01", "amount": 7}])
    run = world.tick(world.latest_point())

    world.work()

    assert facts_of(world.run(run.run_id)) == ("recompute", 11, 11, None, 1, None)


@pytest.mark.parametrize("strategy", ["auto", "full"])
def test_a_refresh_whose_process_died_after_it_published_gets_the_same_facts_from_its_snapshot(
    strategy: str,
) -> None:
    worlds = [Totals(strategy), Totals(strategy)]
    for world in worlds:
        world.engine.commit(ORDERS, ELEVEN)
    run = worlds[0].request()
    worlds[0].work(stop_before="published")
    forget_what_was_noted(worlds[0], run)

    worlds[0].restart()
    worlds[0].recover()
    worlds[0].work()

    assert facts_of(worlds[0].succeeded(run)) == facts_of(worlds[1].refresh())


def forget_what_was_noted(world: Totals, run: RefreshRun) -> None:
    """Give the ledger the run as it was before it wrote, as that of a backup has it."""

    def forget(tx: Transaction) -> None:
        held = tx.runs.get(run.run_id)
        assert held is not None
        names = ("rows", "strategy", "rows_inserted", "rows_updated", "rows_deleted", "bytes_read")
        tx.runs.replace(replace(held, **dict.fromkeys(names)), expected=held)

    in_transaction(world.registry, forget)


def test_each_refresh_goes_on_from_the_rows_of_the_one_before() -> None:
    world = Totals("auto")
    for rows in (ELEVEN, [*ELEVEN, ELEVEN[0]], [*ELEVEN, ELEVEN[0], ELEVEN[0]]):
        world.engine.commit(ORDERS, rows)
        world.refresh()

    assert world.ways == ["append", "append", "append"]


def test_a_change_that_turns_out_to_touch_too_many_keys_is_recomputed_and_the_reason_says_so() -> None:
    world = Totals("auto")

    def refuse(write: Write) -> None:
        world.ways.append("recompute" if write.maintenance is None else str(write.maintenance.strategy.way))
        if write.maintenance is not None:
            raise TooManyKeys("7 keys changed")

    world.engine.on_write = refuse
    world.engine.commit(ORDERS, ELEVEN)

    run = world.refresh()

    assert (world.ways, run.strategy, run.bytes_read) == (["append", "recompute"], "recompute", 11)
    assert run.reason == f"{APPLIED}; recomputed: 7 keys changed"


def test_changed_rows_of_which_the_query_reads_none_are_published_as_nothing() -> None:
    world = Totals("auto")

    def refuse(write: Write) -> None:
        assert write.maintenance is not None
        world.ways.append(str(write.maintenance.strategy.way))
        if len(world.ways) == 1:
            raise ResultUnchanged

    world.engine.on_write = refuse
    world.engine.commit(ORDERS, ELEVEN)

    run = world.request()
    world.work()
    run = world.run(run.run_id)

    assert (world.ways, run.status, run.strategy) == (["append", "nothing"], RunStatus.SUCCEEDED, "nothing")
    assert run.reason == f"{APPLIED}; no row or column that the query reads changed"


class Keyed(Totals):
    """A world with a table of a hundred rows of which changed rows name the keys,
    which are always too many.
    """

    def __init__(self, strategy: str = "auto") -> None:
        super().__init__(strategy)
        lineage, grouped = ({0: "ds"}, {0: "amount"}), Occurrence(reach=Reach.GROUPED)
        self.engine.shape = QueryShape(
            occurrences={0: grouped}, lineage=lineage, keys=(0, 1), merge="not at the top"
        )
        self.number = 100
        self.change(0)

    def _note(self, write: Write) -> None:
        super()._note(write)
        if write.maintenance is not None:
            raise TooManyKeys("7 keys changed")

    def change(self, rows: int) -> RefreshRun:
        """Append so many rows, and refresh."""
        self.number += rows
        self.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": number} for number in range(self.number)])
        self.ways.clear()
        return self.refresh()


def test_keys_that_were_too_many_are_not_counted_again_until_a_change_is_smaller_or_long_ago() -> None:
    world = Keyed()
    assert (world.change(10).strategy, world.ways) == ("recompute", ["keys", "recompute"])

    runs = [world.change(6) for _ in range(RETRIED_AFTER - 1)]

    assert {run.reason for run in runs} == {
        f"{ORDERS} changed; recomputed: a change of this size touched too many keys"
    }
    assert world.ways == ["recompute"]
    world.change(6)
    assert world.ways == ["keys", "recompute"]
    world.change(3)
    assert world.ways == ["keys", "recompute"]
    world.change(1)
    assert world.ways == ["keys", "recompute"]


def test_a_table_that_applies_changes_at_any_cost_tries_each_time() -> None:
    world = Keyed("incremental")
    for _ in range(2):
        world.change(10)

        assert world.ways == ["keys", "recompute"]


def test_a_table_without_the_option_computes_all_rows() -> None:
    world = Totals("full")
    world.engine.commit(ORDERS, ELEVEN)

    run = world.refresh()

    assert (world.ways, run.rows, run.reason) == (["recompute"], 11, "lake.default.orders changed")


def test_a_change_of_half_of_the_source_is_applied_only_at_any_cost() -> None:
    doubled = [*TEN, *({**row, "ds": "2026-03-02"} for row in TEN), *TEN]
    auto, incremental = Totals("auto"), Totals("incremental")
    for world in (auto, incremental):
        world.engine.commit(ORDERS, doubled)

    assert auto.refresh().reason == "lake.default.orders changed; recomputed: 67% of the sources changed"
    assert incremental.refresh().reason == APPLIED


def test_changed_rows_are_taken_out_and_put_in() -> None:
    world = Totals("auto")
    world.engine.commit(ORDERS, TEN[1:])

    run = world.refresh()

    assert world.ways == ["stages"]
    assert run.reason == "lake.default.orders changed; rows are added and deleted"


def test_a_refresh_by_hand_computes_all_rows() -> None:
    world = Totals("incremental")
    world.engine.commit(ORDERS, ELEVEN)

    world.sql("ALTER MATERIALIZED TABLE totals REFRESH")
    world.work()

    assert world.ways == ["recompute"]


def test_rows_of_another_writer_are_replaced_by_a_recomputation() -> None:
    world = Totals("incremental")
    world.engine.commit(ORDERS, ELEVEN)
    world.engine.write_foreign(TOTALS, [{"ds": "2026-03-09", "amount": 99}])

    world.refresh()

    assert world.ways == ["recompute"]


@pytest.mark.parametrize("step", ["write", "staged", "publish: read", "publish: commit"])
def test_rows_that_another_writes_during_the_run_are_replaced_too(step: str) -> None:
    world = Totals("incremental")
    world.engine.commit(ORDERS, ELEVEN)
    run = world.request()
    claimed = world.claim()
    assert claimed is not None

    for at in world.attempt(claimed):
        if at == step and len(world.engine.storages[TOTALS].snapshots) < 10:
            world.engine.write_foreign(TOTALS, [{"ds": "2026-03-09", "amount": 99}])
            step = "done"

    world.succeeded(run)
    assert world.ways[-1] == "recompute"


@pytest.mark.parametrize("step", ["decide", "write", "staged", "publish: read", "publish: commit"])
def test_a_compaction_during_the_run_neither_makes_it_start_again_nor_recompute(step: str) -> None:
    world = Totals("incremental")
    world.engine.commit(ORDERS, ELEVEN)
    run = world.request()
    claimed = world.claim()
    assert claimed is not None

    for at in world.attempt(claimed):
        if at == step:
            world.engine.compact_foreign(TOTALS)
            step = "done"

    assert world.succeeded(run).rows == 1
    assert world.ways == ["append"]


def test_a_change_is_applied_to_a_table_that_was_compacted_since_its_last_refresh() -> None:
    world = Totals("incremental")
    world.engine.compact_foreign(TOTALS)
    world.engine.commit(ORDERS, ELEVEN)

    world.refresh()

    assert world.ways == ["append"]


@pytest.mark.parametrize("step", ["decide", "write", "staged", "publish: commit", "published", "end"])
def test_a_process_that_dies_neither_loses_nor_doubles_an_append(step: str) -> None:
    world = Totals("incremental")
    world.engine.commit(ORDERS, ELEVEN)
    run = world.request()
    world.work(stop_before=step)

    world.restart()
    world.recover()
    world.work()

    world.succeeded(run)
    assert len(world.rows("totals")) == len(ELEVEN)


def test_a_change_that_fails_is_recomputed_and_the_reason_says_why() -> None:
    world = Totals("incremental")
    world.engine.commit(ORDERS, ELEVEN)

    def fail_once(write: Write) -> None:
        world.ways.append("recompute" if write.maintenance is None else "append")
        if write.maintenance is not None:
            raise QueryFailed("Division by zero.")

    world.engine.on_write = fail_once

    run = world.refresh()

    assert (world.ways, run.reason) == (
        ["append", "recompute"],
        f"{APPLIED}; recomputed since that failed: Division by zero.",
    )


def test_another_strategy_is_refused_naming_those_there_are() -> None:
    world = ManagerWorld()

    with pytest.raises(
        RequestInvalid, match=r"'refresh.strategy' = 'clever' is none of 'auto' .* 'incremental' .* 'full'"
    ):
        world.sql(
            "CREATE MATERIALIZED TABLE totals WITH ('refresh.strategy' = 'clever') "
            "FRESHNESS = INTERVAL '1' HOUR REFRESH_MODE = FULL AS SELECT * FROM orders"
        )


# --------------------------------------------------------------------------------------------------- learning


class Timed(Totals):
    """A world in which each append takes *append* seconds, and each recomputation *recompute*."""

    def __init__(self, strategy: str, *, append: int, recompute: int) -> None:
        self.seconds = {"append": append, "recompute": recompute}
        super().__init__(strategy)
        self.sql("ALTER MATERIALIZED TABLE totals REFRESH")
        self.work()

    def _note(self, write: Write) -> None:
        super()._note(write)
        self.clock.advance(timedelta(seconds=self.seconds[self.ways[-1]]))

    def append(self, rows: int) -> RefreshRun:
        """Refresh after *rows* rows more."""
        source = self.engine.sources[ORDERS]
        self.engine.commit(ORDERS, [*source.versions[source.current], *[ELEVEN[-1]] * rows])
        return self.refresh()


def test_a_change_that_took_longer_than_a_recomputation_is_recomputed_the_next_time() -> None:
    world = Timed("auto", append=12, recompute=4)

    runs = [world.append(2), world.append(2)]

    assert [run.strategy for run in runs] == ["append", "recompute"]
    assert runs[1].reason == (
        "lake.default.orders changed; recomputed: the last change by append took 12 s, a recomputation 4.0 s"
    )


def test_a_change_that_is_clearly_smaller_is_tried_again() -> None:
    world = Timed("auto", append=12, recompute=4)

    runs = [world.append(2), world.append(2), world.append(1)]

    assert [run.strategy for run in runs] == ["append", "recompute", "append"]


def test_a_change_is_tried_again_after_one_recomputation_and_after_five_if_it_took_as_long_again() -> None:
    world = Timed("auto", append=12, recompute=4)

    runs = [world.append(2) for _ in range(9)]

    assert [run.strategy for run in runs] == ["append", "recompute", "append", *["recompute"] * 5, "append"]


@pytest.mark.parametrize(("strategy", "append"), [("auto", 3), ("incremental", 12)])
def test_a_quick_change_and_the_strategy_incremental_are_applied_again(strategy: str, append: int) -> None:
    world = Timed(strategy, append=append, recompute=4)

    runs = [world.append(2), world.append(2)]

    assert [run.strategy for run in runs] == ["append", "append"]


def test_what_runs_of_another_query_took_does_not_count() -> None:
    world = Timed("auto", append=12, recompute=4)
    world.append(2)
    world.engine.create_source("lake.default.others", ELEVEN)
    world.sql("ALTER MATERIALIZED TABLE totals AS SELECT * FROM others")
    world.work()
    world.engine.commit("lake.default.others", [*ELEVEN, *ELEVEN[:2]])
    run = world.request()

    world.work()

    assert world.run(run.run_id).strategy == "append"
