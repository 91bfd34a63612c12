from __future__ import annotations

from dataclasses import replace

import pytest

from mt_core.errors import QueryFailed
from mt_core.model.run import RunStatus
from mt_core.model.table import Column, TableIdentifier
from mt_core.tables.definition.shape import is_exact, stored_order, with_way_out
from tests.support.manager_world import ManagerWorld

TABLE = TableIdentifier("lake", ("default",), "mt")


def columns(**types: str) -> tuple[Column, ...]:
    return tuple(Column(name=name, type=type_name) for name, type_name in types.items())


def refused(
    produced: tuple[Column, ...], stored: tuple[Column, ...], types: dict[str, str] | None = None
) -> str:
    with pytest.raises(QueryFailed) as raised:
        stored_order(TABLE, produced, stored, types or {})
    assert raised.value.error_class == "COLUMNS_CHANGED"
    return str(raised.value)


# ---------------------------------------------------------------------------------------------------- by name


def test_columns_go_by_name_whatever_their_order_and_case() -> None:
    names = stored_order(TABLE, columns(B="string", a="int"), columns(a="int", b="string"), {})

    assert names == ("a", "B")


def test_a_column_that_is_gone_or_new_is_named_with_the_way_out() -> None:
    gone = refused(columns(a="int"), columns(a="int", city="string"))
    new = refused(columns(a="int", zip="string"), columns(a="int"))

    assert "the query no longer returns city" in gone
    assert "the query also returns zip, which the table does not have" in new
    assert all("ALTER MATERIALIZED TABLE lake.default.mt AS …" in text for text in (gone, new))


def test_two_columns_of_one_name_are_refused() -> None:
    twice = (Column(name="a", type="int"), Column(name="A", type="int"))

    assert "two columns of one name (a, A)" in refused(twice, columns(a="int"))


# ------------------------------------------------------------------------------------------------------ types


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("int", "bigint"), ("tinyint", "int"), ("int", "decimal(10,0)"), ("bigint", "decimal(21,2)"),
        ("decimal(10,2)", "decimal(12,4)"), ("float", "double"), ("varchar(3)", "string"), ("DATE", "date"),
    ],
)  # fmt: skip
def test_a_type_whose_values_all_fit_is_taken(source: str, target: str) -> None:
    assert is_exact(source, target)
    assert not is_exact(target, source) or source.lower() == target.lower()


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("int", "string"), ("bigint", "int"), ("decimal(10,2)", "decimal(11,1)"),
        ("decimal(10,2)", "decimal(10,4)"), ("decimal(3,0)", "int"), ("bigint", "double"),
        ("date", "timestamp"), ("string", "date"), ("double", "decimal(38,18)"),
        ("array<int>", "array<bigint>"), ("bigint", "decimal(18,0)"),
    ],
)  # fmt: skip
def test_a_type_that_would_be_converted_is_refused(source: str, target: str) -> None:
    text = refused(columns(a=source), columns(a=target), {"a": target})

    assert f"column a is {source.upper()} now and was {target.upper()}" in text
    assert "with a CAST" in text


def test_the_type_a_query_was_defined_with_is_taken_even_if_it_is_converted() -> None:
    assert stored_order(TABLE, columns(a="bigint"), columns(a="int"), {"a": "bigint"}) == ("a",)


# ------------------------------------------------------------------------------------------ a refreshed table


@pytest.fixture
def world() -> ManagerWorld:
    world = ManagerWorld()
    world.engine.create_source("lake.default.cust", [{"id": 1, "city": "Rome", "note": "n1"}])
    world.sql(
        "CREATE MATERIALIZED TABLE mt FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS SELECT * FROM cust"
    )
    world.work()
    return world


def refresh(world: ManagerWorld) -> None:
    world.sql("ALTER MATERIALIZED TABLE mt REFRESH")
    world.work()


def test_a_star_stays_what_it_meant_when_the_source_gets_or_moves_columns(world: ManagerWorld) -> None:
    cust = world.engine.sources["lake.default.cust"]
    cust.columns = (Column(name="zip", type="string"), *reversed(cust.columns))
    world.engine.commit("lake.default.cust", [{"zip": "z", "note": "n2", "city": "Oslo", "id": 2}])

    refresh(world)

    assert world.runs("mt")[-1].status is RunStatus.SUCCEEDED
    assert world.rows("mt") == [{"id": 2, "city": "Oslo", "note": "n2"}]


def test_a_source_without_the_column_any_more_fails_the_refresh_with_the_way_out(world: ManagerWorld) -> None:
    cust = world.engine.sources["lake.default.cust"]
    cust.columns = tuple(column for column in cust.columns if column.name != "city")
    world.engine.commit("lake.default.cust", [{"id": 2, "note": "n2"}])

    refresh(world)

    run = world.runs("mt")[-1]
    assert run.status is RunStatus.FAILED
    assert "city" in (run.error or "")
    assert "ALTER MATERIALIZED TABLE lake.default.mt AS …" in (run.error or "")
    assert world.rows("mt") == [{"id": 1, "city": "Rome", "note": "n1"}]


def test_a_source_whose_column_is_of_another_type_fails_the_refresh_for_good_with_the_way_out(
    world: ManagerWorld,
) -> None:
    cust = world.engine.sources["lake.default.cust"]
    cust.columns = tuple(replace(column, type="string") for column in cust.columns)
    world.engine.commit("lake.default.cust", [{"id": "x", "city": "Oslo", "note": "n2"}])

    refresh(world)

    run = world.runs("mt")[-1]
    assert (run.status, run.broken, world.rows("mt")[0]["id"]) == (RunStatus.FAILED, True, 1)
    assert "column id is STRING now and was INT" in (run.error or "")


def test_the_error_of_a_missing_source_says_what_to_do_and_not_how_names_are_spelt() -> None:
    error = QueryFailed(
        "[TABLE_OR_VIEW_NOT_FOUND] The table or view `lake`.`s`.`t` cannot be found. "
        "Verify the spelling and correctness of the schema and catalog. "
        "To tolerate the error on drop use DROP VIEW IF EXISTS. SQLSTATE: 42P01",
        error_class="TABLE_OR_VIEW_NOT_FOUND",
        line=1,
        position=143,
    )

    assert with_way_out(error, TableIdentifier("lake", ("s",), "mt")) == (
        "[TABLE_OR_VIEW_NOT_FOUND] The table or view `lake`.`s`.`t` cannot be found. The query of lake.s.mt "
        "reads it, directly or through a view: recreate it, or give the table another query with "
        "ALTER MATERIALIZED TABLE lake.s.mt AS …; if lake.s.mt is SUSPENDED by then, RESUME it."
    )
