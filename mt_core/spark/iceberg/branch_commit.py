"""Branch commits: the next snapshot of a branch, of files that the driver wrote; one that a publish is to add is held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.iceberg.manifests import has_few_manifests, this_thread


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
        if not removes or has_few_manifests(self.session, self.table.currentSnapshot()):
            update.scanManifestsWith(this_thread(self.session))
        if self.holds:
            self.held = update.apply()
        else:
            update.commit()
