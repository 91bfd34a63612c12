"""The periodic check of tables to which changes are applied, and what follows when their rows
are not those of the query.
"""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from mt_core.errors import EngineError, EngineUnavailable, IllegalStatus, Incomparable
from mt_core.model.run import RunKind, RunStatus
from mt_core.model.table import TableIdentifier
from mt_core.tables.registry import in_transaction
from mt_core.tables.upkeep.check import check_tables
from tests.support.manager_world import ManagerWorld

ORDERS = "lake.default.orders"
TOTALS = TableIdentifier("lake", ("default",), "totals")
TEN = [{"ds": "2026-03-01", "amount": number} for number in range(10)]
EQUAL = (
    "lake.default.totals has the rows of its query: equal, 11 rows at 1 source version, compared by hash sums"
)


class Kept(ManagerWorld):
    """A world with a table to which one change was applied, a day before its first check is due."""

    def __init__(self, strategy: str = "auto", **options: str) -> None:
        super().__init__()
        self.engine.commit(ORDERS, TEN)
        given = {"refresh.strategy": strategy, **options}
        clause = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
        self.sql(
            f"CREATE MATERIALIZED TABLE totals WITH ({clause}) FRESHNESS = INTERVAL '1' HOUR "
            "REFRESH_MODE = FULL AS SELECT * FROM orders"
        )
        self.work()
        self.append()

    def append(self) -> None:
        source = self.engine.sources[ORDERS]
        self.engine.commit(ORDERS, [*source.versions[source.current], {"ds": "2026-03-02", "amount": 10}])
        self.clock.advance(timedelta(hours=1))
        self.tick(self.latest_point("totals"), "totals")
        self.work()

    def spoil(self) -> None:
        """Let the table have a row more than the query, as a wrong rule would."""
        storage = self.engine.storages[TOTALS]
        stored = storage.snapshots[storage.main]
        stored.rows = (*stored.rows, {"ds": "2026-03-09", "amount": 9})

    def check(self, after: timedelta = timedelta(days=1)) -> list[str]:
        self.clock.advance(after)
        return check_tables(self.services)

    def certificates(self) -> list[tuple[RunStatus, str | None]]:
        """Return those of the ledger, oldest first."""
        runs = in_transaction(self.registry, lambda tx: list(tx.runs.newest(kinds=[RunKind.VERIFY])))
        return [(run.status, run.reason) for run in reversed(runs)]


def test_a_table_to_which_changes_were_applied_is_checked_once_a_day() -> None:
    world = Kept()

    found = [
        world.check(timedelta(hours=20)),
        world.check(timedelta(hours=4)),
        world.check(timedelta(hours=23)),
    ]

    assert found == [[], [EQUAL], []]
    assert world.certificates() == [(RunStatus.SUCCEEDED, EQUAL.split(": ")[1])]


def test_a_table_is_checked_again_only_after_a_change_was_applied_again() -> None:
    world = Kept()
    world.check()

    idle = world.check()
    world.append()

    assert idle == []
    assert world.check() == [EQUAL.replace("11 rows", "12 rows")]


@pytest.mark.parametrize(
    "world",
    [
        lambda: Kept("full"),
        lambda: Kept("auto", **{"materialized-table.verify.interval": "0 s"}),
        lambda: Kept("auto", **{"materialized-table.verify.interval": "2 d"}),
    ],
    ids=["computes all rows", "never", "later"],
)
def test_a_table_that_computes_all_rows_or_has_another_interval_is_not_checked(world: type[Kept]) -> None:
    assert world().check() == []


def test_rows_that_differ_end_the_applying_of_changes_and_are_computed_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = Kept()
    world.spoil()

    with caplog.at_level(logging.ERROR):
        assert world.check() == []
    doubt = world.table("totals").doubt
    world.work()
    world.append()

    (logged,) = [record.getMessage() for record in caplog.records]
    assert logged.startswith(
        "lake.default.totals has other rows than its query: 1 row differs, 12 rows at 1 source version."
    )
    assert [status for status, _ in world.certificates()] == [RunStatus.FAILED, RunStatus.FAILED]
    rebuilt, last = world.runs("totals")[-2:]
    why = f"recomputed: {doubt}; ALTER MATERIALIZED TABLE {TOTALS} RESUME applies changes again"
    assert (rebuilt.kind, rebuilt.strategy, rebuilt.reason) == (
        RunKind.REBUILD,
        "recompute",
        f"its rows are in doubt; {why}",
    )
    assert (last.strategy, last.reason) == ("recompute", f"{ORDERS} changed; {why}")
    assert world.show("SHOW MATERIALIZED TABLES EXTENDED")[0]["last error"] == doubt
    assert {"name": "doubt", "type": doubt}.items() <= next(
        row.items() for row in world.show("DESCRIBE EXTENDED totals") if row["name"] == "doubt"
    )
    world.engine.commit(ORDERS, TEN)
    assert f"strategy: recompute: {doubt}" in str(world.show("EXPLAIN REFRESH totals"))


def test_rows_of_another_writer_are_computed_again_and_changes_are_applied_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = Kept()
    world.engine.write_foreign(TOTALS, [{"ds": "2026-03-09", "amount": 9}])
    foreign = world.engine.storages[TOTALS].main

    with caplog.at_level(logging.ERROR):
        world.check()
    world.work()
    world.append()

    rebuilt, last = world.runs("totals")[-2:]
    assert f"Another writer committed snapshot {foreign}; all its rows are computed again." in caplog.text
    assert (rebuilt.kind, rebuilt.reason) == (RunKind.REBUILD, f"another writer committed snapshot {foreign}")
    assert (world.table("totals").doubt, last.strategy) == (None, "append")


def test_resume_of_an_active_table_applies_changes_again_once() -> None:
    world = Kept()
    world.spoil()
    world.check()
    world.work()

    world.sql("ALTER MATERIALIZED TABLE totals RESUME")
    world.append()

    assert world.table("totals").doubt is None
    assert world.runs("totals")[-1].strategy == "append"
    world.refused(lambda: world.sql("ALTER MATERIALIZED TABLE totals RESUME"), IllegalStatus)


TRUSTED_AGAIN = (
    "ALTER MATERIALIZED TABLE totals RESUME",
    "CREATE OR ALTER MATERIALIZED TABLE totals WITH ('refresh.strategy' = 'auto') "
    "FRESHNESS = INTERVAL '1' HOUR REFRESH_MODE = FULL AS SELECT * FROM orders",
)


@pytest.mark.parametrize("statement", TRUSTED_AGAIN, ids=["resume", "the same definition"])
@pytest.mark.parametrize("changed", [False, True], ids=["sources unchanged", "sources changed"])
def test_a_doubt_that_ends_before_the_rows_are_computed_again_does_not_save_them(
    statement: str, *, changed: bool
) -> None:
    world = Kept()
    world.spoil()
    world.check()

    world.sql(statement)
    if changed:
        world.engine.commit(ORDERS, [*TEN, {"ds": "2026-03-03", "amount": 11}])
    world.work()

    (rebuilt,) = [
        run for run in world.runs("totals") if run.kind is RunKind.REBUILD and run.covered_by is None
    ]
    assert (rebuilt.status, rebuilt.strategy) == (RunStatus.SUCCEEDED, "recompute")
    source = world.engine.sources[ORDERS]
    assert world.rows("totals") == list(source.versions[source.current])
    table = world.table("totals")
    assert (table.doubt, table.rebuild_due) == (None, None)
    world.append()
    assert world.runs("totals")[-1].strategy == "append"


def test_a_doubt_that_ends_while_a_change_is_applied_waits_for_the_rebuild_and_for_one_that_failed() -> None:
    world = Kept()
    source = world.engine.sources[ORDERS]
    world.engine.commit(ORDERS, [*source.versions[source.current], {"ds": "2026-03-03", "amount": 11}])
    world.clock.advance(timedelta(hours=23))
    world.tick(world.latest_point("totals"), "totals")
    claimed = world.claim()
    assert claimed is not None
    steps = world.attempt(claimed)
    while next(steps) != "staged":
        pass
    world.spoil()
    world.check()
    world.sql("ALTER MATERIALIZED TABLE totals RESUME")
    doubt = world.table("totals").doubt
    for _ in steps:
        pass

    world.engine.failing["write"] = EngineError("disk full")
    world.work()
    failed = world.table("totals")
    world.engine.failing.clear()
    world.append()

    assert (failed.doubt, failed.rebuild_due is None) == (doubt, False)
    assert world.runs("totals")[-1].strategy == "recompute"
    assert sorted(str(row["amount"]) for row in world.rows("totals")) == sorted(
        map(str, [*range(10), 10, 10, 11])
    )
    assert world.table("totals").doubt is None


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER MATERIALIZED TABLE totals AS SELECT * FROM others",
        "CREATE OR ALTER MATERIALIZED TABLE totals WITH ('refresh.strategy' = 'auto') "
        "FRESHNESS = INTERVAL '1' HOUR REFRESH_MODE = FULL AS SELECT * FROM orders",
    ],
    ids=["another query", "the same definition"],
)
def test_a_definition_that_is_given_again_ends_the_doubt(statement: str) -> None:
    world = Kept()
    world.engine.create_source("lake.default.others", TEN)
    world.spoil()
    world.check()
    world.work()

    world.sql(statement)

    assert world.table("totals").doubt is None


def test_what_cannot_be_compared_is_noted_and_tried_again_a_day_later_and_a_lost_spark_at_once() -> None:
    world = Kept()
    world.engine.failing["compare"] = EngineUnavailable("Spark is away.")
    lost = world.check()
    world.engine.failing["compare"] = Incomparable("The version of orders expired.")

    noted, later = world.check(timedelta(minutes=1)), world.check(timedelta(minutes=1))

    assert (lost, noted, later) == ([], [], [])
    assert world.certificates() == [(RunStatus.SKIPPED, "The version of orders expired.")]
    assert world.table("totals").doubt is None


def test_a_verification_by_hand_that_found_nothing_stands_for_a_check_and_a_sample_does_not() -> None:
    whole, sample = Kept(), Kept()
    for world, clause in ((whole, ""), (sample, "SAMPLE 5")):
        world.clock.advance(timedelta(hours=23))
        world.sql(f"VERIFY MATERIALIZED TABLE totals {clause}")

    assert (whole.check(timedelta(hours=1)), sample.check(timedelta(hours=1))) == ([], [EQUAL])
