"""Branch commits: the next snapshot of a branch, of files that the driver wrote; one that a publish is to add is held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import static_member, text_map

MOST_MANIFESTS = 16
"""Manifests of a table up to which one thread looks for files that go in less time than Iceberg's threads take to begin."""
_THIS_THREAD = "org.apache.iceberg.relocated.com.google.common.util.concurrent.MoreExecutors.newDirectExecutorService"


@dataclass(slots=True, kw_only=True)
class BranchCommit:
    """One commit to *branch* of Iceberg's *table*, whose snapshot has *summary*.

    `holds`: nothing is committed. `held` is then Iceberg's form of the snapshot, which can be added to the metadata that *table*
    has afterwards, and to no other: its place in the order of all snapshots is the next one there.
    """

    session: SparkSession
    table: Any
    branch: str
    summary: Mapping[str, str]
    holds: bool = False
    held: Any | None = None

    def make(self, update: Any, *, removes: bool = False) -> None:
        """Carry out *update*, which Iceberg's table has begun and which has all its files; it *removes* some, or only adds."""
        update.toBranch(self.branch)
        for key, value in self.summary.items():
            update.set(key, value)
        # Whoever waits for another thread sees up to 10 ms later that it is done, four times in a commit.
        if not removes or self._has_few_manifests():
            update.scanManifestsWith(static_member(self.session, _THIS_THREAD)())
        if self.holds:
            self.held = update.apply()
        else:
            update.commit()

    def _has_few_manifests(self) -> bool:
        snapshot = self.table.currentSnapshot()
        summary = {} if snapshot is None else text_map(self.session, snapshot.summary())
        found = [summary.get(f"manifests-{which}") for which in ("kept", "created")]
        return None not in found and sum(int(each or 0) for each in found) <= MOST_MANIFESTS
