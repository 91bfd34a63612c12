"""State tables beside their materialized table: they expire and go with it, and nobody else writes them."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from mt_core.errors import TableProtected
from mt_core.model.table import TableIdentifier
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.queries.views import Names
from mt_core.spark.statements.protection import NoTables, run_protected
from tests.integration.state_world import OTHER, STAGE, StateWorld, whole
from tests.integration.state_world import world as world
from tests.integration.test_kept_states import FIRST, MORE, added, both, large
from tests.integration.test_kept_states import long_logs as long_logs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def run(world: StateWorld, sql: str) -> list[tuple[object, ...]]:
    """Run a statement as a session of a gateway does."""
    return [tuple(row) for row in run_protected(world.session, sql, NoTables()).collect()]


def test_a_state_that_any_snapshot_of_the_table_names_is_kept_and_others_expire(world: StateWorld) -> None:
    world.refresh({STAGE: large(world)})
    kept, named = world.load().main, {world.named()}
    assert kept is not None
    world.write("lost", {STAGE: large(world, MORE)})
    for _ in range(3):
        world.refresh({STAGE: added(world)})
    named.add(world.named())
    snapshots = world.of_state("snapshots")

    world.engine.housekeeping.expire(world.table, world.later() - timedelta(days=1), ())
    assert world.of_state("snapshots") == snapshots
    world.engine.housekeeping.expire(world.table, world.later(), {kept})

    left = {str(row.snapshot_id) for row in world.of_state("snapshots")}
    heads = {str(row.snapshot_id) for row in world.of_state("refs")}
    assert (named <= left, left - heads - named) == (True, set())
    assert world.state() == both(FIRST, MORE, MORE, MORE)
    world.roll_back(kept)
    assert world.state() == both(FIRST)


def test_the_state_table_of_a_stage_that_no_snapshot_names_is_dropped_once_it_is_old(
    world: StateWorld,
) -> None:
    world.refresh({STAGE: large(world)})
    world.refresh({OTHER: large(world)})
    folder = world.folder_of(STAGE)

    world.engine.housekeeping.expire(world.table, world.later() - timedelta(days=1), ())
    assert len(world.state_tables()) == 2
    world.engine.housekeeping.expire(world.table, world.later(), ())

    assert [name[-16:] for name in world.state_tables()] == [OTHER]
    assert list(folder.rglob("*.parquet")) == []
    assert world.state(OTHER) == both(FIRST)


def test_a_state_table_that_a_run_has_just_created_is_not_dropped(world: StateWorld) -> None:
    world.refresh({OTHER: whole(world.rows(*FIRST))})
    world.session.sql(
        f"CREATE TABLE {world.state_table().sql} (k0 INT) USING iceberg "
        f"TBLPROPERTIES ('freshtable.state-of' = '{world.table_id}')"
    )

    world.engine.housekeeping.expire(world.table, world.later() - timedelta(days=1), ())
    created = world.state_tables()
    world.engine.housekeeping.expire(world.table, world.later(), ())

    assert (created, world.state_tables()) == ([world.state_table().name], [])


def test_files_that_no_state_refers_to_are_removed(world: StateWorld) -> None:
    world.refresh({STAGE: large(world)})
    orphan = world.folder_of(STAGE) / "data" / "orphan.parquet"
    orphan.write_bytes(b"left by a writer that died")

    world.engine.housekeeping.remove_orphans(world.table, world.later())

    assert not orphan.exists()
    assert world.state() == both(FIRST)


def test_states_are_dropped_with_their_table_also_by_a_drop_that_is_repeated(world: StateWorld) -> None:
    other = StateWorld(world.spark, TableIdentifier(world.table.catalog, world.table.namespace, "other"))
    other.refresh({STAGE: large(world)})
    world.refresh({STAGE: large(world), OTHER: large(world)})
    folder, location = world.folder_of(STAGE), world.load().location

    world.engine.storage.drop_storage(world.table, world.table_id, location)
    after = world.state_tables()
    # As if a run that was taken for lost had come last.
    world.session.sql(
        f"CREATE TABLE {world.state_table().sql} (k0 INT) USING iceberg "
        f"TBLPROPERTIES ('freshtable.state-of' = '{world.table_id}')"
    )
    world.engine.storage.drop_storage(world.table, world.table_id, location)

    assert after == world.state_tables() == [other.state_table().name]
    assert not folder.exists()
    assert other.state() == both(FIRST)


def test_no_listing_shows_state_tables_and_select_by_name_reads_them(world: StateWorld) -> None:
    world.refresh({STAGE: large(world)})
    world.refresh({STAGE: None})
    namespace = [world.table.catalog, *world.table.namespace]

    listed = Names(world.session).relations(namespace)
    shown = run(world, f"SHOW TABLES IN {'.'.join(namespace)} '*'")

    assert world.table.name in listed
    assert [name for name in listed if "_freshtable_state_" in name] == []
    assert [row[1] for row in shown] == [world.table.name]
    state = run(
        world, f"SELECT k0, s0 FROM {world.state_table().sql} VERSION AS OF {world.named()} ORDER BY k0"
    )
    assert state == [(None, None), ("a", Decimal("1.50"))]


WRITES = (
    "DROP TABLE {0}",
    "ALTER TABLE {0} RENAME TO {1}.other",
    "ALTER TABLE {0} ADD COLUMN c INT",
    "ALTER TABLE {0} SET TBLPROPERTIES ('a' = 'b')",
    "ALTER TABLE {0} UNSET TBLPROPERTIES ('freshtable.state-of')",
    "ALTER TABLE {0} CREATE BRANCH x",
    "ALTER TABLE {0} CREATE OR REPLACE TAG x",
    "COMMENT ON TABLE {0} IS 'mine'",
    "TRUNCATE TABLE {0}",
    "INSERT INTO {0} VALUES ('x', 1, 1, 1)",
    "INSERT OVERWRITE {0} VALUES ('x', 1, 1, 1)",
    "UPDATE {0} SET rows = 2",
    "DELETE FROM {0}",
    "CREATE OR REPLACE TABLE {0} AS SELECT 1 AS a",
    "CALL {2}.system.rewrite_data_files('{3}')",
    "CALL {2}.system.rollback_to_snapshot('{3}', 1)",
    "CALL {2}.system.expire_snapshots('{3}')",
    "EXECUTE IMMEDIATE 'DROP TABLE {0}'",
)


def test_no_statement_changes_a_state_table(world: StateWorld) -> None:
    world.refresh({STAGE: large(world)})
    name = world.state_table()
    words = (str(name), ".".join(name.parts[:-1]), name.catalog, ".".join(name.parts[1:]))

    for statement in WRITES:
        with pytest.raises(TableProtected, match=f"{name.name} keeps a state of a materialized table, and "):
            run(world, statement.format(*words))

    assert world.state() == both(FIRST)


def test_a_table_with_such_a_name_but_without_the_property_is_the_users(world: StateWorld) -> None:
    name = world.state_table().sql

    run(world, f"CREATE TABLE {name} (a INT) USING iceberg")
    run(world, f"INSERT INTO {name} VALUES (1)")
    run(world, f"DROP TABLE {name}")

    assert world.state_tables() == []


@pytest.mark.parametrize("world", ["jdbc"], indirect=True)
@pytest.mark.parametrize("cascade", ["", " CASCADE"])
def test_states_that_were_left_do_not_keep_a_database(world: StateWorld, cascade: str) -> None:
    world.refresh({STAGE: large(world)})
    namespace = ".".join([world.table.catalog, *world.table.namespace])
    with pytest.raises(SPARK_ERRORS, match="not empty"):
        run(world, f"DROP DATABASE {namespace}")
    assert len(world.state_tables()) == 1
    world.session.sql(f"DROP TABLE {world.table.sql}")

    run(world, f"DROP DATABASE {namespace}{cascade}")

    assert world.table.namespace[0] not in [
        row[0] for row in run(world, f"SHOW NAMESPACES IN {world.table.catalog}")
    ]
