"""A materialized table over a table that has no rows of its own is refused, with the way out."""

from __future__ import annotations

import pytest

from mt_core.errors import DefinitionInvalid
from mt_core.model.connector_table import ConnectorTable, GeneratedRows
from mt_core.tables.registry import in_transaction
from tests.support.manager_world import WHOLE_TABLE, ManagerWorld


def connector_table(connector: str, *, endless: bool) -> ConnectorTable:
    rows = GeneratedRows(items=("value",), rows_per_second=1)
    return ConnectorTable(
        name="`lake`.`default`.`orders`",
        columns=("`id` INT",),
        clauses="",
        connector=connector,
        query="SELECT 1 AS id",
        unbounded=rows if endless else None,
    )


@pytest.fixture
def world() -> ManagerWorld:
    return ManagerWorld()


@pytest.mark.parametrize(
    ("connector", "endless", "says"),
    [
        (
            "datagen",
            True,
            "lake.default.totals cannot have refresh mode FULL, since lake.default.orders is unbounded and "
            "does not retain its rows: only a streaming job can read it, which is CONTINUOUS. Use "
            "REFRESH_MODE = CONTINUOUS, or a shorter FRESHNESS. Another way: Use a streaming job that stores "
            "the rows (SET 'execution.runtime-mode' = 'streaming', then INSERT INTO an Iceberg table SELECT "
            "… FROM lake.default.orders), and define lake.default.totals on the table that the job writes.",
        ),
        (
            "kafka",
            False,
            "lake.default.totals cannot read lake.default.orders, whose connector 'kafka' is unbounded and "
            "does not retain its rows, which a refresh would have to read. Use a streaming job that stores "
            "the rows (SET 'execution.runtime-mode' = 'streaming', then INSERT INTO an Iceberg table SELECT "
            "… FROM lake.default.orders), and define lake.default.totals on the table that the job writes.",
        ),
        (
            "blackhole",
            False,
            "lake.default.totals cannot read lake.default.orders, whose connector 'blackhole' is a sink; "
            "read another table.",
        ),
    ],
)
def test_a_source_without_rows_of_its_own_is_refused(
    world: ManagerWorld, connector: str, endless: bool, says: str
) -> None:
    in_transaction(
        world.registry, lambda tx: tx.connector_tables.put(connector_table(connector, endless=endless))
    )
    before = world.state()

    text = world.refused(lambda: world.sql(WHOLE_TABLE), DefinitionInvalid)

    assert text == says
    assert world.state() == before


def test_a_source_with_generated_rows_that_end_is_read(world: ManagerWorld) -> None:
    in_transaction(
        world.registry, lambda tx: tx.connector_tables.put(connector_table("datagen", endless=False))
    )

    world.sql(WHOLE_TABLE)

    assert world.table("totals").definition.sources == ("lake.default.orders",)
