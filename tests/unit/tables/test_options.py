from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest

from mt_core.errors import DefinitionInvalid, QueryFailed, RequestInvalid
from mt_core.model.storage import state_table_name
from mt_core.model.table import TableIdentifier
from mt_core.spark.queries.determinism import unstable_literal
from mt_core.tables.definition.options import EXECUTION, WRITE, check_execution_config, write_options
from mt_core.tables.table_commands import RefreshRequest
from tests.support.manager_world import DAILY, WHOLE_TABLE, ManagerWorld

TABLE = TableIdentifier("lake", ("default",), "totals")


@pytest.fixture
def world() -> ManagerWorld:
    world = ManagerWorld()
    world.sql(WHOLE_TABLE)
    world.work()
    return world


def refresh(world: ManagerWorld, **options: dict[str, str]) -> None:
    request = RefreshRequest(
        identifier_text=str(TABLE),
        is_periodic=False,
        **options,  # type: ignore[arg-type]
    )
    world.manager.requests.request_refresh(request)
    world.work()


# ----------------------------------------------------------------------------------------- what is understood


@pytest.mark.parametrize(
    ("option", "near"),
    [
        ("partition.field.ds.date-formatter", "partition.fields.<column>.date-formatter"),
        ("write.parquet.compresion-codec", "write.parquet.compression-codec"),
        ("sink.paralellism", "sink.parallelism"),
        ("nonsense", "docs/sql/create-materialized-table.md lists the known ones"),
    ],
)
def test_an_unknown_option_of_create_is_refused_naming_the_nearest(
    world: ManagerWorld, option: str, near: str
) -> None:
    before = world.state()

    text = world.refused(
        lambda: world.sql(DAILY.replace("'partition.fields.ds.date-formatter'", f"'{option}'")),
        RequestInvalid,
    )

    assert f"unknown option {option}" in text
    assert near in text
    assert world.state() == before


@pytest.mark.parametrize(
    "option", ["sink.paralellism", "write.target-file-size", "write.snapshot-property.freshtable.x"]
)
def test_an_unknown_option_of_resume_is_refused_and_changes_nothing(world: ManagerWorld, option: str) -> None:
    before = world.state()

    world.refused(
        lambda: world.sql(f"ALTER MATERIALIZED TABLE totals RESUME WITH ('{option}' = '3')"), RequestInvalid
    )

    assert world.state() == before


def test_an_option_of_flink_without_effect_is_taken_with_a_warning() -> None:
    world = ManagerWorld()

    outcome = world.sql(
        WHOLE_TABLE.replace("FRESHNESS", "WITH ('format' = 'json', 'sink.parallelism' = '2') FRESHNESS", 1)
    )

    assert outcome.warnings == (
        "lake.default.totals: format, sink.parallelism: accepted, but without effect here.",
    )


# --------------------------------------------------------------------------------------------- of one refresh


def test_settings_of_one_refresh_act_on_it_alone(world: ManagerWorld) -> None:
    options = []
    world.engine.on_write = lambda write: options.append(dict(write.options))

    refresh(world, execution_config={"spark.sql.shuffle.partitions": "7", "pipeline.name": "x"})
    refresh(world, dynamic_options={"write.format.default": "orc", "sink.parallelism": "3"})

    assert options == [{"spark.sql.shuffle.partitions": "7"}, {"write.format.default": "orc"}]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"spark.sql.ansi.enabled": "false"}, "spark.sql.ansi.enabled cannot be set for a refresh"),
        ({"spark.sql.shufle.partitions": "2"}, "did you mean spark.sql.shuffle.partitions?"),
        ({"spark.sql.shuffle.partitions": "many"}, "= 'many' cannot be used; expected a whole number"),
        ({"execution.runtime-mode": "streaming"}, "execution.runtime-mode"),
        ({"write.format.default": "orc"}, "write.format.default"),
    ],
)
def test_a_setting_that_a_refresh_does_not_take_is_refused_by_name(
    world: ManagerWorld, config: dict[str, str], said: str
) -> None:
    before = world.state()

    text = world.refused(lambda: refresh(world, execution_config=config), RequestInvalid)

    assert said in text
    assert world.state() == before


def test_stored_options_that_this_release_does_not_know_do_not_stop_the_ticks_of_their_table(
    world: ManagerWorld,
) -> None:
    table = replace(world.table("totals"), dynamic_options={"sink.paralellism": "3"})
    with world.registry.transaction() as tx:
        tx.tables.replace(table)

    refresh(world, dynamic_options={"sink.paralellism": "3"})

    assert world.runs("totals")[-1].status == "SUCCEEDED"


def test_a_batch_refresh_is_what_there_is() -> None:
    check_execution_config({"execution.runtime-mode": "BATCH"}, "here")


def test_write_options_have_the_names_of_icebergs_writer() -> None:
    options = {"write.format.default": "orc", "write.snapshot-property.team": "a"}

    written = write_options({**options, **dict.fromkeys(EXECUTION, "1")})

    assert written == {"write-format": "orc", "snapshot-property.team": "a"}
    assert all(key.startswith("write.") for key in WRITE)


# ------------------------------------------------------------------------------------------------------ names


def test_a_temporary_view_that_hides_a_table_is_refused() -> None:
    world = ManagerWorld()
    world.context = replace(world.context, temporary_relations=frozenset({"orders"}))

    text = world.refused(lambda: world.sql(WHOLE_TABLE), DefinitionInvalid)

    assert "names orders, which is a temporary view in this session" in text
    assert world.sql(WHOLE_TABLE.replace("FROM orders", "FROM lake.default.orders")).wait_for is not None


def test_a_query_cannot_read_the_state_of_another() -> None:
    world = ManagerWorld()
    state = f"lake.default.{state_table_name(str(uuid4()), '00aa11bb22cc33dd')}"
    world.engine.create_source(state, [{"ds": "2026-03-01", "amount": 1}])

    text = world.refused(
        lambda: world.sql(WHOLE_TABLE.replace("FROM orders", f"FROM {state}")), DefinitionInvalid
    )

    assert text == (
        f"The query of lake.default.totals reads {state}, which keeps a state of a materialized table; "
        "read the materialized table itself."
    )


@pytest.mark.parametrize("written", ["Lim", "`Lim`", "session.Lim", "SYSTEM . /* a */ `session`.Lim"])
def test_a_session_variable_is_refused_as_a_temporary_view_is(written: str) -> None:
    world = ManagerWorld()
    world.context = replace(world.context, has_variable=lambda name: name.lower() == "lim")
    world.engine.failing["analyse"] = unresolved(2, 16)

    text = world.refused(
        lambda: world.sql(WHOLE_TABLE.replace("FROM", f"\nWHERE amount > {written} FROM")), DefinitionInvalid
    )

    assert text == (
        "The query of lake.default.totals names Lim, which is a variable of this session; "
        "refreshes do not see it. Write its value."
    )


@pytest.mark.parametrize(
    ("written", "error_class"),
    [
        ("`lim` .", "UNRESOLVED_COLUMN"),
        ("limit_", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        ("t.lim", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        ("lim", "DATATYPE_MISMATCH"),
    ],
)
def test_what_no_variable_can_be_fails_as_the_engine_says(written: str, error_class: str) -> None:
    world = ManagerWorld()
    world.context = replace(world.context, has_variable=lambda name: name.lower() == "lim")
    world.engine.failing["analyse"] = unresolved(1, 8, error_class)

    text = world.refused(lambda: world.sql(WHOLE_TABLE.replace("*", written)), QueryFailed)

    assert text.startswith("no such column")


def unresolved(
    line: int, position: int, error_class: str = "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION"
) -> QueryFailed:
    return QueryFailed("no such column", error_class=error_class, line=line, position=position)


# ------------------------------------------------------------------------------------------ zone and settings


def test_the_zone_of_the_sessions_queries_is_the_tables(world: ManagerWorld) -> None:
    world.context = replace(
        world.context, zone="America/New_York", properties={"spark.sql.session.timeZone": "Asia/Tokyo"}
    )

    world.sql(DAILY)
    warned = world.sql("ALTER MATERIALIZED TABLE totals AS SELECT * FROM orders").warnings

    assert world.table().definition.zone == "America/New_York"
    assert world.table().definition.settings == {}
    assert warned == (
        "lake.default.totals keeps its time zone UTC, in which its query runs; "
        "that of this session is America/New_York.",
    )


def test_another_query_takes_the_settings_of_the_session_that_gives_it(world: ManagerWorld) -> None:
    world.context = replace(world.context, properties={"spark.sql.ansi.enabled": "false"})

    world.sql("ALTER MATERIALIZED TABLE totals AS SELECT * FROM orders")

    assert world.table("totals").definition.settings == {"spark.sql.ansi.enabled": "false"}


def test_a_freshness_that_leaves_partitions_out_is_warned_of_whichever_statement_gives_it() -> None:
    world = ManagerWorld()
    hourly = DAILY.replace("yyyy-MM-dd", "yyyy-MM-dd HH").replace("'1' DAY", "'1' HOUR")
    world.sql(hourly)
    world.work()

    by_set = world.sql("ALTER MATERIALIZED TABLE daily SET FRESHNESS = INTERVAL '1' DAY").warnings
    world.sql("ALTER MATERIALIZED TABLE daily SET FRESHNESS = INTERVAL '1' HOUR")
    by_create = world.sql(
        hourly.replace("CREATE", "CREATE OR ALTER", 1).replace("'1' HOUR", "'1' DAY")
    ).warnings

    assert by_set == by_create
    assert "its data lie in several" in by_set[0]


# ------------------------------------------------------------------------------------------ moments in a text


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("SELECT DATE 'today'", "DATE 'today'"),
        ("SELECT timestamp /* x */ ' Now '", "TIMESTAMP ' Now '"),
        ("SELECT TIMESTAMP_NTZ 'yesterday UTC'", "TIMESTAMP_NTZ 'yesterday UTC'"),
    ],
)
def test_a_literal_that_is_another_moment_each_day_is_seen(text: str, literal: str) -> None:
    assert unstable_literal(text) == literal


@pytest.mark.parametrize(
    "text", ["SELECT DATE '2026-01-01', 'today'", "SELECT DATE 'epoch'", "SELECT 1 -- DATE 'today'"]
)
def test_a_literal_of_one_moment_is_stable(text: str) -> None:
    assert unstable_literal(text) is None


def test_drop_tells_of_files_that_it_leaves_in_a_folder_of_the_users() -> None:
    world = ManagerWorld()
    world.sql(WHOLE_TABLE.replace("FRESHNESS", "WITH ('write.data.path' = '/data/ours') FRESHNESS", 1))

    warnings = world.sql("DROP MATERIALIZED TABLE totals").warnings

    assert warnings == (
        "Files of lake.default.totals under /data/ours are not removed; remove them by hand.",
    )
