"""Source rows that come for partitions which were refreshed before."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from mt_core.errors import QueryFailed, RequestInvalid
from mt_core.incremental.stages.blocks import Blocks, ComputedReading, Kind
from mt_core.model.partition import PartitionSpec, Scope
from mt_core.model.run import RefreshRun, RunKind, RunStatus
from mt_core.model.table import Column
from mt_core.tables.settings import InitialRefresh
from tests.support.blocks import block_over
from tests.support.fake_tables import shape_of_columns
from tests.support.manager_world import DAILY, ManagerWorld
from tests.unit.tables.daily_table import manual

ORDERS = "lake.default.orders"
Row = dict[str, object]


def with_option(handling: str) -> str:
    return DAILY.replace("'yyyy-MM-dd')", f"'yyyy-MM-dd', 'refresh.late-data' = '{handling}')")


def day(number: int) -> datetime:
    """The midnight at which that day of March 2026 begins."""
    return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=number - 1)


def ds(*numbers: int) -> Scope:
    return Scope.of(spec(number) for number in numbers)


def spec(number: int) -> PartitionSpec:
    return PartitionSpec.of({"ds": f"{day(number):%Y-%m-%d}"})


class LateWorld:
    """A daily table of March, each day with the row (day, 1), refreshed on schedule up to the 4th."""

    def __init__(self, create: str = DAILY, *, max_partitions: int = 366, days: int = 4) -> None:
        self.world = ManagerWorld(max_partitions=max_partitions)
        self.source: list[Row] = [self.row(number, 1) for number in range(1, days)]
        self.world.engine.commit(ORDERS, self.source)
        self.world.sql(create)
        self.world.work()
        self.today = 1
        while self.today < days:
            self.pass_a_day()

    def row(self, number: int, amount: int) -> Row:
        return {"ds": f"{day(number):%Y-%m-%d}", "amount": amount}

    def add(self, number: int, amount: int = 2) -> None:
        """Append a row of a day to the source."""
        self.source = [*self.source, self.row(number, amount)]
        self.world.engine.commit(ORDERS, self.source)

    def pass_a_day(self) -> RefreshRun:
        """Let a day pass, and carry out its tick; return the run."""
        self.world.pass_days(1)
        self.today += 1
        run = self.world.tick(day(self.today))
        self.world.work()
        return self.world.run(run.run_id)

    def rows(self) -> list[Row]:
        return self.world.rows()

    def query(self) -> list[Row]:
        return sorted(self.source, key=lambda row: tuple(map(str, row.values())))


def test_the_next_refresh_on_schedule_takes_partitions_with_late_rows_too() -> None:
    late = LateWorld()
    late.add(1)
    late.add(2)

    run = late.pass_a_day()

    assert (run.status, run.scope) == (RunStatus.SUCCEEDED, ds(1, 2, 4))
    assert run.reason == (
        "lake.default.orders changed; late rows in 2 earlier partitions: ds=2026-03-02, ds=2026-03-01"
    )
    assert late.rows() == late.query()


def test_partitions_without_late_rows_stay_as_they_are() -> None:
    late = LateWorld()
    late.world.engine.write_foreign(late.world.table().identifier, [{"ds": "2026-03-03", "amount": 9}])
    late.add(1)

    late.pass_a_day()

    assert {"ds": "2026-03-03", "amount": 9} in late.rows()


def test_a_retry_of_an_older_point_leaves_late_rows_of_newer_ones_to_the_next_refresh() -> None:
    late = LateWorld()
    late.world.engine.poisoned = {spec(4)}
    late.add(4, 1)
    late.add(5, 1)
    late.world.pass_days(2)
    late.today += 2
    late.world.tick(day(5))
    late.world.tick(day(6))
    late.world.work()
    late.world.engine.poisoned = set()
    late.add(6, 1)
    late.world.pass_days(1)
    late.today += 1
    late.world.tick(day(7))
    newest = late.world.claim()
    assert newest is not None
    assert newest.run.points[0] == day(7)
    for _ in late.world.attempt(newest):
        pass

    # The retry of the 5th, which failed alone, comes after it, and sees these rows first.
    late.add(5, 99)
    late.add(3, 77)
    late.world.work()
    late.add(7, 1)
    late.pass_a_day()

    assert late.rows() == late.query()


def test_late_rows_are_taken_once() -> None:
    late = LateWorld()
    late.add(1)
    late.pass_a_day()
    late.add(5)

    run = late.pass_a_day()

    assert (run.status, run.scope, run.reason) == (RunStatus.SUCCEEDED, ds(5), "lake.default.orders changed")


def test_rows_that_were_deleted_or_changed_are_late_rows() -> None:
    late = LateWorld()
    late.source = [late.row(1, 7), late.row(3, 1)]
    late.world.engine.commit(ORDERS, late.source)

    run = late.pass_a_day()

    assert run.scope == ds(1, 2, 4)
    assert late.rows() == late.query()


def test_a_compaction_of_the_source_makes_no_partition_late() -> None:
    late = LateWorld()
    late.pass_a_day()
    late.world.engine.commit(ORDERS, late.source, compaction=True)

    run = late.pass_a_day()

    assert (run.status, run.reason) == (RunStatus.SKIPPED, "sources unchanged")


def test_a_rollback_of_the_source_makes_the_partitions_late_whose_rows_went() -> None:
    late = LateWorld()
    before = late.world.engine.sources[ORDERS].current
    late.add(2)
    late.pass_a_day()
    late.world.engine.roll_back(ORDERS, before)
    late.source = late.source[:-1]

    run = late.pass_a_day()

    assert run.scope == ds(2, 5)
    assert late.rows() == late.query()


def test_rows_of_the_day_that_has_not_ended_are_not_late() -> None:
    late = LateWorld()
    late.add(5)
    late.add(6)

    run = late.pass_a_day()

    assert (run.scope, run.reason) == (ds(4), "lake.default.orders changed")


def test_rows_of_a_day_before_the_first_are_late_in_a_table_that_was_filled_as_a_whole() -> None:
    late = LateWorld()
    late.add(-3)

    run = late.pass_a_day()

    assert run.scope == ds(-3, 4)
    assert late.rows() == late.query()


def test_a_table_without_a_past_gets_none_by_late_rows() -> None:
    world = ManagerWorld(initial_refresh=InitialRefresh.NONE)
    world.sql(DAILY)
    world.pass_days(1)
    world.tick(day(2))
    world.work()
    world.engine.commit(ORDERS, [{"ds": "2026-02-11", "amount": 1}, {"ds": "2026-03-01", "amount": 5}])
    world.pass_days(1)

    run = world.tick(day(3))
    world.work()

    assert world.run(run.run_id).scope == ds(1, 2)
    assert world.rows() == [{"ds": "2026-03-01", "amount": 5}]


def test_a_run_takes_the_newest_partitions_that_fit_and_the_next_one_the_rest() -> None:
    late = LateWorld(max_partitions=2)
    late.add(1)
    late.add(2)
    late.add(3)

    first, second, third = late.pass_a_day(), late.pass_a_day(), late.pass_a_day()

    assert [run.scope for run in (first, second, third)] == [ds(3, 4), ds(2, 5), ds(1, 6)]
    assert first.reason == (
        "lake.default.orders changed; late rows in 1 earlier partition: ds=2026-03-03; "
        "2 more follow in the next refresh: ds=2026-03-02, ds=2026-03-01"
    )
    assert late.rows() == late.query()


def test_reported_partitions_are_named_until_they_are_refreshed_by_hand() -> None:
    late = LateWorld(with_option("report"))
    late.add(1)
    late.add(2)
    before = late.rows()

    first = late.pass_a_day()
    stayed = late.rows()
    manual(late.world, {"ds": "2026-03-02"})
    late.world.work()
    second = late.pass_a_day()

    assert first.scope == ds(4)
    assert first.reason == (
        "lake.default.orders changed; late rows in 2 earlier partitions: ds=2026-03-02, ds=2026-03-01; "
        "'refresh.late-data' = 'report' leaves them"
    )
    assert stayed == before
    assert (second.scope, second.reason) == (
        ds(5),
        (
            "lake.default.orders changed; late rows in 1 earlier partition: ds=2026-03-01; "
            "'refresh.late-data' = 'report' leaves them"
        ),
    )


def test_what_was_reported_is_known_after_a_compaction_whose_forerunners_have_expired() -> None:
    late = LateWorld(with_option("report"))
    late.add(1)
    late.pass_a_day()
    storage = late.world.engine.storages[late.world.table().identifier]
    facts = storage.snapshots[storage.main].facts
    storage.commit(replace(facts, snapshot_id="compacted", replace=True), storage.rows)
    storage.snapshots[storage.main].parent = None

    run = late.pass_a_day()

    assert "late rows in 1 earlier partition: ds=2026-03-01;" in str(run.reason)


def test_a_partition_that_was_refreshed_by_hand_is_late_only_if_it_changed_after_that() -> None:
    late = LateWorld()
    late.add(1)
    late.add(2)
    manual(late.world, {"ds": "2026-03-01"})
    manual(late.world, {"ds": "2026-03-02"})
    late.world.work()
    late.add(2, 3)

    run = late.pass_a_day()

    assert run.scope == ds(2, 4)
    assert late.rows() == late.query()


def test_what_was_reported_is_refreshed_when_the_option_changes() -> None:
    late = LateWorld(with_option("report"))
    late.add(1)
    late.pass_a_day()
    late.world.sql("ALTER MATERIALIZED TABLE daily SET ('refresh.late-data' = 'refresh')")

    run = late.pass_a_day()

    assert run.scope == ds(1, 5)
    assert late.rows() == late.query()


def test_a_table_that_ignores_late_rows_does_not_look_for_them() -> None:
    late = LateWorld(with_option("ignore"))
    late.add(1)
    late.world.engine.failing["touched_partitions"] = QueryFailed("it looked")

    run = late.pass_a_day()

    assert (run.status, run.scope, run.reason) == (RunStatus.SUCCEEDED, ds(4), "lake.default.orders changed")


def test_an_expired_version_of_the_source_is_told_and_late_rows_are_known_again_after_it() -> None:
    late = LateWorld()
    late.world.engine.sources[ORDERS].expired.add(late.world.engine.sources[ORDERS].current)
    late.add(1)

    first = late.pass_a_day()
    late.add(2)
    second = late.pass_a_day()

    assert first.scope == ds(4)
    assert "; late rows are not known: the changes of lake.default.orders are not known: snapshot " in str(
        first.reason
    )
    assert second.scope == ds(2, 5)


def test_rows_that_cannot_be_compared_are_looked_at_again_by_the_next_refresh() -> None:
    late = LateWorld()
    late.add(1)
    late.world.engine.failing["touched_partitions"] = QueryFailed("division by zero")

    first, second = late.pass_a_day(), late.pass_a_day()

    assert (first.scope, first.reason) == (
        ds(4),
        (
            "lake.default.orders changed; late rows are not known: division by zero; "
            "in doubt: every partition but ds=2026-03-04"
        ),
    )
    assert second.scope == ds(1, 5)


def test_a_late_partition_that_fails_does_not_keep_the_schedule_time_from_its_own() -> None:
    late = LateWorld()
    late.add(1)
    late.add(4)
    late.world.engine.poisoned = {spec(1)}

    failed = late.pass_a_day()
    alone = late.world.runs()[-1]

    assert (failed.status, failed.scope) == (RunStatus.FAILED, ds(1, 4))
    assert (alone.status, alone.scope, alone.solo) == (RunStatus.SUCCEEDED, ds(4), True)
    assert late.world.table().covered_until == day(5)

    late.world.engine.poisoned = set()
    assert late.pass_a_day().scope == ds(1, 5)
    assert late.rows() == late.query()


def test_a_point_that_is_not_due_refreshes_its_own_partition_only() -> None:
    late = LateWorld()
    late.add(1)

    run = late.world.tick(day(3), key=None, force=True)
    late.world.work()

    assert late.world.run(run.run_id).scope == ds(2)


def test_an_attempt_that_lost_its_process_takes_the_same_partitions() -> None:
    late = LateWorld()
    late.add(1)
    late.world.pass_days(1)
    run = late.world.tick(day(5))
    late.world.work(stop_before="publish: commit")
    late.world.restart()
    late.world.recover()

    late.world.work()

    assert (late.world.run(run.run_id).status, late.world.run(run.run_id).scope) == (
        RunStatus.SUCCEEDED,
        ds(1, 4),
    )
    assert late.rows() == late.query()


def test_explain_refresh_names_the_partitions_with_late_rows() -> None:
    late = LateWorld()
    late.add(1)
    late.world.pass_days(1)

    ((text,),) = (tuple(row.values()) for row in late.world.show("EXPLAIN REFRESH daily"))

    assert "  late:     late rows in 1 earlier partition: ds=2026-03-01\n" in str(text)
    assert "  writes:   ds=2026-03-01, ds=2026-03-04\n" in str(text)


@pytest.mark.parametrize(
    ("handling", "line"),
    [
        ("refresh", "refresh: each refresh on schedule takes partitions whose source rows changed too"),
        (
            "recompute",
            (
                "recompute: each refresh on schedule takes partitions whose source rows changed, "
                "or may have changed, too"
            ),
        ),
        ("report", "report: each refresh on schedule names partitions whose source rows changed"),
        ("ignore", "ignore: each refresh on schedule takes its own partitions only"),
    ],
)
def test_explain_create_says_what_becomes_of_late_rows(handling: str, line: str) -> None:
    ((text,),) = (tuple(row.values()) for row in ManagerWorld().show(f"EXPLAIN {with_option(handling)}"))

    assert f"  late:     {line}\n" in str(text)


def test_create_warns_of_a_source_whose_late_rows_are_never_known() -> None:
    world = ManagerWorld()
    columns = (Column(name="ds", type="string"), Column(name="amount", type="int"))
    below = ComputedReading(
        number=1, place="[0,[0]]", kind=Kind.FIXED, inputs=(block_over(0).root,), words="a LIMIT"
    )
    rows = Blocks(root=block_over(1).root, computed={1: below})
    world.engine.shape = replace(shape_of_columns(columns), rows=rows)

    outcome = world.sql(DAILY)

    assert outcome.warnings == (
        "Late rows are not refreshed in lake.default.daily, since they are never known: changes of "
        "a LIMIT do not show the ds of changed rows. "
        "REFRESH MATERIALIZED TABLE … PARTITION (…) refreshes the partitions that it names.",
    )


def test_an_unknown_handling_of_late_rows_is_refused() -> None:
    with pytest.raises(
        RequestInvalid,
        match=r"'refresh.late-data' = 'maybe' is none of 'refresh' .* 'recompute' .* 'report' .* 'ignore'",
    ):
        ManagerWorld().sql(with_option("maybe"))


def test_the_ledger_counts_no_run_besides_those_of_schedule_times() -> None:
    late = LateWorld()
    late.add(1)
    late.pass_a_day()

    assert [run.kind for run in late.world.runs()] == [RunKind.INITIAL, *[RunKind.PERIODIC] * 4]


# ------------------------------------------------------------------------------- what can and cannot be known


COLUMNS = (Column(name="ds", type="string"), Column(name="amount", type="int"))
SPARE = Column(name="spare", type="int")
DAILY_OF_TWO = DAILY.replace("SELECT *", "SELECT ds, amount")


def lost(late: LateWorld) -> RefreshRun:
    """Let the version expire of which the refreshes know the rows, after a row came for the first day;
    return the next run.
    """
    late.world.engine.sources[ORDERS].expired.add(late.world.engine.sources[ORDERS].current)
    late.add(1)
    return late.pass_a_day()


def test_all_rows_of_a_source_that_was_created_without_a_commit_are_late_rows_of_the_days_before() -> None:
    world = ManagerWorld()
    world.engine.create_source(ORDERS, [], columns=COLUMNS)
    world.sql(DAILY)
    world.work()
    rows = [{"ds": "2026-02-25", "amount": 1}, {"ds": "2026-02-27", "amount": 2}]
    world.engine.commit(ORDERS, rows)
    world.pass_days(1)

    run = world.tick(day(2))
    world.work()

    assert world.run(run.run_id).scope == Scope.of([*(ds(1).specs or ()), *(ds(-3, -1).specs or ())])
    assert "late rows in 2 earlier partitions: ds=2026-02-27, ds=2026-02-25" in str(
        world.run(run.run_id).reason
    )
    assert world.rows() == rows


def test_a_point_that_was_covered_names_late_rows_as_following_and_the_next_one_takes_them() -> None:
    late = LateWorld()
    late.add(1)

    again = late.world.tick(day(4), key=None)
    late.world.work()
    run, following = late.world.run(again.run_id), late.pass_a_day()

    assert run.reason == (
        "lake.default.orders changed; 1 earlier partition with late rows follows in the next "
        "refresh: ds=2026-03-01"
    )
    assert (run.scope, following.scope) == (ds(3), ds(1, 4))
    assert late.rows() == late.query()


@pytest.mark.parametrize("columns", [(*COLUMNS, SPARE), (SPARE, *COLUMNS), COLUMNS])
def test_columns_that_the_query_does_not_read_hide_no_late_rows(columns: tuple[Column, ...]) -> None:
    late = LateWorld(DAILY_OF_TWO)
    late.source = [late.row(1, 7), *late.source[1:]]
    late.world.engine.commit(ORDERS, late.source)
    late.world.engine.alter_source(ORDERS, columns)

    run = late.pass_a_day()

    assert (run.scope, late.world.table().doubted) == (ds(1, 4), None)
    assert late.rows() == late.query()


def test_late_rows_of_a_partition_refreshed_by_hand_before_the_first_schedule_time_are_found() -> None:
    world = ManagerWorld(initial_refresh=InitialRefresh.NONE)
    world.sql(DAILY)
    world.engine.commit(ORDERS, [{"ds": "2026-02-11", "amount": 1}])
    manual(world, {"ds": "2026-02-11"})
    world.work()
    world.engine.commit(ORDERS, [{"ds": "2026-02-11", "amount": 1}, {"ds": "2026-02-11", "amount": 2}])
    world.pass_days(1)

    run = world.tick(day(2))
    world.work()

    assert PartitionSpec.of({"ds": "2026-02-11"}) in (world.run(run.run_id).scope.specs or ())
    assert [row["amount"] for row in world.rows()] == [1, 2]


def test_partitions_in_doubt_are_named_by_each_refresh_and_everywhere_else_until_each_is_refreshed() -> None:
    late = LateWorld()
    first = lost(late)
    second = late.pass_a_day()
    (shown,) = late.world.show("SHOW MATERIALIZED TABLES EXTENDED")
    ((explained,),) = (tuple(row.values()) for row in late.world.show("EXPLAIN REFRESH daily"))
    manual(late.world)
    late.world.work()

    assert "; in doubt: every partition but ds=2026-03-04" in str(first.reason)
    assert "has expired; in doubt: every partition but ds=2026-03-05, ds=2026-03-04" in str(second.reason)
    assert shown["health"] == "DOUBTED"
    assert "changed in every partition but ds=2026-03-05, ds=2026-03-04: the changes of lake.default" in str(
        shown["last error"]
    )
    assert "; in doubt: every partition but ds=2026-03-05, ds=2026-03-04\n" in str(explained)
    assert late.world.table().doubted is None
    assert late.world.show("SHOW MATERIALIZED TABLES EXTENDED")[0]["health"] == "OK"
    assert late.pass_a_day().reason == "lake.default.orders changed" or late.rows() == late.query()


def test_a_table_that_is_late_and_has_partitions_in_doubt_is_late_and_names_them() -> None:
    late = LateWorld()
    lost(late)

    late.world.clock.advance(timedelta(days=3))
    (shown,) = late.world.show("SHOW MATERIALIZED TABLES EXTENDED")

    assert shown["health"] == "LATE"
    assert "(schedule)" in str(shown["late by"])
    assert "in every partition but ds=2026-03-04" in str(shown["last error"])


def test_partitions_in_doubt_are_computed_unasked_where_the_table_says_so() -> None:
    late = LateWorld(with_option("recompute"))
    run = lost(late)

    assert run.scope.whole
    assert str(run.reason).endswith(
        "has expired; partitions in doubt are computed: every partition but ds=2026-03-04"
    )
    assert (late.rows(), late.world.table().doubted) == (late.query(), None)


def test_partitions_of_a_table_without_a_past_are_in_doubt_by_name_and_computed_as_late_ones_are() -> None:
    world = ManagerWorld(initial_refresh=InitialRefresh.NONE)
    world.sql(with_option("recompute"))
    for number in (2, 3):
        world.pass_days(1)
        world.tick(day(number))
        world.work()
    world.engine.create_source(
        ORDERS, [{"ds": f"2026-0{each}", "amount": 5} for each in ("2-11", "3-01", "3-02")]
    )
    world.pass_days(1)

    run = world.tick(day(4))
    world.work()

    assert world.run(run.run_id).scope == ds(1, 2, 3)
    assert "partitions in doubt are computed: ds=2026-03-02, ds=2026-03-01" in str(
        world.run(run.run_id).reason
    )
    assert (len(world.rows()), world.table().doubted) == (2, None)


def test_a_comparison_that_finds_no_difference_ends_the_doubt_and_one_that_does_shows_the_rows() -> None:
    late = LateWorld()
    lost(late)
    different = late.world.show("VERIFY MATERIALIZED TABLE daily")
    doubted = late.world.table().doubted
    manual(late.world, {"ds": "2026-03-01"})
    late.world.work()
    equal = late.world.show("VERIFY MATERIALIZED TABLE daily")
    run = late.pass_a_day()

    assert [(row["difference"], row["ds"], row["amount"]) for row in different] == [
        ("missing", "2026-03-01", 2)
    ]
    assert doubted is not None
    assert (equal, late.world.table().doubted) == ([], None)
    assert "in doubt" not in str(run.reason)


def test_a_comparison_names_the_partitions_that_it_cannot_compare() -> None:
    late = LateWorld()
    late.add(4)
    late.pass_a_day()
    source = late.world.engine.sources[ORDERS]
    source.expired |= source.versions.keys() - {source.current}

    outcome = late.world.sql("VERIFY MATERIALIZED TABLE daily")

    (warning,) = outcome.warnings
    assert warning.startswith("Not compared: every partition but ds=2026-03-04")
    certificate = late.world.show("SHOW REFRESHES FOR daily EXTENDED")[0]
    assert str(certificate["reason"]).startswith("equal, 1 row at 1 source version in 1 partition; every")


def test_what_was_in_doubt_is_not_again_after_a_compaction_of_a_table_that_was_compared() -> None:
    late = LateWorld()
    lost(late)
    manual(late.world, {"ds": "2026-03-01"})
    late.world.work()
    late.pass_a_day()
    late.world.sql("VERIFY MATERIALIZED TABLE daily")
    storage = late.world.engine.storages[late.world.table().identifier]
    facts = storage.snapshots[storage.main].facts
    storage.commit(replace(facts, snapshot_id="compacted", replace=True), storage.rows)

    run = late.pass_a_day()

    assert facts.doubted is not None
    assert "in doubt" not in str(run.reason)


def test_a_table_whose_late_rows_are_ignored_has_no_partitions_in_doubt() -> None:
    late = LateWorld()
    lost(late)
    late.world.sql("ALTER MATERIALIZED TABLE daily SET ('refresh.late-data' = 'ignore')")

    late.pass_a_day()

    assert late.world.table().doubted is None
