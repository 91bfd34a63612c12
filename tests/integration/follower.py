"""A world whose tables of refresh mode CONTINUOUS are kept by a look-out in the calling thread."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mt_core.model.run import RunKind, RunStatus
from mt_core.tables.continuous.source_watcher import SourceWatcher
from mt_core.tables.registry import in_transaction
from tests.integration.refresh_world import RefreshWorld


class Follower:
    """A world whose look-out works in the calling thread; `step` lets ten seconds pass."""

    def __init__(self, world: RefreshWorld) -> None:
        self.world = world
        self.lookout = SourceWatcher(world.services, submit=lambda work: work())
        world.spark("CREATE TABLE orders (city STRING, amount INT) USING iceberg")
        world.spark("INSERT INTO orders VALUES ('Rome', 1), ('Rome', 2), ('Oslo', 3), (NULL, 4)")

    def follow(self, name: str, query: str, *, strategy: str = "incremental", options: str = "") -> None:
        """Create a continuous table, filled."""
        given = ", ".join(filter(None, (f"'refresh.strategy' = '{strategy}'", options)))
        clauses = f"WITH ({given}) FRESHNESS = INTERVAL '10' SECOND"
        self.world.sql(f"CREATE MATERIALIZED TABLE {name} {clauses} AS {query}")
        self.world.work()

    def step(self, *statements: str) -> None:
        self.world.spark(*statements)
        for _ in range(4):
            self.world.clock.advance(timedelta(seconds=5))
            self.lookout.poll()

    def strategies(self, name: str) -> list[str]:
        """Return how the batches of a table were published, oldest first."""
        table_id = self.world.table(name).table_id
        runs = in_transaction(self.world.registry, lambda tx: list(tx.runs.newest(table_id=table_id)))
        stretches = [run for run in reversed(runs) if run.kind is RunKind.CONTINUOUS]
        assert {run.status for run in stretches} <= {
            RunStatus.SUCCEEDED,
            RunStatus.RUNNING,
            RunStatus.SKIPPED,
        }, runs
        return [batch.strategy for run in stretches for batch in run.recent]

    def differences(self, *names: str) -> dict[str, object]:
        """Return how tables differ from their queries at the versions that they name,
        none for those that do not.
        """
        found = {}
        for name in names:
            rows = self.world.sql(f"VERIFY MATERIALIZED TABLE {name}").rows
            assert rows is not None
            if differing := rows.page(0, 10):
                found[name] = differing
        return found


@pytest.fixture
def follower(world: RefreshWorld) -> Follower:
    return Follower(world)
