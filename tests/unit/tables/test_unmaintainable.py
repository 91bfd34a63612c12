"""'refresh.strategy' = 'incremental' for a query whose sources' changes cannot be applied."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mt_core.errors import DefinitionInvalid
from mt_core.incremental.shape import Occurrence, Reach
from mt_core.model.table import Column
from tests.support.fake_tables import shape_of_columns
from tests.support.manager_world import ManagerWorld

INCREMENTAL = (
    "WITH ('refresh.strategy' = 'incremental') FRESHNESS = INTERVAL '1' HOUR REFRESH_MODE = FULL "
    "AS SELECT * FROM orders"
)
CREATE = f"CREATE MATERIALIZED TABLE totals {INCREMENTAL}"
PROJECTION = shape_of_columns((Column(name="ds", type="string"), Column(name="amount", type="int")))
# What a window over everything makes of a query.
UNDIVIDED = replace(
    PROJECTION,
    occurrences={0: Occurrence(reach=Reach.NONE, reason="a window function is above it")},
    lineage=({}, {}),
    keys=(),
    rows="a window is in the query",
)


def test_create_refuses_it_with_the_reason_and_the_way_out() -> None:
    world = ManagerWorld()
    world.engine.shape = UNDIVIDED
    before = world.state()

    with pytest.raises(DefinitionInvalid) as caught:
        world.sql(CREATE)

    assert str(caught.value) == (
        "Option refresh.strategy of lake.default.totals cannot be 'incremental', "
        "since no change of a source could be applied: no column divides the result by the changed rows: "
        "lake.default.orders: a window function is above it; no stages: it has no aggregate. "
        "Use 'auto' or 'full', which compute all rows."
    )
    assert caught.value.facts == {
        "table": "lake.default.totals",
        "key": "refresh.strategy",
        "value": "incremental",
    }
    assert world.state() == before


@pytest.mark.parametrize("strategy", ["auto", "full"])
def test_the_other_strategies_take_any_query(strategy: str) -> None:
    world = ManagerWorld()
    world.engine.shape = UNDIVIDED

    world.sql(CREATE.replace("incremental", strategy))

    assert world.table("totals").definition.options["refresh.strategy"] == strategy


@pytest.mark.parametrize(
    "obstacle", ["the query is not stable: it uses current_date", "source lake.default.files has no versions"]
)
def test_create_refuses_a_query_whose_changes_cannot_be_known(obstacle: str) -> None:
    world = ManagerWorld()
    world.engine.shape = obstacle

    message = world.refused(lambda: world.sql(CREATE), DefinitionInvalid)

    assert f"could be applied: {obstacle}. Use" in message


def test_create_refuses_it_where_each_schedule_time_refreshes_partitions() -> None:
    world = ManagerWorld()
    formatted = CREATE.replace(
        "WITH (", "PARTITIONED BY (ds) WITH ('partition.fields.ds.date-formatter' = 'yyyy-MM-dd', "
    )

    message = world.refused(lambda: world.sql(formatted), DefinitionInvalid)

    assert "each schedule time refreshes the partitions of its date-formatters" in message


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE OR ALTER MATERIALIZED TABLE totals {INCREMENTAL}",
        "ALTER MATERIALIZED TABLE totals AS SELECT * FROM orders",
    ],
)
def test_a_change_of_the_definition_refuses_it_and_changes_nothing(statement: str) -> None:
    world = ManagerWorld()
    world.sql(CREATE)
    world.work()
    world.engine.shape = UNDIVIDED
    before = world.state()

    message = world.refused(lambda: world.sql(statement), DefinitionInvalid)

    assert message.startswith("Option refresh.strategy of lake.default.totals cannot be 'incremental'")
    assert world.state() == before


def test_a_query_that_keeps_some_changes_is_accepted() -> None:
    world = ManagerWorld()
    world.engine.shape = replace(
        PROJECTION, occurrences={0: Occurrence(reach=Reach.GROUPED, reason="an aggregate is above it")}
    )

    world.sql(CREATE)

    assert world.table("totals").definition.options["refresh.strategy"] == "incremental"
