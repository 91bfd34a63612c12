"""Refreshes whose states have tables: what they keep over commits of others, rollbacks and lost publishes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mt_core.model.run import RefreshRun, RunStatus
from tests.integration.maintained_world import INCREMENTAL
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

QUERY = (
    "SELECT c.segment, avg(o.amount) AS average, count(*) AS n FROM o JOIN c ON o.customer = c.id "
    "GROUP BY c.segment HAVING count(*) > 1"
)


class Story:
    """`mt` over two sources; none of its states is tiny."""

    def __init__(self, world: RefreshWorld) -> None:
        self.world, self.name = world, f"lake.{world.namespace}.mt"
        world.spark(
            "CREATE TABLE o (id BIGINT, customer BIGINT, amount DECIMAL(12,2)) USING iceberg",
            "CREATE TABLE c (id BIGINT, segment STRING) USING iceberg",
            "INSERT INTO o SELECT id, id % 50, id * 1.13 FROM range(500)",
            "INSERT INTO c SELECT id, concat('s', id % 7) FROM range(50)",
        )
        created = world.create("mt", QUERY, clauses=INCREMENTAL)
        assert created.status is RunStatus.SUCCEEDED, created.error

    def change(self, *, before: str = "", do: Callable[[], object] | None = None) -> RefreshRun:
        """Change both sources and refresh; *do* happens once, before the step *before*."""
        self.world.spark(
            "INSERT INTO o SELECT max(id) + 1, 3, 7.77 FROM o", "UPDATE c SET segment = 's1' WHERE id = 9"
        )
        run_id = self.world.request_tick("mt", self.world.next_point())
        self.world.work(before=before, do=do)
        run = self.world.run(run_id)
        assert (self.world.rows("mt"), run.error) == (self.world.plain(QUERY), None)
        return run

    def states(self) -> list[str]:
        """Return the state tables of the namespace."""
        shown = self.world.session.sql(f"SHOW TABLES IN lake.{self.world.namespace}").collect()
        return [row.tableName for row in shown if row.tableName.startswith("_freshtable_state_")]

    def snapshots(self) -> int:
        """Return the number of snapshots of the only state table."""
        [name] = self.states()
        return self.world.session.table(f"lake.{self.world.namespace}.{name}.snapshots").count()

    def main(self) -> str:
        return str(self.world.engine.metadata.load(self.world.table("mt").identifier).main)


@pytest.fixture
def story(world: RefreshWorld, monkeypatch: pytest.MonkeyPatch) -> Story:
    monkeypatch.setattr("mt_core.spark.states.tiny_states.MOST_TINY", 0)
    return Story(world)


def test_each_refresh_adds_to_the_state_and_dropping_the_table_drops_it(story: Story) -> None:
    ways = [story.change().strategy for _ in range(3)]

    assert (ways, len(story.states()), story.snapshots()) == (["stages"] * 3, 1, 4)
    story.world.sql("DROP MATERIALIZED TABLE mt")
    assert story.states() == []


def test_states_outlive_a_compaction_by_hand_and_a_rollback(story: Story) -> None:
    story.change()
    before = story.main()
    story.change()

    story.world.spark(
        f"CALL lake.system.rewrite_data_files(table => '{story.world.namespace}.mt', "
        "options => map('rewrite-all', 'true'))"
    )
    compacted = story.change().strategy
    story.world.spark(f"CALL lake.system.rollback_to_snapshot('{story.world.namespace}.mt', {before})")
    rolled_back = story.change().strategy

    assert (compacted, rolled_back) == ("stages", "stages")
    assert story.change().strategy == "stages"


def test_a_publish_that_meets_rows_of_another_writer_leaves_no_state_that_is_read(story: Story) -> None:
    foreign = f"INSERT INTO {story.name} VALUES ('x', 1, 1)"

    met = story.change(before="publish: commit", do=lambda: story.world.spark(foreign))
    after = [story.change().strategy for _ in range(2)]

    assert (met.strategy, after) == ("recompute", ["stages"] * 2)
    assert story.snapshots() == 5


def test_a_state_that_was_dropped_is_computed_again(story: Story) -> None:
    [name] = story.states()
    story.world.spark(f"DROP TABLE lake.{story.world.namespace}.{name}")

    lost, again = story.change(), story.change()

    assert (lost.strategy, again.strategy) == ("recompute", "stages")
    assert story.states() == [name]
