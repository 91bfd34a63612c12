"""DROP of a table that other materialized tables read: they are named, keep it, or are dropped with it."""

from __future__ import annotations

import pytest

from mt_core.errors import TableBusy
from tests.support.manager_world import WHOLE_TABLE, ManagerWorld


def named(name: str, source: str) -> str:
    return WHOLE_TABLE.replace("totals", name).replace("orders", source)


@pytest.fixture
def world() -> ManagerWorld:
    """A chain: base is read by middle, middle by top, and another table reads none of them."""
    made = ManagerWorld()
    made.sql(named("base", "orders"))
    for name, source in (("middle", "base"), ("top", "middle")):
        made.engine.create_source(f"lake.default.{source}", [{"ds": "2026-03-01", "amount": 1}])
        made.sql(named(name, source))
    made.sql(named("other", "orders"))
    return made


@pytest.fixture(params=["refreshed", "never refreshed"])
def chain(world: ManagerWorld, request: pytest.FixtureRequest) -> ManagerWorld:
    if request.param == "refreshed":
        world.work()
    return world


def tables(world: ManagerWorld) -> list[object]:
    return [row["materialized table"] for row in world.show("SHOW MATERIALIZED TABLES")]


def test_drop_of_a_table_that_others_read_warns_naming_them(chain: ManagerWorld) -> None:
    outcome = chain.sql("DROP MATERIALIZED TABLE base")

    assert outcome.warnings == (
        "lake.default.base is read by lake.default.middle; their refreshes fail until it is recreated.",
    )
    assert tables(chain) == ["middle", "other", "top"]


def test_drop_of_a_table_that_nobody_reads_warns_of_nothing(chain: ManagerWorld) -> None:
    assert chain.sql("DROP MATERIALIZED TABLE top RESTRICT").warnings == ()


def test_restrict_keeps_a_table_that_others_read(chain: ManagerWorld) -> None:
    before = chain.state()

    text = chain.refused(lambda: chain.sql("DROP MATERIALIZED TABLE base RESTRICT"), TableBusy)

    assert text == (
        "lake.default.base is read by lake.default.middle; DROP them first, or use CASCADE, "
        "which drops them too."
    )
    assert chain.state() == before


def test_cascade_drops_all_that_read_the_table_even_through_others(chain: ManagerWorld) -> None:
    outcome = chain.sql("DROP MATERIALIZED TABLE base CASCADE")

    assert outcome.warnings == ()
    assert tables(chain) == ["other"]


def test_restrict_keeps_a_table_whose_readers_cannot_be_analysed_while_spark_is_away(
    world: ManagerWorld,
) -> None:
    before = world.state()
    world.engine.away = True

    text = world.refused(lambda: world.sql("DROP MATERIALIZED TABLE base RESTRICT"), TableBusy)

    world.engine.away = False
    assert text.startswith("lake.default.base is read by lake.default.middle;")
    assert world.state() == before


def test_an_altered_table_reads_what_its_query_says_now(world: ManagerWorld) -> None:
    world.work()
    world.sql("ALTER MATERIALIZED TABLE other AS SELECT ds, amount FROM lake.default.base")

    text = world.refused(lambda: world.sql("DROP MATERIALIZED TABLE base RESTRICT"), TableBusy)

    assert text.startswith("lake.default.base is read by lake.default.middle, lake.default.other;")


def test_a_reader_whose_query_cannot_be_read_any_more_keeps_nobody_from_dropping(world: ManagerWorld) -> None:
    del world.engine.sources["lake.default.base"]

    assert world.sql("DROP MATERIALIZED TABLE other RESTRICT").warnings == ()
