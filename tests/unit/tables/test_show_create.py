"""SHOW CREATE MATERIALIZED TABLE gives the statement that makes the same table again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mt_core.base.secrets import is_secret
from mt_core.model.freshness import Freshness
from mt_core.model.table import Column, MaterializedTable, RefreshMode, TableDefinition, TableIdentifier
from mt_core.model.transform import Transform, TransformKind
from mt_core.sql.parser import parse
from mt_core.sql.statements import CreateMaterializedTable
from mt_core.tables.definition.show_create import show_create
from mt_core.tables.definition.table_definition import define
from mt_core.tables.engine import AnalysedQuery
from mt_core.tables.settings import ManagerSettings
from mt_core.tables.table_commands import CommandContext
from tests.support.manager_world import DAILY, START, ManagerWorld

DEFINITION = TableDefinition(
    columns=(
        Column(name="ds", type="STRING", comment="it's a day"),
        Column(name="odd `name`", type="DECIMAL(10,2)"),
        Column(name="n", type="STRUCT<a:INT,b:ARRAY<STRING>>", nullable=False),
    ),
    original_query="SELECT * FROM orders",
    expanded_query="SELECT * FROM lake.sales.orders WHERE note = 'a;b' -- why\nLIMIT 3",
    freshness=Freshness(3, "HOUR"),
    refresh_mode=RefreshMode.FULL,
    logical_refresh_mode="FULL",
    zone="UTC",
    comment="a 'comment' \\ with a back slash",
    partition_keys=("ds",),
    options={"partition.fields.ds.date-formatter": "yyyy-MM-dd'T'", "write.x": "it's"},
    catalog="lake",
    namespace=("sales",),
)


def table_of(definition: TableDefinition) -> MaterializedTable:
    return MaterializedTable(
        table_id="t",
        identifier=TableIdentifier("lake", ("sa`les", "deep"), "daily"),
        definition=definition,
        created_at=START,
        status_at=START,
        location="",
        covered_until=START,
    )


def read_back(text: str, definition: TableDefinition) -> tuple[CreateMaterializedTable, TableDefinition]:
    statement = parse(text)
    assert isinstance(statement, CreateMaterializedTable)
    analysed = AnalysedQuery(columns=definition.columns, expanded_query=definition.expanded_query, sources=())
    context = CommandContext(catalog=definition.catalog, namespace=definition.namespace)
    identifier = TableIdentifier("lake", ("sa`les", "deep"), "daily")
    again = define(
        statement, analysed, identifier=identifier, context=context, settings=ManagerSettings(owner="t")
    )
    return statement, again


@pytest.mark.parametrize("or_alter", [False, True])
@pytest.mark.parametrize(
    "definition",
    [
        DEFINITION,
        replace(DEFINITION, comment=None, partition_keys=(), options={}),
        replace(DEFINITION, comment="", columns=(Column(name="ds", type="STRING"),)),
        replace(DEFINITION, logical_refresh_mode="AUTOMATIC"),
        replace(
            DEFINITION,
            transforms=(
                Transform(kind=TransformKind.BUCKET, column="odd `name`", width=4),
                Transform(kind=TransformKind.TRUNCATE, column="ds", width=7),
                Transform(kind=TransformKind.DAYS, column="n"),
            ),
        ),
    ],
)
def test_the_statement_read_back_gives_the_same_definition(
    definition: TableDefinition, or_alter: bool
) -> None:
    statement, again = read_back(show_create(table_of(definition), or_alter=or_alter), definition)

    assert statement.or_alter is or_alter
    assert statement.name == ("lake", "sa`les", "deep", "daily")
    types = {column.name: column.type for column in definition.columns}
    assert again == replace(
        definition, original_query=definition.expanded_query, logical_refresh_mode="FULL", query_types=types
    )


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=12)


# The values of secret ones are masked.
keys = st.from_regex("write\\.[a-z']{1,6}", fullmatch=True).filter(lambda key: not is_secret(key))


@settings(max_examples=60, deadline=None)
@given(comment=st.none() | texts, value=texts, key=keys, column=texts)
def test_any_text_survives_being_quoted(comment: str | None, value: str, key: str, column: str) -> None:
    columns = (Column(name=column or "c", type="STRING", comment=comment),)
    definition = replace(
        DEFINITION, columns=columns, partition_keys=(), options={key: value}, comment=comment
    )

    _, again = read_back(show_create(table_of(definition), or_alter=False), definition)

    assert (again.columns, again.options, again.comment) == (columns, {key: value}, comment)


def test_the_values_of_secret_options_are_masked() -> None:
    secrets = (
        "jdbc.password",
        "s3.SECRET-key",
        "access_token",
        "write.s3.access-key",
        "x.account.key",
        "passphrase",
    )
    url = {"write.uri": "jdbc:postgresql://u:hunter2@h/db"}
    options = {**dict.fromkeys(secrets, "hunter2"), **url, "write.x": "y"}

    shown = show_create(table_of(replace(DEFINITION, options=options)), or_alter=False)

    assert "hunter" not in shown
    assert shown.count("'***'") == len(secrets)
    assert "'write.x' = 'y'" in shown


def test_the_statement_of_a_table_makes_an_equal_table_under_another_name(world: ManagerWorld) -> None:
    world.sql(DAILY)
    ((text,),) = (tuple(row.values()) for row in world.show("SHOW CREATE MATERIALIZED TABLE daily"))

    world.sql(str(text).replace("`daily`", "`copy`"))
    world.work()

    one, other = world.table().definition, world.table("copy").definition
    lowered = tuple(replace(column, type=column.type.lower()) for column in other.columns)
    assert replace(other, columns=lowered, original_query=one.original_query) == one
    assert world.rows("copy") == world.rows()


def test_the_statement_of_a_table_as_create_or_alter_changes_nothing_of_it(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work()
    ((text,),) = (tuple(row.values()) for row in world.show("SHOW CREATE OR ALTER MATERIALIZED TABLE daily"))
    before = world.table()

    world.sql(str(text))

    after = world.table()
    assert replace(after.definition, original_query=before.definition.original_query) == before.definition
    assert after.rebuild_due is None
    assert len(world.runs()) == 1
