"""'write.upsert' = 'equality-delete': which tables can have the option, and what it leads to."""

from __future__ import annotations

import pytest

from mt_core.errors import DefinitionInvalid, RequestInvalid
from mt_core.model.storage import Snapshot
from mt_core.tables.refresh.written_rows import written_rows
from tests.support.manager_world import WHOLE_TABLE, ManagerWorld

UPSERT = "'write.upsert' = 'equality-delete'"
SET = f"ALTER MATERIALIZED TABLE totals SET ({UPSERT})"
READER = WHOLE_TABLE.replace("totals", "reader").replace("orders", "totals")
CANNOT_READ = (
    "lake.default.reader cannot read lake.default.totals, which has the option 'write.upsert': a refresh "
    "could detect what has changed there only by reading all of it. Remove the option (ALTER MATERIALIZED "
    "TABLE lake.default.totals RESET ('write.upsert')), or read the sources of lake.default.totals."
)
IS_READ = (
    "lake.default.totals cannot have the option 'write.upsert', since lake.default.reader reads it: "
    "a refresh could detect what has changed there only by reading all of it. "
    "Leave the option out, or have the readers of lake.default.totals read its sources."
)


def with_options(create: str, options: str) -> str:
    return create.replace("FRESHNESS", f"WITH ({options}) FRESHNESS", 1)


@pytest.fixture
def world() -> ManagerWorld:
    """A world with a table `totals` that reads `orders`, and a source of that name for tables
    that read it.
    """
    made = ManagerWorld()
    made.sql(WHOLE_TABLE)
    made.work()
    made.engine.create_source("lake.default.totals", [{"ds": "2026-03-01", "amount": 1}])
    return made


def refused(world: ManagerWorld, statement: str, error: type[Exception] = DefinitionInvalid) -> str:
    before = world.state()
    text = world.refused(lambda: world.sql(statement), error)
    assert world.state() == before
    return text


def test_the_option_goes_to_the_storage_and_can_be_taken_away(world: ManagerWorld) -> None:
    world.sql(SET)
    storage = world.engine.storages[world.table("totals").identifier]
    kept = dict(storage.spec.properties)

    world.sql("ALTER MATERIALIZED TABLE totals RESET ('write.upsert')")

    assert kept == {"write.upsert": "equality-delete"}
    assert dict(world.engine.storages[world.table("totals").identifier].spec.properties) == {}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            "'write.upsert' = 'true'",
            "WITH of lake.default.t: 'write.upsert' = 'true' is not 'equality-delete' "
            "(a refresh deletes rows by their keys, which readers of the table apply); "
            "leave the option out to have the rows looked up and deleted by the refresh.",
        ),
        (
            f"{UPSERT}, 'format-version' = '1'",
            (
                "WITH of lake.default.t: 'write.upsert' needs delete files, "
                "which 'format-version' = '1' does not support; use '2'."
            ),
        ),
    ],
)
def test_values_that_cannot_be_are_refused(world: ManagerWorld, options: str, says: str) -> None:
    create = with_options(WHOLE_TABLE.replace("totals", "t"), options)

    assert refused(world, create, RequestInvalid) == says


def test_no_other_materialized_table_can_read_a_table_with_the_option(world: ManagerWorld) -> None:
    world.sql(SET)
    world.sql(WHOLE_TABLE.replace("totals", "reader"))
    world.work()
    alter = "ALTER MATERIALIZED TABLE reader AS SELECT ds, amount FROM totals"

    assert refused(world, READER.replace("CREATE", "CREATE OR ALTER")) == CANNOT_READ
    assert refused(world, alter) == CANNOT_READ
    world.sql("DROP MATERIALIZED TABLE reader")
    assert refused(world, READER) == CANNOT_READ
    world.sql("ALTER MATERIALIZED TABLE totals RESET ('write.upsert')")
    world.sql(READER)


def test_a_table_that_others_read_cannot_have_the_option(world: ManagerWorld) -> None:
    world.sql(READER)
    world.work()
    create = with_options(WHOLE_TABLE, UPSERT)

    assert refused(world, SET) == IS_READ
    assert refused(world, create.replace("CREATE", "CREATE OR ALTER")) == IS_READ


def test_a_run_that_deletes_by_keys_does_not_say_how_many_rows_had_them() -> None:
    summary = {"freshtable.strategy": "merge", "added-records": "3", "added-equality-deletes": "3"}

    found = written_rows(Snapshot.of("1", summary))

    assert (found["rows_inserted"], found["rows_updated"], found["rows_deleted"]) == (3, None, None)
