"""Compactions beside batches whose Spark is killed: no row is lost,
and the next compaction is carried out.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Lock, Timer
from typing import Any

import pytest

from mt_core.model.run import RunKind
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.tables.continuous import continuous_run
from mt_core.tables.continuous.source_watcher import SourceWatcher
from mt_core.tables.registry import in_transaction
from tests.integration.follower import Follower
from tests.integration.refresh_world import RefreshWorld
from tests.support.gateway.own_process import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

START_S = 180.0
WRITING_S = 0.5
"""After what time Spark is killed while it writes files."""
QUERY = "SELECT city, avg(amount) AS mean FROM orders GROUP BY city"


class Compacted:
    """A continuous table that is compacted beside its batches when a test says so,
    and whose Spark can be killed meanwhile.
    """

    def __init__(self, driver: SparkDriver, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(continuous_run, "COMPACT_BATCHES", 1)
        self.driver, self.follower = driver, Follower(RefreshWorld(driver))
        self.world, self.number, self._waiting = self.follower.world, 0, list[Callable[[], None]]()
        settings = replace(self.world.services.settings, compact_delete_files=2)
        services = replace(self.world.services, settings=settings)
        self.follower.lookout = SourceWatcher(
            services, submit=lambda work: work(), beside=self._waiting.append
        )
        self.world.spark("INSERT INTO orders SELECT uuid(), CAST(id AS INT) FROM range(20000)")
        self.follower.follow("totals", QUERY, options="'write.upsert' = 'equality-delete'")
        housekeeping = self.world.engine.housekeeping
        for name in ("rewrite_files", "restage"):
            monkeypatch.setattr(housekeeping, name, self._watched(getattr(housekeeping, name)))
        self.when, self._lost, self._killing = "", 0, Lock()

    def batch(self) -> None:
        self.number += 1
        self.follower.step(f"INSERT INTO orders VALUES ('Rome', {self.number}), ('Bern {self.number}', 1)")

    def compact(self, *, killed: str = "") -> None:
        """Carry out what the batches have asked for; Spark is *killed* after that step, or in it."""
        asked, self.when = self._waiting.pop(), killed
        self._waiting.clear()
        asked()
        if killed:
            wait_until(lambda: not self.when, f"the compaction did not come to {killed}")
            self.go_on()

    def branches(self) -> set[str]:
        return {
            row[0]
            for row in self.world.plain(f"SELECT name FROM {self.world.table('totals').identifier.sql}.refs")
        }  # type: ignore[misc]

    def check(self) -> None:
        assert self.world.rows("totals") == self.world.plain(QUERY)

    def compactions(self) -> int:
        table_id, kinds = self.world.table("totals").table_id, [RunKind.COMPACTION]
        return len(
            in_transaction(
                self.world.registry, lambda tx: list(tx.runs.newest(table_id=table_id, kinds=kinds))
            )
        )

    def _watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any) -> Any:
            writes, is_last = call.__name__ == "rewrite_files", call.__name__ == self.when
            timer = Timer(WRITING_S, self._kill)
            if writes and is_last:
                timer.start()
            answer = call(*args)
            timer.cancel()
            if is_last:
                self._kill()
            elif writes:
                # So the compaction has to be committed once more.
                self.batch()
            return answer

        return watched

    def _kill(self) -> None:
        with self._killing:
            if self.when:
                assert self.driver.pid is not None
                self.when, self._lost = "", self.driver.generation
                os.kill(self.driver.pid, signal.SIGKILL)

    def go_on(self) -> None:
        """Wait for the next Spark."""
        wait_until(lambda: self.driver.generation > self._lost and self.driver.answers(), "no Spark", START_S)
        self.world.session = self.driver.new_session()
        self.world.session.conf.set("spark.sql.session.timeZone", "UTC")
        self.world.session.sql(f"USE lake.{self.world.namespace}")


# While it writes files, and after it has staged them again over a batch that came meanwhile.
@pytest.mark.parametrize("step", [pytest.param("rewrite_files", marks=pytest.mark.kills), "restage"])
def test_batches_go_on_after_spark_was_killed_in_any_step_of_a_compaction(
    spark_driver: SparkDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    compacted = Compacted(spark_driver, tmp_path, monkeypatch)
    for _ in range(3):
        compacted.batch()

    compacted.compact(killed=step)

    compacted.check()
    compacted.batch()
    compacted.check()
    assert compacted.compactions() == 0
    compacted.compact()
    assert compacted.compactions() == 1
    compacted.check()
    assert compacted.branches() == {"main"}
