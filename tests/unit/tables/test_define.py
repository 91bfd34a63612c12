"""What a CREATE declares, and what it must not declare."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mt_core.errors import ConfigError, DefinitionInvalid, EngineError, MtError
from mt_core.model.freshness import Freshness
from mt_core.model.table import Column, RefreshMode, TableDefinition, TableIdentifier
from mt_core.sql.parser import parse
from mt_core.sql.statements import CreateMaterializedTable
from mt_core.tables.definition.partitioning import check_partition_spec, check_transforms
from mt_core.tables.definition.table_definition import check_appended, check_names, define
from mt_core.tables.engine import AnalysedQuery
from mt_core.tables.settings import ManagerSettings
from mt_core.tables.table_commands import CommandContext
from tests.support.manager_world import DAILY, ManagerWorld

DAILY_ID = TableIdentifier("lake", ("sales",), "daily")
COLUMNS = (
    Column(name="Ds", type="string", nullable=False),
    Column(name="hh", type="varchar(2)"),
    Column(name="n", type="bigint"),
)
ANALYSED = AnalysedQuery(
    columns=COLUMNS, expanded_query="SELECT * FROM lake.sales.orders", sources=("lake.sales.orders",)
)
CONTEXT = CommandContext(catalog="lake", namespace=("sales",))
SETTINGS = ManagerSettings(owner="test")
FULL = "FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL"


def defined(
    clauses: str = FULL,
    *,
    columns: str = "",
    analysed: AnalysedQuery = ANALYSED,
    context: CommandContext = CONTEXT,
    settings: ManagerSettings = SETTINGS,
) -> TableDefinition:
    statement = parse(f"CREATE MATERIALIZED TABLE daily {columns} {clauses} AS SELECT * FROM orders")
    assert isinstance(statement, CreateMaterializedTable)
    return define(statement, analysed, identifier=DAILY_ID, context=context, settings=settings)


def refused(error: type[MtError], clauses: str = FULL, **changes) -> str:
    with pytest.raises(error) as raised:
        defined(clauses, **changes)
    return str(raised.value)


def test_a_definition_holds_what_the_statement_and_its_session_say() -> None:
    context = CommandContext(
        catalog="lake",
        namespace=("sales",),
        properties={"spark.sql.ansi.enabled": "false", "table.local-time-zone": "Asia/Tokyo", "other": "x"},
    )
    clauses = (
        "COMMENT 'it''s' PARTITIONED BY (ds) WITH ('partition.fields.DS.date-formatter' = "
        f"'yyyy-MM-dd') {FULL}"
    )

    definition = defined(clauses, context=context)

    assert definition == TableDefinition(
        columns=tuple(replace(column, nullable=True) for column in COLUMNS),
        original_query="SELECT * FROM orders",
        expanded_query="SELECT * FROM lake.sales.orders",
        freshness=Freshness(1, "DAY"),
        refresh_mode=RefreshMode.FULL,
        logical_refresh_mode="FULL",
        zone="Asia/Tokyo",
        comment="it's",
        partition_keys=("Ds",),
        options={"partition.fields.Ds.date-formatter": "yyyy-MM-dd"},
        catalog="lake",
        namespace=("sales",),
        settings={"spark.sql.ansi.enabled": "false"},
        query_types={column.name: column.type for column in COLUMNS},
        sources=("lake.sales.orders",),
    )


def test_a_column_with_a_name_that_iceberg_cannot_read_or_write_is_refused() -> None:
    check_names("lake.sales.daily", ["a", " ", "_FILE", "_change_type"])

    with pytest.raises(DefinitionInvalid) as reserved:
        check_names("lake.sales.daily", ["a", "_file"])
    with pytest.raises(DefinitionInvalid) as empty:
        check_names("lake.sales.daily", ["a", ""])

    assert str(reserved.value) == (
        "Column _file of lake.sales.daily has the name of a metadata column of Iceberg, "
        "which reads no table with such a column; "
        "give it another name in the query with AS, such as _file AS file_of_source."
    )
    assert reserved.value.facts == {"table": "lake.sales.daily", "name": "_file"}
    assert str(empty.value) == (
        "Column 2 of lake.sales.daily has an empty name, with which Iceberg writes no rows; "
        "give it a name in the query with AS."
    )


# ----------------------------------------------------------------------------------------- mode and freshness


@pytest.mark.parametrize(
    ("clauses", "freshness", "logical"),
    [
        ("REFRESH_MODE = FULL", Freshness(1, "HOUR"), "FULL"),
        ("FRESHNESS = INTERVAL '30' MINUTE", Freshness(30, "MINUTE"), "AUTOMATIC"),
        ("FRESHNESS = INTERVAL '1800' SECOND", Freshness(1800, "SECOND"), "AUTOMATIC"),
        ("FRESHNESS = INTERVAL '1' SECOND REFRESH_MODE = FULL", Freshness(1, "SECOND"), "FULL"),
        ("FRESHNESS = INTERVAL '7' MINUTE REFRESH_MODE = FULL", Freshness(7, "MINUTE"), "FULL"),
    ],
)
def test_mode_and_freshness_have_defaults_and_the_threshold_itself_means_full(
    clauses: str, freshness: Freshness, logical: str
) -> None:
    definition = defined(clauses)

    assert (definition.freshness, definition.refresh_mode, definition.logical_refresh_mode) == (
        freshness,
        RefreshMode.FULL,
        logical,
    )


@pytest.mark.parametrize(
    ("clauses", "freshness"),
    [
        ("FRESHNESS = INTERVAL '1799' SECOND", Freshness(1799, "SECOND")),
        ("", Freshness(3, "MINUTE")),
        ("FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = CONTINUOUS", Freshness(1, "DAY")),
        ("REFRESH_MODE = CONTINUOUS", Freshness(3, "MINUTE")),
    ],
)
def test_a_table_is_continuous_below_the_threshold_or_as_declared(clauses: str, freshness: Freshness) -> None:
    definition = defined(clauses)

    assert (definition.refresh_mode, definition.freshness) == (RefreshMode.CONTINUOUS, freshness)


def test_the_threshold_is_a_setting() -> None:
    settings = replace(SETTINGS, freshness_threshold_s=60)

    assert defined("FRESHNESS = INTERVAL '1' MINUTE", settings=settings).refresh_mode is RefreshMode.FULL
    assert (
        defined("FRESHNESS = INTERVAL '59' SECOND", settings=settings).refresh_mode is RefreshMode.CONTINUOUS
    )


def test_the_zone_is_that_of_the_settings_unless_the_session_has_one() -> None:
    assert defined(settings=replace(SETTINGS, zone="Europe/Berlin")).zone == "Europe/Berlin"


def test_an_unknown_zone_of_the_session_is_refused_by_name() -> None:
    context = replace(CONTEXT, properties={"table.local-time-zone": "Mars/Olympus"})

    refusal = refused(DefinitionInvalid, context=context)

    assert "table.local-time-zone: 'Mars/Olympus'" in refusal


# ---------------------------------------------------------------------------------- partitions and formatters


@pytest.mark.parametrize(
    ("clauses", "words"),
    [
        ("PARTITIONED BY (nope)", ["PARTITIONED BY (nope)", "lake.sales.daily", "Ds, hh, n"]),
        ("PARTITIONED BY (ds, DS)", ["names a column twice"]),
        (
            "PARTITIONED BY (ds) WITH ('partition.fields.hh.date-formatter' = 'HH')",
            ["partition.fields.hh.date-formatter", "Ds"],
        ),
        (
            "WITH ('partition.fields.ds.date-formatter' = 'yyyy')",
            ["partition.fields.ds.date-formatter", "none: it is not partitioned"],
        ),
        (
            "PARTITIONED BY (n) WITH ('partition.fields.n.date-formatter' = 'yyyy')",
            [
                "partition.fields.n.date-formatter",
                "only string and date partition columns",
                "n of lake.sales.daily is BIGINT",
            ],
        ),
        (
            "PARTITIONED BY (ds) WITH ('partition.fields.ds.date-formatter' = 'yyyy-ww')",
            ["partition.fields.Ds.date-formatter", "'yyyy-ww'", "letter w"],
        ),
        (
            "PARTITIONED BY (ds) WITH ('partition.fields.ds.date-formatter' = '')",
            ["partition.fields.Ds.date-formatter", "is empty"],
        ),
        (
            "PARTITIONED BY (ds) WITH ('partition.fields.ds.date-formatter' = 'yyyy', "
            "'partition.fields.DS.date-formatter' = 'MM')",
            ["Ds", "has a date-formatter twice"],
        ),
    ],
)
def test_partitions_and_formatters_that_do_not_fit_are_refused_naming_column_option_and_way_out(
    clauses: str, words: list[str]
) -> None:
    refusal = refused(DefinitionInvalid, f"{clauses} {FULL}")

    assert all(word in refusal for word in words), refusal


def test_a_varchar_partition_column_takes_a_formatter() -> None:
    clauses = f"PARTITIONED BY (hh) WITH ('partition.fields.hh.date-formatter' = 'HH') {FULL}"

    assert defined(clauses).date_formatters == {"hh": "HH"}


# ---------------------------------------------------------------------------------------- dates as partitions


DATED = replace(ANALYSED, columns=(Column(name="Ds", type="date"), Column(name="at", type="timestamp")))
BY_DATE = "PARTITIONED BY (ds) WITH ('partition.fields.ds.date-formatter' = 'yyyy-MM-dd')"


def test_a_date_is_a_partition_of_a_schedule_time_and_is_named_by_its_text() -> None:
    definition = defined(f"{BY_DATE} {FULL}", analysed=DATED)

    assert definition.date_formatters == {"Ds": "yyyy-MM-dd"}
    assert check_partition_spec(DAILY_ID, definition, {"ds": "2026-11-27"}) == {"Ds": "2026-11-27"}


@pytest.mark.parametrize("clauses", [BY_DATE, "PARTITIONED BY (ds)"])
@pytest.mark.parametrize("formatted", [True, False])
@pytest.mark.parametrize("value", ["2026-1-2", "20260102", "2026-02-30", "2026-01", "today", ""])
def test_a_text_that_is_no_day_names_no_partition_of_a_date(
    clauses: str, value: str, formatted: bool
) -> None:
    definition = defined(f"{clauses} {FULL}", analysed=DATED)

    with pytest.raises(DefinitionInvalid) as raised:
        check_partition_spec(DAILY_ID, definition, {"ds": value}, formatted=formatted)

    assert raised.value.message == (
        f"PARTITION (ds = '{value}'): Ds of lake.sales.daily is DATE, "
        "and this is not a day in the form yyyy-MM-dd."
    )


def test_another_pattern_of_a_date_is_refused_with_a_string_to_use() -> None:
    clauses = BY_DATE.replace("yyyy-MM-dd", "yyyyMMdd")

    assert refused(DefinitionInvalid, f"{clauses} {FULL}", analysed=DATED) == (
        "Option partition.fields.ds.date-formatter: "
        "Ds of lake.sales.daily is DATE, whose only pattern is yyyy-MM-dd, not "
        "'yyyyMMdd'; for another one, return a string from the query, "
        "such as date_format(Ds, 'yyyyMMdd') AS Ds."
    )


def test_a_date_that_is_stored_of_an_instant_is_no_partition_that_the_query_could_be_asked_for() -> None:
    instants = replace(DATED, columns=(Column(name="Ds", type="timestamp"),))
    stored = defined(f"PARTITIONED BY (ds) {FULL}", columns="(ds DATE)", analysed=instants)

    assert refused(DefinitionInvalid, f"{BY_DATE} {FULL}", columns="(ds DATE)", analysed=instants) == (
        "Option partition.fields.ds.date-formatter: Ds of lake.sales.daily is DATE, "
        "but its query returns TIMESTAMP; CAST it to DATE in the query."
    )
    with pytest.raises(DefinitionInvalid) as raised:
        check_partition_spec(DAILY_ID, stored, {"ds": "2026-11-27"})
    assert raised.value.message == (
        "PARTITION (ds = '2026-11-27'): Ds of lake.sales.daily is DATE, but its query returns TIMESTAMP; "
        "refresh the whole table instead."
    )


# ------------------------------------------------------------------------------------------------- transforms


LAID_OUT = replace(
    ANALYSED,
    columns=(
        Column(name="Ts", type="timestamp"),
        Column(name="d", type="date"),
        Column(name="id", type="bigint"),
        Column(name="city", type="string"),
        Column(name="x", type="double"),
        Column(name="id_bucket", type="int"),
    ),
)


def test_transforms_stand_beside_partition_columns_and_name_none() -> None:
    definition = defined(f"PARTITIONED BY (days(ts), city, bucket(4, id)) {FULL}", analysed=LAID_OUT)

    assert definition.partition_keys == ("city",)
    assert definition.partitioning == ("city", "days(Ts)", "bucket(4, id)")
    assert definition.date_formatters == {}


def laid_out(transforms: str) -> str | None:
    """Return why a table cannot be laid out by *transforms*, None if it can."""
    try:
        definition = defined(f"PARTITIONED BY ({transforms}) {FULL}", analysed=LAID_OUT)
        check_transforms(DAILY_ID, definition.transforms, definition.columns)
    except DefinitionInvalid as refusal:
        return refusal.message
    return None


@pytest.mark.parametrize(
    "transforms",
    [
        "years(d), hours(ts)",
        "truncate(2, city), bucket(8, city), city",
        "bucket(8, ts), days(ts)",
        "truncate(10, id), months(d)",
    ],
)
def test_a_table_can_be_laid_out_by_what_iceberg_takes(transforms: str) -> None:
    assert laid_out(transforms) is None


@pytest.mark.parametrize(
    ("transforms", "refusal"),
    [
        (
            "days(nope)",
            "PARTITIONED BY (days(nope)): the query of lake.sales.daily does not return column nope; "
            "it returns Ts, d, id, city, x, id_bucket.",
        ),
        (
            "hours(d)",
            "PARTITIONED BY (hours(d)): hours takes TIMESTAMP or TIMESTAMP_NTZ, "
            "but d of lake.sales.daily is DATE; CAST it in the query, or leave the transform out.",
        ),
        (
            "bucket(2, x)",
            "PARTITIONED BY (bucket(2, x)): bucket takes TINYINT, SMALLINT, INT, BIGINT, DECIMAL, "
            "STRING, BINARY, DATE, TIMESTAMP or TIMESTAMP_NTZ, but x of lake.sales.daily is DOUBLE; "
            "CAST it in the query, or leave the transform out.",
        ),
        (
            "truncate(2, ts)",
            "PARTITIONED BY (truncate(2, Ts)): truncate takes TINYINT, SMALLINT, INT, "
            "BIGINT, DECIMAL, STRING or BINARY, but Ts of lake.sales.daily is TIMESTAMP; "
            "CAST it in the query, or leave the transform out.",
        ),
        (
            "bucket(2, id)",
            "PARTITIONED BY (bucket(2, id)): Iceberg names its values id_bucket, and lake.sales.daily has a "
            "column id_bucket; give that another name in the query with AS, or leave the transform out.",
        ),
        (
            "years(ts), hours(TS)",
            "PARTITIONED BY (years(Ts), hours(Ts)): Iceberg accepts only one of these per column; "
            "keep one of the two for Ts of lake.sales.daily.",
        ),
        (
            "bucket(2, city), bucket(4, city)",
            "PARTITIONED BY (bucket(2, city), bucket(4, city)): Iceberg accepts only one of these per "
            "column; keep one of the two for city of lake.sales.daily.",
        ),
    ],
)
def test_a_layout_that_iceberg_does_not_take_is_refused_naming_the_column_and_the_way_out(
    transforms: str, refusal: str
) -> None:
    assert laid_out(transforms) == refusal


@pytest.mark.parametrize(
    ("written", "pattern", "computed"),
    [
        ("ts", "yyyy-MM-dd", "CAST(Ts AS DATE) AS ds"),
        ("TS_hour", "yyyy-MM-dd HH", "date_format(Ts, 'yyyy-MM-dd HH') AS ds"),
    ],
)
def test_a_date_formatter_of_a_transform_is_refused_naming_a_column_to_add(
    written: str, pattern: str, computed: str
) -> None:
    option = f"partition.fields.{written}.date-formatter"

    assert refused(
        DefinitionInvalid,
        f"PARTITIONED BY (hours(ts)) WITH ('{option}' = '{pattern}') {FULL}",
        analysed=LAID_OUT,
    ) == (
        f"Option {option}: hours(Ts) only lays out the files of lake.sales.daily, and schedule times cannot "
        f"name its partitions; add a column to the query, such as {computed}, and PARTITIONED BY (ds)."
    )


def test_the_partition_of_a_transform_cannot_be_named() -> None:
    definition = defined(f"PARTITIONED BY (days(ts)) {FULL}", analysed=LAID_OUT)

    with pytest.raises(DefinitionInvalid) as raised:
        check_partition_spec(DAILY_ID, definition, {"ts": "2026-11-27"})

    assert raised.value.message == (
        "PARTITION (ts = '2026-11-27'): ts is not a partition column of lake.sales.daily; "
        "days(Ts) only lays out its files."
    )


# ---------------------------------------------------------------------------------------------------- columns


def test_a_list_of_names_gives_the_columns_in_its_order() -> None:
    definition = defined(columns="(N, hh, ds)")

    assert [column.name for column in definition.columns] == ["n", "hh", "Ds"]
    assert definition.expanded_query == "SELECT `n`, `hh`, `Ds` FROM (\nSELECT * FROM lake.sales.orders\n)"
    assert definition.original_query == "SELECT * FROM orders"


def test_a_typed_list_gives_types_comments_and_not_null_and_may_leave_columns_out() -> None:
    definition = defined(columns="(n DECIMAL(10, 2) NOT NULL COMMENT 'how many')")

    assert definition.columns == (
        Column(name="Ds", type="string"),
        Column(name="hh", type="varchar(2)"),
        Column(name="n", type="DECIMAL(10, 2)", nullable=False, comment="how many"),
    )
    assert definition.expanded_query == "SELECT * FROM lake.sales.orders"


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("(ds, n)", ["names 2 columns, but its query returns 3"]),
        ("(ds, hh, nope)", ["Column nope of lake.sales.daily is not in its query", "Ds, hh, n"]),
        ("(ds STRING, extra INT)", ["Column extra of lake.sales.daily is not in its query"]),
    ],
)
def test_a_column_list_that_does_not_fit_the_query_is_refused(columns: str, words: list[str]) -> None:
    refusal = refused(DefinitionInvalid, columns=columns)

    assert all(word in refusal for word in words), refusal


def test_a_query_with_two_columns_of_one_name_is_refused() -> None:
    analysed = replace(ANALYSED, columns=(*COLUMNS, Column(name="DS", type="int")))

    assert "two columns of one name" in refused(DefinitionInvalid, analysed=analysed)


# -------------------------------------------------------------------------------------- appending, partitions


def test_only_new_columns_at_the_end_are_appended_and_they_are_nullable() -> None:
    note = Column(name="note", type="string", nullable=False)

    assert check_appended(DAILY_ID, COLUMNS, (*COLUMNS, note)) == (replace(note, nullable=True),)
    assert check_appended(DAILY_ID, COLUMNS, COLUMNS) == ()


def test_an_appended_column_cannot_have_a_name_that_is_taken() -> None:
    with pytest.raises(DefinitionInvalid, match="two columns of one name"):
        check_appended(DAILY_ID, COLUMNS, (*COLUMNS, Column(name="DS", type="string")))


@pytest.mark.parametrize(
    ("clauses", "spec", "key", "value"),
    [
        ("PARTITIONED BY (ds, n)", {"nope": "1"}, "nope", "1"),
        ("PARTITIONED BY (ds, n)", {"n": "1"}, "n", "1"),
        ("PARTITIONED BY (ds)", {"ds": "1", "DS": "2"}, "DS", "2"),
        ("", {"ds": "1"}, "ds", "1"),
    ],
    ids=["no partition column", "no string", "twice", "not partitioned"],
)
def test_a_partition_that_cannot_be_named_is_refused(
    clauses: str, spec: dict[str, str], key: str, value: str
) -> None:
    definition = defined(f"{clauses} {FULL}")

    with pytest.raises(DefinitionInvalid) as raised:
        check_partition_spec(DAILY_ID, definition, spec)

    assert raised.value.facts == {"table": "lake.sales.daily", "key": key, "value": value}


@pytest.mark.parametrize(
    ("clauses", "spec", "text"),
    [
        (
            "PARTITIONED BY (n)",
            {"n": "1"},
            "PARTITION (n = '1'): only string and date partition columns can be named, "
            "but n of lake.sales.daily is BIGINT; refresh the whole table instead.",
        ),
        (
            "PARTITIONED BY (ds)",
            {"ds": "1", "DS": "2"},
            "PARTITION (DS = '2'): Ds of lake.sales.daily is given twice.",
        ),
        (
            "",
            {"ds": "1"},
            "PARTITION (ds = '1'): ds is not a partition column of lake.sales.daily; it is not partitioned.",
        ),
    ],
    ids=["no string", "twice", "not partitioned"],
)
def test_the_refusal_of_a_partition_says_why(clauses: str, spec: dict[str, str], text: str) -> None:
    with pytest.raises(DefinitionInvalid) as raised:
        check_partition_spec(DAILY_ID, defined(f"{clauses} {FULL}"), spec)

    assert raised.value.message == text


def test_the_threshold_and_default_freshness_of_the_session_count() -> None:
    world = ManagerWorld()
    world.context = replace(
        world.context,
        properties={
            "materialized-table.refresh-mode.freshness-threshold": "10 s",
            "materialized-table.default-freshness.full": "2 h",
        },
    )

    world.sql("CREATE MATERIALIZED TABLE quick FRESHNESS = INTERVAL '1' MINUTE AS SELECT * FROM orders")
    world.sql("CREATE MATERIALIZED TABLE slow REFRESH_MODE = FULL AS SELECT * FROM orders")

    assert world.table("quick").definition.refresh_mode is RefreshMode.FULL
    assert world.table("slow").definition.freshness == Freshness(2, "HOUR")


def test_a_value_of_the_session_that_cannot_be_read_is_named() -> None:
    world = ManagerWorld()
    key = "materialized-table.default-freshness.full"
    world.context = replace(world.context, properties={key: "soon"})
    before = world.state()

    refused = world.refused(
        lambda: world.sql("CREATE MATERIALIZED TABLE slow REFRESH_MODE = FULL AS SELECT * FROM orders"),
        ConfigError,
    )

    assert key in refused
    assert "soon" in refused
    assert world.state() == before


def test_a_formatter_finer_than_the_freshness_is_warned_of() -> None:
    world = ManagerWorld()

    fine = world.sql(DAILY.replace("'1' DAY", "'2' DAY"))
    fitting = world.sql(DAILY.replace("TABLE daily", "TABLE fitting"))

    assert "refreshes one partition (ds=" in fine.warnings[0]
    assert fitting.warnings == ()


def test_the_name_of_a_dropped_table_can_be_used_at_once_although_it_left_something() -> None:
    world = ManagerWorld()
    world.sql(DAILY)
    world.work()
    world.engine.failing["drop_storage"] = EngineError("the object store is away")
    assert world.sql("DROP MATERIALIZED TABLE daily").warnings

    world.sql(DAILY)
    world.work()

    assert world.rows() == [{"ds": "2026-03-01", "amount": 1}]
