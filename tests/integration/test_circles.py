"""Circles of materialized tables and views, on real Spark."""

from __future__ import annotations

import pytest

from mt_core.errors import DefinitionInvalid
from mt_core.model.run import RunStatus
from mt_core.tables.refresh.outcome import CAUSE_LENGTH
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def layers(world: RefreshWorld) -> RefreshWorld:
    """The table `below` reads the view `shown` of `orders`, and the table `above` reads `below`."""
    world.spark(
        "CREATE TABLE orders (k INT, v STRING) USING iceberg",
        "INSERT INTO orders VALUES (1, 'a')",
        "CREATE VIEW shown AS SELECT * FROM orders",
    )
    world.create("below", "SELECT k + 1 AS k, v FROM shown")
    world.create("above", "SELECT * FROM below")
    world.spark("CREATE VIEW outer_view AS SELECT k, v FROM above WHERE k > 0")
    return world


def test_a_circle_through_a_view_is_refused_by_create_and_alter_naming_each_step(
    layers: RefreshWorld,
) -> None:
    namespace = f"lake.{layers.namespace}"

    altered = layers.refused(
        "ALTER MATERIALIZED TABLE below AS WITH o AS (SELECT * FROM outer_view) SELECT k, v "
        "FROM o UNION TABLE orders",
        DefinitionInvalid,
    )
    layers.sql("DROP MATERIALIZED TABLE below")
    # In the place of the table, so that the query of `above` has a meaning.
    layers.spark("CREATE VIEW below AS SELECT * FROM orders")
    again = layers.refused(
        "ALTER MATERIALIZED TABLE above AS SELECT o.k, o.v FROM outer_view o JOIN below USING (k)",
        DefinitionInvalid,
    )
    layers.spark("DROP VIEW below")
    created = layers.refused(
        "CREATE MATERIALIZED TABLE below REFRESH_MODE = FULL AS SELECT * FROM outer_view", DefinitionInvalid
    )

    path = f"{namespace}.below reads {namespace}.outer_view reads {namespace}.above reads {namespace}.below;"
    assert path in altered
    assert f"{namespace}.above reads {namespace}.outer_view reads {namespace}.above;" in again
    assert path in created


def test_a_refresh_fails_naming_the_circle_that_a_replaced_view_has_closed(layers: RefreshWorld) -> None:
    before, namespace = layers.rows("below"), f"lake.{layers.namespace}"
    layers.spark("CREATE OR REPLACE VIEW shown AS SELECT * FROM outer_view")

    failed, above = layers.tick("below"), layers.tick("above", layers.clock.now())
    layers.spark("CREATE OR REPLACE VIEW shown AS SELECT 5 AS k, v FROM orders")
    again = layers.tick("below")

    assert (failed.status, failed.broken, above.status) == (RunStatus.FAILED, True, RunStatus.SKIPPED)
    assert (
        f"{namespace}.below would read itself: {namespace}.below reads {namespace}.shown reads "
        f"{namespace}.outer_view reads {namespace}.above reads {namespace}.below;"
    ) in (failed.error or "")
    assert before == [(2, "a")]
    assert (again.status, layers.rows("below")) == (RunStatus.SUCCEEDED, [(6, "a")])


def test_a_refresh_says_that_a_view_may_read_itself(layers: RefreshWorld) -> None:
    # Iceberg compares the name as it is written, and so does not see that this one is the view's own.
    layers.spark("CREATE OR REPLACE VIEW shown AS SELECT * FROM shown")

    run = layers.tick("below")

    assert (run.status, run.error) == (
        RunStatus.FAILED, "The query is nested too deeply for Spark, or one of its views reads itself.",
    )  # fmt: skip
    assert len(run.cause or "") <= CAUSE_LENGTH
    assert layers.rows("below") == [(2, "a")]
