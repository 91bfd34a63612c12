"""ALTER … AS, CREATE OR ALTER and SET FRESHNESS change the definition, and the rebuild stays due
until it is done.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from mt_core.errors import DefinitionInvalid, QueryFailed, TableBusy
from mt_core.model.freshness import Freshness
from mt_core.model.partition import WHOLE
from mt_core.model.run import RefreshRun, RunKind, RunStatus
from mt_core.model.table import Column, RefreshStatus
from mt_core.tables.registry import in_transaction
from tests.support.manager_world import DAILY, ManagerWorld

DS, AMOUNT, NOTE = (
    Column(name="ds", type="string"),
    Column(name="amount", type="int"),
    Column(name="note", type="string", nullable=False),
)
ROW = {"ds": "2026-03-01", "amount": 1}
OR_ALTER = DAILY.replace("CREATE", "CREATE OR ALTER", 1)


@pytest.fixture
def world() -> ManagerWorld:
    made = ManagerWorld()
    made.engine.create_source("lake.default.doubled", [{"ds": "2026-03-01", "amount": 2}], [DS, AMOUNT])
    made.engine.create_source("lake.default.wider", [{**ROW, "note": "x"}], [DS, AMOUNT, NOTE])
    made.engine.create_source("lake.default.narrow", [{"ds": "2026-03-01"}], [DS])
    made.engine.create_source("lake.default.swapped", [ROW], [AMOUNT, DS])
    made.engine.create_source("lake.default.retyped", [ROW], [DS, replace(AMOUNT, type="bigint")])
    made.engine.create_source("lake.default.renamed", [ROW], [DS, replace(AMOUNT, name="sum")])
    made.sql(DAILY)
    made.work()
    return made


def alter(world: ManagerWorld, source: str) -> None:
    world.sql(f"ALTER MATERIALIZED TABLE daily AS SELECT * FROM {source}")


def tick(world: ManagerWorld) -> RefreshRun:
    world.pass_days(1)
    run = world.tick(world.latest_point())
    world.work()
    return world.run(run.run_id)


# ---------------------------------------------------------------------------------------------------- queries


@pytest.mark.parametrize(
    "statement", ["ALTER MATERIALIZED TABLE daily AS SELECT * FROM {}", OR_ALTER[:-6] + "{}"]
)
def test_another_query_rebuilds_the_table(world: ManagerWorld, statement: str) -> None:
    workflows = dict(world.scheduler.workflows)

    world.sql(statement.format("doubled"))
    definition, due = world.table().definition, world.table().rebuild_due
    world.work()

    assert (definition.original_query, definition.expanded_query) == (
        "SELECT * FROM doubled",
        "SELECT `ds`, `amount` FROM lake.default.doubled",
    )
    assert due is not None
    rebuild = world.runs()[-1]
    assert (rebuild.kind, rebuild.scope, rebuild.status) == (RunKind.REBUILD, WHOLE, RunStatus.SUCCEEDED)
    assert world.table().rebuild_due is None
    assert world.rows() == [{"ds": "2026-03-01", "amount": 2}]
    assert world.scheduler.workflows == workflows


@pytest.mark.parametrize(
    "statement", ["ALTER MATERIALIZED TABLE daily AS SELECT * FROM wider", OR_ALTER[:-6] + "wider"]
)
def test_a_column_appended_by_the_query_is_appended_nullable_to_table_and_storage(
    world: ManagerWorld, statement: str
) -> None:
    world.sql(statement)
    world.work()

    expected = (DS, AMOUNT, replace(NOTE, nullable=True))
    assert world.table().definition.columns == expected
    assert world.engine.storages[world.table().identifier].columns == expected
    assert world.rows() == [{**ROW, "note": "x"}]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("narrow", "returns 1 column, but the table has 2"),
        (
            "swapped",
            "Column 1 of the new query of lake.default.daily is amount INT, but in the table it is ds STRING",
        ),
        (
            "retyped",
            "Column 2 of the new query of lake.default.daily is amount BIGINT, "
            "but in the table it is amount INT",
        ),
        ("renamed", "Column 2 of the new query of lake.default.daily is sum INT"),
    ],
)
@pytest.mark.parametrize(
    "statement", ["ALTER MATERIALIZED TABLE daily AS SELECT * FROM {}", OR_ALTER[:-6] + "{}"]
)
def test_a_query_that_does_more_than_append_columns_is_refused_and_changes_nothing(
    world: ManagerWorld, source: str, words: str, statement: str
) -> None:
    before = world.state()

    refusal = world.refused(lambda: world.sql(statement.format(source)), DefinitionInvalid)

    assert words in refusal
    assert "append" in refusal
    assert world.state() == before


def test_a_query_that_cannot_be_read_is_refused_and_changes_nothing(world: ManagerWorld) -> None:
    before = world.state()

    world.refused(lambda: alter(world, "nowhere"), QueryFailed)

    assert world.state() == before


def test_a_rebuild_stays_due_until_a_whole_run_has_done_it_also_when_its_own_run_failed(
    world: ManagerWorld,
) -> None:
    alter(world, "doubled")
    world.engine.failing["write"] = RuntimeError("no executor")
    world.work()
    due = world.table().rebuild_due
    rows = world.rows()

    run = tick(world)

    assert due is not None
    assert rows == [ROW]
    assert (run.kind, run.scope, run.status) == (RunKind.PERIODIC, WHOLE, RunStatus.SUCCEEDED)
    assert world.table().rebuild_due is None
    assert world.rows() == [{"ds": "2026-03-01", "amount": 2}]
    assert world.table().covered_until == world.latest_point()


def test_a_whole_periodic_run_that_fails_for_one_partition_leaves_the_rebuild_due_and_helps_the_others(
    world: ManagerWorld,
) -> None:
    alter(world, "doubled")
    world.engine.failing["write"] = RuntimeError("no executor")
    world.work()
    world.engine.failing["write"] = RuntimeError("no executor")

    run = tick(world)

    assert run.status is RunStatus.FAILED
    assert world.runs()[-1].retry_of == run.run_id
    assert world.table().rebuild_due is not None
    assert tick(world).scope == WHOLE
    assert world.table().rebuild_due is None


def test_a_run_that_began_before_the_alter_does_not_count_as_the_rebuild(world: ManagerWorld) -> None:
    world.sql("ALTER MATERIALIZED TABLE daily REFRESH")
    claimed = world.claim()
    assert claimed is not None
    steps = world.attempt(claimed)
    next(steps)

    alter(world, "doubled")
    list(steps)
    due = world.table().rebuild_due
    world.work()

    assert due is not None
    assert world.table().rebuild_due is None
    assert world.rows() == [{"ds": "2026-03-01", "amount": 2}]


def test_a_query_changed_while_suspended_is_rebuilt_after_resume(world: ManagerWorld) -> None:
    world.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
    outcome = world.sql("ALTER MATERIALIZED TABLE daily AS SELECT * FROM doubled")
    suspended, steps = world.table(), world.work()

    world.sql("ALTER MATERIALIZED TABLE daily RESUME")
    world.work()

    assert (suspended.status, steps) == (RefreshStatus.SUSPENDED, [])
    assert outcome.warnings == (
        "lake.default.daily is SUSPENDED and still has the rows of its old definition; "
        "ALTER MATERIALIZED TABLE lake.default.daily RESUME refreshes it by the new one.",
    )
    assert suspended.rebuild_due is not None
    assert world.table().rebuild_due is None
    assert world.rows() == [{"ds": "2026-03-01", "amount": 2}]


def test_a_query_that_is_changed_there_and_back_is_rebuilt_only_where_it_must(world: ManagerWorld) -> None:
    alter(world, "doubled")
    alter(world, "orders")
    world.work()

    assert world.table().rebuild_due is None
    assert world.rows() == [ROW]
    assert [run.status for run in world.runs()[1:]] == [RunStatus.SKIPPED, RunStatus.COALESCED]


def test_columns_cannot_be_appended_while_a_refresh_is_running(world: ManagerWorld) -> None:
    world.sql("ALTER MATERIALIZED TABLE daily REFRESH")
    world.claim()
    before = world.state()

    refusal = world.refused(lambda: alter(world, "wider"), TableBusy)

    assert "A refresh of lake.default.daily is still running" in refusal
    assert world.state() == before


def test_no_refresh_begins_while_columns_are_appended(world: ManagerWorld) -> None:
    world.sql("ALTER MATERIALIZED TABLE daily REFRESH")
    claims = []
    add_columns = world.engine.add_columns

    def claim_meanwhile(identifier, columns):
        claims.append(world.claim())
        add_columns(identifier, columns)

    world.engine.add_columns = claim_meanwhile

    alter(world, "wider")
    world.work()

    assert claims == [None]
    assert world.rows() == [{**ROW, "note": "x"}]


def test_an_alter_that_another_one_overtook_is_refused_and_loses_nothing_of_it(world: ManagerWorld) -> None:
    analyse = world.engine.analyse

    def alter_meanwhile(query):
        world.engine.analyse = analyse
        alter(world, "wider")
        return analyse(query)

    world.engine.analyse = alter_meanwhile

    refusal = world.refused(lambda: alter(world, "doubled"), TableBusy)

    assert "Another command changed lake.default.daily in the meantime" in refusal
    assert world.table().definition.original_query == "SELECT * FROM wider"
    assert len(world.table().definition.columns) == 3


# -------------------------------------------------------------------------------------------- CREATE OR ALTER


def test_an_identical_create_or_alter_changes_nothing(world: ManagerWorld) -> None:
    before = world.state()

    world.sql(OR_ALTER)

    assert world.state() == before


def test_create_or_alter_cannot_change_the_partitioning(world: ManagerWorld) -> None:
    before = world.state()
    other = OR_ALTER.replace("(ds)", "(ds, amount)")

    refusal = world.refused(lambda: world.sql(other), DefinitionInvalid)

    assert "cannot change the partitioning of lake.default.daily (ds)" in refusal
    assert world.state() == before


def test_create_or_alter_compares_transforms_by_what_they_mean(world: ManagerWorld) -> None:
    text = OR_ALTER.replace("TABLE daily", "TABLE laid_out").replace("(ds)", "(ds, bucket(4, amount))")
    world.sql(text)
    world.work()
    before = world.state()

    world.sql(text.replace("bucket(4, amount)", "BUCKET(AMOUNT, 4)"))
    other = world.refused(lambda: world.sql(text.replace("bucket(4", "bucket(8")), DefinitionInvalid)
    none = world.refused(lambda: world.sql(text.replace(", bucket(4, amount)", "")), DefinitionInvalid)

    assert (
        "cannot change the partitioning of lake.default.laid_out (ds, bucket(4, amount)); DROP and CREATE it"
        in other
    )
    assert none == other
    assert world.state() == before


def test_a_new_query_cannot_append_a_column_with_the_name_of_a_transforms_values(world: ManagerWorld) -> None:
    world.sql(OR_ALTER.replace("TABLE daily", "TABLE laid_out").replace("(ds)", "(ds, bucket(4, amount))"))
    world.work()
    appended = replace(AMOUNT, name="amount_bucket")
    world.engine.create_source("lake.default.bucketed", [{**ROW, "amount_bucket": 1}], [DS, AMOUNT, appended])
    before = world.state()

    refusal = world.refused(
        lambda: world.sql("ALTER MATERIALIZED TABLE laid_out AS SELECT * FROM bucketed"), DefinitionInvalid
    )

    assert (
        "Iceberg names its values amount_bucket, and lake.default.laid_out has a column amount_bucket"
        in refusal
    )
    assert world.state() == before


def test_create_or_alter_applies_options_comment_query_and_freshness_at_once(world: ManagerWorld) -> None:
    text = OR_ALTER.replace("PARTITIONED", "COMMENT 'new' PARTITIONED").replace("'1' DAY", "'2' DAY")

    world.sql(
        text.replace("= 'yyyy-MM-dd'", "= 'yyyy-MM-dd', 'write.format.default' = 'orc'").replace(
            "orders", "doubled"
        )
    )

    table = world.table()
    assert table.definition.comment == "new"
    assert table.definition.options["write.format.default"] == "orc"
    assert world.engine.storages[table.identifier].spec.properties == {"write.format.default": "orc"}
    assert world.engine.storages[table.identifier].spec.comment == "new"
    assert table.definition.freshness == Freshness(2, "DAY")
    assert table.definition.original_query == "SELECT * FROM doubled"
    assert world.scheduler.workflows[table.table_id].schedule.freshness == Freshness(2, "DAY")
    assert table.rebuild_due is not None


@pytest.mark.parametrize("change", [("PARTITIONED", "COMMENT 'new' PARTITIONED"), ("'1' DAY", "'2' DAY")])
def test_a_new_comment_or_freshness_alone_rebuilds_nothing(
    world: ManagerWorld, change: tuple[str, str]
) -> None:
    world.sql(OR_ALTER.replace(*change))

    assert world.table().rebuild_due is None
    assert len(world.runs()) == 1


def test_create_or_alter_from_a_session_in_another_zone_keeps_the_zone_of_the_table(
    world: ManagerWorld,
) -> None:
    before = world.state()
    world.context = replace(world.context, properties={"table.local-time-zone": "Asia/Tokyo"})

    world.sql(OR_ALTER)

    assert world.table().definition.zone == "UTC"
    assert world.state() == before


def test_create_or_alter_that_spells_columns_in_another_case_keeps_the_types_of_the_query(
    world: ManagerWorld,
) -> None:
    before = world.table().definition
    world.engine.create_source(
        "lake.default.louder", [{"ds": "2026-03-01", "AMOUNT": 1}], [DS, replace(AMOUNT, name="AMOUNT")]
    )

    world.sql(OR_ALTER.replace("orders", "louder"))

    after = world.table().definition
    assert after.columns == before.columns
    assert after.query_types == before.query_types


def test_create_or_alter_makes_a_table_that_is_not_there() -> None:
    world = ManagerWorld()

    world.sql(OR_ALTER)
    world.work()

    assert world.table().status is RefreshStatus.ACTIVATED
    assert world.rows() == [ROW]


# ---------------------------------------------------------------------------------------------- SET FRESHNESS


def test_a_new_freshness_changes_definition_and_workflow_and_nothing_else(world: ManagerWorld) -> None:
    before, workflow = world.table(), world.scheduler.workflows[world.table().table_id]

    world.sql("ALTER MATERIALIZED TABLE daily SET FRESHNESS = INTERVAL '6' HOUR")

    after = world.table()
    changed = replace(before.definition, freshness=Freshness(6, "HOUR"))
    assert after == replace(before, definition=changed, revision=after.revision)
    made = world.scheduler.workflows[after.table_id]
    assert made.schedule == replace(workflow.schedule, freshness=Freshness(6, "HOUR"))
    assert not made.paused
    assert world.latest_point() == datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_freshness_that_changes_the_mode_says_so_and_how_to_go_back(world: ManagerWorld) -> None:
    world.sql("CREATE MATERIALIZED TABLE by_freshness FRESHNESS = INTERVAL '1' HOUR AS SELECT * FROM orders")

    silent = world.sql("ALTER MATERIALIZED TABLE by_freshness SET FRESHNESS = INTERVAL '2' HOUR").warnings
    (warning,) = world.sql(
        "ALTER MATERIALIZED TABLE by_freshness SET FRESHNESS = INTERVAL '1' MINUTE"
    ).warnings

    assert silent == ()
    assert warning == (
        "The refresh mode of lake.default.by_freshness changed from FULL to CONTINUOUS: "
        "FRESHNESS = INTERVAL '1' MINUTE is under materialized-table.refresh-mode.freshness-threshold, "
        "1800 s. ALTER MATERIALIZED TABLE lake.default.by_freshness SET REFRESH_MODE = FULL keeps "
        "the freshness in the old mode, ALTER MATERIALIZED TABLE lake.default.by_freshness SET "
        "FRESHNESS = INTERVAL '2' HOUR restores both."
    )


def test_a_new_freshness_of_a_suspended_table_leaves_it_suspended_also_when_its_workflow_was_lost(
    world: ManagerWorld,
) -> None:
    world.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
    world.scheduler.workflows.clear()

    world.sql("ALTER MATERIALIZED TABLE daily SET FRESHNESS = INTERVAL '6' HOUR")

    made = world.scheduler.workflows[world.table().table_id]
    assert (made.paused, made.schedule.freshness) == (True, Freshness(6, "HOUR"))
    assert world.table().status is RefreshStatus.SUSPENDED


def test_a_rebuild_due_with_the_fingerprint_of_another_release_is_done_by_the_next_whole_run(
    world: ManagerWorld,
) -> None:
    due = replace(world.table(), rebuild_due="what another release computed")
    in_transaction(world.registry, lambda tx: tx.tables.replace(due))

    tick(world)

    assert world.table().rebuild_due is None
