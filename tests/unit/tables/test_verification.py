"""VERIFY over the fake engine: what it compares, and its certificate in the ledger."""

from __future__ import annotations

import pytest

from mt_core.errors import Incomparable
from mt_core.model.partition import NOT_DOUBTED, NOTHING, WHOLE, DoubtedPartitions, PartitionSpec, Scope
from mt_core.model.run import RunKind, RunStatus
from mt_core.model.storage import Snapshot
from mt_core.model.table import TableIdentifier
from mt_core.tables.verification.shares import Share, shares_of, with_doubted
from tests.support.manager_world import DAILY, WHOLE_TABLE, ManagerWorld

ORDERS = "lake.default.orders"
TOTALS, DAYS = (TableIdentifier("lake", ("default",), name) for name in ("totals", "daily"))


def day(*values: str) -> Scope:
    return Scope.of(PartitionSpec.of({"ds": value}) for value in values)


@pytest.fixture
def world() -> ManagerWorld:
    world = ManagerWorld()
    world.sql(WHOLE_TABLE)
    world.work()
    return world


def shown(world: ManagerWorld, name: str = "totals") -> list[tuple[object, ...]]:
    rows = world.show(f"SHOW REFRESHES FOR {name} EXTENDED")
    return [(row["kind"], row["status"], row["reason"]) for row in rows if row["kind"] == "VERIFY"]


def test_a_table_that_shows_older_versions_of_its_sources_is_equal_and_has_a_certificate(
    world: ManagerWorld,
) -> None:
    world.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 2}])

    assert world.show("VERIFY MATERIALIZED TABLE totals") == []

    assert shown(world) == [("VERIFY", "SUCCEEDED", "equal, 1 row at 1 source version")]


def test_rows_of_another_writer_are_answered_and_the_certificate_says_how_many(world: ManagerWorld) -> None:
    world.engine.write_foreign(TOTALS, [{"ds": "2026-03-09", "amount": 9}] * 2)

    found = world.show("VERIFY MATERIALIZED TABLE totals")

    assert found == [{"difference": "unexpected", "copies": 2, "ds": "2026-03-09", "amount": 9}]
    assert shown(world) == [("VERIFY", "FAILED", "2 rows differ, 3 rows at 1 source version")]


def test_a_verification_counts_as_no_refresh(world: ManagerWorld) -> None:
    world.engine.write_foreign(TOTALS, [{"ds": "2026-03-09", "amount": 9}])
    before = world.show("SHOW MATERIALIZED TABLES EXTENDED"), world.runs("totals"), world.table("totals")

    world.sql("VERIFY MATERIALIZED TABLE totals")

    assert (
        world.show("SHOW MATERIALIZED TABLES EXTENDED"),
        world.runs("totals"),
        world.table("totals"),
    ) == before
    run = world.tick(world.latest_point("totals"), "totals")
    world.work()
    assert world.run(run.run_id).status is RunStatus.SUCCEEDED


def test_a_verification_waits_for_no_refresh_and_none_waits_for_it(world: ManagerWorld) -> None:
    world.tick(world.latest_point("totals"), "totals")
    claimed = world.claim()
    assert claimed is not None

    assert world.show("VERIFY MATERIALIZED TABLE totals") == []

    assert list(world.attempt(claimed))[-1] == "end"


def test_each_partition_is_compared_at_the_versions_that_its_last_refresh_has_read() -> None:
    world = ManagerWorld()
    world.sql(DAILY.replace("'yyyy-MM-dd')", "'yyyy-MM-dd', 'refresh.late-data' = 'ignore')"))
    world.work()
    for amount in (1, 2):
        world.pass_days(1)
        world.engine.commit(ORDERS, [{"ds": f"2026-03-0{number}", "amount": amount} for number in (1, 2, 3)])
        world.tick(world.latest_point())
        world.work()
    assert world.rows() == [{"ds": "2026-03-01", "amount": 1}, {"ds": "2026-03-02", "amount": 2}]

    assert world.show("VERIFY MATERIALIZED TABLE daily") == []

    assert shown(world, "daily") == [
        ("VERIFY", "SUCCEEDED", "equal, 2 rows at 3 source versions in 2 partitions")
    ]


def test_what_has_no_rows_of_its_definition_is_refused_with_the_way_out(world: ManagerWorld) -> None:
    world.engine.create_source("lake.default.others", [{"ds": "2026-03-01", "amount": 1}])
    world.sql("ALTER MATERIALIZED TABLE totals AS SELECT * FROM others")
    before = world.state()

    message = world.refused(lambda: world.sql("VERIFY MATERIALIZED TABLE totals"), Incomparable)

    assert message == (
        "lake.default.totals has rows of another definition than its present one; ALTER MATERIALIZED TABLE "
        "lake.default.totals REFRESH computes them again."
    )
    assert world.state() == before


# ----------------------------------------------------------------------------------------------------- shares


def snapshot(number: int, scope: Scope | None, sources: str = "[1]", **facts: object) -> Snapshot:
    run_id = None if scope is None else f"run-{number}"
    written = Snapshot(
        snapshot_id=str(number), run_id=run_id, scope=scope, sources=sources, fingerprint="f", pinned=True
    )
    return written if not facts else Snapshot(snapshot_id=str(number), **facts)  # type: ignore[arg-type]


CREATED = snapshot(0, None, created=True)


def test_the_newest_whole_refresh_is_the_only_share_whatever_others_committed_since() -> None:
    history = [snapshot(3, None), snapshot(2, WHOLE, "[2]"), snapshot(1, WHOLE), CREATED]

    assert shares_of(TOTALS, history, "f") == (Share(scope=WHOLE, sources="[2]"),)


def test_partitions_of_one_vector_are_one_share_and_the_whole_below_is_without_them() -> None:
    history = [
        snapshot(4, day("d"), "[2]"),
        snapshot(3, day("c"), "[3]"),
        snapshot(2, day("c", "b"), "[2]"),
        snapshot(1, WHOLE),
        CREATED,
    ]

    assert shares_of(DAYS, history, "f") == (
        Share(scope=day("d", "b"), sources="[2]"),
        Share(scope=day("c"), sources="[3]"),
        Share(scope=WHOLE, besides=day("b", "c", "d"), sources="[1]"),
    )


def test_a_partition_that_holds_a_newer_one_is_compared_without_it() -> None:
    hour = Scope.of([PartitionSpec.of({"ds": "a", "hh": "1"})])

    assert shares_of(DAYS, [snapshot(2, hour, "[2]"), snapshot(1, day("a")), CREATED], "f") == (
        Share(scope=hour, sources="[2]"),
        Share(scope=day("a"), besides=hour, sources="[1]"),
    )


def test_a_table_without_a_refresh_has_no_share_and_versions_that_were_not_certain_are_an_obstacle() -> None:
    uncertain = Snapshot(snapshot_id="1", run_id="r", scope=WHOLE, sources="[]", fingerprint="f")

    with pytest.raises(Incomparable, match="REFRESH it first"):
        shares_of(TOTALS, [CREATED], "f")
    (share,) = shares_of(TOTALS, [uncertain], "f")
    assert "could not read all sources at fixed versions" in str(share.obstacle)


def test_partitions_in_doubt_are_compared_at_the_versions_of_the_refresh_that_found_them_so() -> None:
    shares = (
        Share(scope=day("d"), sources="[3]"),
        Share(scope=day("c", "b"), sources="[2]"),
        Share(scope=WHOLE, besides=day("b", "c", "d"), sources="[1]"),
    )
    every = DoubtedPartitions(scope=WHOLE, besides=day("d"), reason="it has expired")
    late = frozenset(day("a").specs or ())

    assert with_doubted(shares, every, "[3]", late) == (
        Share(scope=WHOLE, besides=day("a", "d"), sources="[3]", doubted=True),
        Share(scope=day("d"), sources="[3]"),
        Share(scope=day("a"), besides=day("b", "c", "d"), sources="[1]"),
    )
    assert with_doubted(shares, DoubtedPartitions(scope=day("b")), "[3]", frozenset()) == (
        Share(scope=day("b"), sources="[3]", doubted=True),
        Share(scope=day("d"), sources="[3]"),
        Share(scope=day("c"), sources="[2]"),
        Share(scope=WHOLE, besides=day("b", "c", "d"), sources="[1]"),
    )
    assert with_doubted(shares, NOT_DOUBTED, "[3]", late) == shares


def test_the_kinds_of_refreshes_have_no_verification_among_them(world: ManagerWorld) -> None:
    world.sql("VERIFY MATERIALIZED TABLE totals SAMPLE 12.5")

    assert [run.kind for run in world.runs("totals")] == [RunKind.INITIAL]
    assert shown(world)[0][2] == "equal, 1 row at 1 source version, a sample of 12.5 percent"
    assert NOTHING.specs == frozenset()
