"""States of stages between two refreshes: what a run finds, and what it never finds."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DateType,
    DoubleType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from mt_core.errors import CommitConflict
from mt_core.spark.states.kept_states import StateChange, WrittenStates
from mt_core.spark.states.state_tables import StateLost, StateTable
from tests.integration.state_world import OTHER, SCHEMA, STAGE, State, StateWorld, in_order, whole
from tests.integration.state_world import world as world

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FIRST = (("a", 2, Decimal("1.50"), 2), (None, 1, None, 0))
MORE = (("a", -1, Decimal("-0.50"), -1), ("b", 1, Decimal("9.99"), 1))


def large(world: StateWorld, rows: State = FIRST) -> StateChange:
    """Return a state that a DataFrame computes, so that it is never tiny."""
    return whole(world.rows(*rows).frame.coalesce(1))


def added(world: StateWorld, rows: State = MORE) -> StateChange:
    """Return a change that is added to a log, which is never written as a whole."""
    return StateChange(whole=world.session.sql("SELECT raise_error('written')"), added=world.rows(*rows))


def both(*states: State) -> list[tuple[object, ...]]:
    return sorted((row for state in states for row in state), key=repr)


@pytest.fixture(autouse=True)
def long_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mt_core.spark.states.state_tables.MOST_APPENDED", 100.0)


def test_a_tiny_state_is_read_as_it_was_written_until_another_publish(world: StateWorld) -> None:
    world.refresh({STAGE: whole(world.rows(*FIRST))})

    assert world.state() == both(FIRST)
    assert world.state(OTHER) is None
    assert world.state_tables() == []
    world.publish("without", WrittenStates(summary={}, text=""))
    assert (world.state(), world.load().properties.get("freshtable.states")) == (None, None)


def test_a_state_in_a_table_is_the_named_snapshot_with_what_was_added(world: StateWorld) -> None:
    world.refresh({STAGE: large(world)})
    first = world.state()
    world.refresh({STAGE: added(world)})

    assert (first, world.state()) == (both(FIRST), both(FIRST, MORE))
    assert [row.operation for row in world.of_state("snapshots")] == ["overwrite", "append"]
    before, now = world.of_state("snapshots")
    assert now.parent_id == before.snapshot_id
    [branch, main] = sorted(world.of_state("refs"), key=lambda ref: ref.name == "main")
    assert (branch.snapshot_id, main.snapshot_id) == (now.snapshot_id, before.snapshot_id)
    assert world.describing(world.load()).states == {STAGE: str(now.snapshot_id)}
    properties = {row.key: row.value for row in world.of_table("SHOW TBLPROPERTIES")}
    assert properties["freshtable.state-of"] == world.table_id


def test_what_a_run_that_was_not_published_has_written_is_never_read(world: StateWorld) -> None:
    world.refresh({STAGE: large(world)})

    world.write("lost", {STAGE: added(world)})
    world.write("lost", {STAGE: large(world, MORE)})
    assert world.state() == both(FIRST)
    world.refresh({STAGE: added(world)})
    assert world.state() == both(FIRST, MORE)
    world.refresh({STAGE: added(world)})

    assert world.state() == both(FIRST, MORE, MORE)
    names = [row.name for row in world.of_state("refs")]
    assert (len(names), "main" in names) == (2, True)


def test_of_two_workers_the_one_that_publishes_gives_the_state(world: StateWorld) -> None:
    world.refresh({STAGE: large(world)})
    main = world.load()
    first, second = world.write("w1", {STAGE: added(world)}), world.write("w2", {STAGE: large(world, MORE)})

    world.publish("w1", first, main)
    with pytest.raises(CommitConflict):
        world.publish("w2", second, main)

    assert world.state() == both(FIRST, MORE)
    world.refresh({STAGE: added(world)})
    assert world.state() == both(FIRST, MORE, MORE)


def test_a_worker_that_comes_late_leaves_the_states_of_others(world: StateWorld) -> None:
    world.refresh({STAGE: large(world)})
    late = world.kept()
    world.refresh({STAGE: added(world)})
    world.refresh({STAGE: added(world)})
    refs = {row.name: row.snapshot_id for row in world.of_state("refs")}

    with world.spark.working():
        late.write("late", {STAGE: added(world)})

    now = {row.name: row.snapshot_id for row in world.of_state("refs")}
    assert (refs.items() <= now.items(), len(now)) == (True, len(refs) + 1)
    assert world.state() == both(FIRST, MORE, MORE)


def test_writes_of_two_workers_at_the_same_time_both_have_what_they_read(
    world: StateWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.refresh({STAGE: large(world)})
    written, write = list[WrittenStates](), StateTable._write

    def meanwhile(table: StateTable, *arguments: object, **named: object) -> str:
        if not written:
            written.append(WrittenStates(summary={}, text=""))
            written[:] = [world.write("first", {STAGE: added(world)})]
        return write(table, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(StateTable, "_write", meanwhile)

    world.refresh({STAGE: added(world, (("z", 1, None, 0),))})

    assert world.state() == both(FIRST, (("z", 1, None, 0),))
    parents = {row.parent_id for row in world.of_state("snapshots")[1:]}
    assert len(parents) == 1


@pytest.mark.parametrize("is_tiny", [True, False])
def test_rows_of_another_writer_have_no_state(world: StateWorld, is_tiny: bool) -> None:
    state = whole(world.rows(*FIRST)) if is_tiny else large(world)
    world.refresh({STAGE: state})

    world.session.sql(f"INSERT INTO {world.table.sql} VALUES (9)")

    assert world.state() is None
    world.refresh({STAGE: large(world, MORE)})
    assert world.state() == both(MORE)


def test_a_rollback_of_the_table_restores_the_state_that_it_names_and_no_tiny_one(world: StateWorld) -> None:
    tiny = whole(world.rows(*MORE))
    world.refresh({STAGE: large(world), OTHER: tiny})
    main = world.load().main
    world.refresh({STAGE: added(world), OTHER: tiny})

    assert main is not None
    world.roll_back(main)

    assert (world.state(), world.state(OTHER)) == (both(FIRST), None)
    world.refresh({STAGE: added(world), OTHER: tiny})
    assert (world.state(), world.state(OTHER)) == (both(FIRST, MORE), both(MORE))


def test_a_log_is_written_anew_when_it_has_many_files_or_rows(
    world: StateWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refresh() -> str:
        rewritten = StateChange(whole=world.rows(*FIRST).frame.coalesce(1), added=world.rows(*MORE))
        world.refresh({STAGE: rewritten})
        return str(world.of_state("snapshots")[-1].operation)

    world.refresh({STAGE: large(world)})
    monkeypatch.setattr("mt_core.spark.states.state_tables.MOST_FILES", 3)
    by_files = [refresh() for _ in range(4)]
    monkeypatch.setattr("mt_core.spark.states.state_tables.MOST_FILES", 20)
    monkeypatch.setattr("mt_core.spark.states.state_tables.MOST_APPENDED", 2.0)
    by_rows = [refresh() for _ in range(3)]

    assert by_files == ["append", "append", "overwrite", "append"]
    assert by_rows == ["append", "overwrite", "append"]
    assert world.state() == both(FIRST, MORE)


def test_stages_that_did_not_change_keep_their_states(world: StateWorld) -> None:
    world.refresh({STAGE: large(world), OTHER: whole(world.rows(*MORE))})
    snapshots = world.of_state("snapshots")

    world.refresh({STAGE: None, OTHER: None})
    world.refresh({STAGE: StateChange(whole=world.rows(*FIRST), added=world.rows()), OTHER: None})

    assert (world.state(), world.state(OTHER)) == (both(FIRST), both(MORE))
    assert world.of_state("snapshots") == snapshots


def test_tiny_states_share_sixteen_kilobytes_and_the_rest_have_tables(world: StateWorld) -> None:
    def rows(count: int) -> State:
        # Text that cannot be compressed.
        random = world.session.range(count).selectExpr("sha2(CAST(id AS STRING), 512)").collect()
        return tuple((text, 1, Decimal("1.00"), 1) for (text,) in random)

    large, small = whole(world.rows(*rows(150))), whole(world.rows(*rows(20)))

    world.refresh({STAGE: large})
    assert world.state_tables() == []
    world.refresh({STAGE: large, OTHER: small})

    text = world.load().properties["freshtable.states"]
    assert len(text) < 16 * 1024 + 200
    assert [name[-16:] for name in world.state_tables()] == [STAGE]
    assert (len(world.state() or ()), len(world.state(OTHER) or ())) == (150, 20)


def test_a_state_whose_snapshot_or_table_is_lost_is_none(world: StateWorld) -> None:
    world.refresh({STAGE: large(world)})
    kept = world.kept()

    world.session.sql(f"DROP TABLE {world.state_table().sql}")

    assert world.state() is None
    with world.spark.working(), pytest.raises(StateLost):
        kept.write("r", {STAGE: added(world)})
    world.refresh({STAGE: large(world, MORE)})
    assert world.state() == both(MORE)


@pytest.mark.parametrize("is_tiny", [True, False])
def test_values_of_all_kinds_come_back_as_they_were(world: StateWorld, is_tiny: bool) -> None:
    schema = StructType().add("k0", DoubleType()).add("k1", TimestampType()).add("k2", TimestampNTZType())
    schema = (
        schema.add("k3", DateType())
        .add("k4", ByteType())
        .add("k5", BinaryType())
        .add("s0", SCHEMA["s0"].dataType)
    )
    query = world.session.sql(
        "SELECT CAST(k AS DOUBLE) AS k0, TIMESTAMP'2026-03-29 02:30:00.123456Z' AS k1, "
        "TIMESTAMP_NTZ'1900-01-01 00:00:00.000001' AS k2, DATE'0001-01-01' AS k3, CAST(-1 AS TINYINT) AS k4, "
        "X'00FF' AS k5, CAST('999999999999999999999999999999999999.99' AS DECIMAL(38,2)) AS s0 "
        "FROM VALUES ('NaN'), ('-0.0'), ('0.0'), ('Infinity'), (NULL) AS v(k)"
    )
    rows = world.of_frame(query)

    world.refresh({STAGE: whole(rows if is_tiny else query)})

    assert repr(world.state(STAGE, schema)) == repr(in_order(query))
    assert bool(world.state_tables()) is not is_tiny
    assert world.state(STAGE, SCHEMA) is None
