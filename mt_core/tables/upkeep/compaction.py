"""Compaction: small files of a storage table, and those with deletes, become few large ones; its rows stay.

It takes no claim and delays nobody (docs/decisions/0035-compaction.md). The files are written on a branch, which the next
refresh that opens the table drops, and published by compare-and-set while main is what it was: a compaction that meets a
refresh is given up.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime

from mt_core.errors import CommitConflict, CommitUnknown, EngineError, EngineUnavailable, MtError
from mt_core.model.partition import WHOLE
from mt_core.model.run import RefreshRun, RunKind, RunStatus
from mt_core.model.storage import run_branch, run_branches
from mt_core.model.table import MaterializedTable
from mt_core.tables.engine import Fragments, MetadataChange, Rewrite, Staged, StorageMetadata
from mt_core.tables.refresh.attempt import MAX_CONFLICTS
from mt_core.tables.registry import in_transaction
from mt_core.tables.services import TableServices
from mt_core.tables.settings import ManagerSettings

COMPACTED = "compact"
log = logging.getLogger(__name__)


def compact(services: TableServices, table: MaterializedTable, *, holds: str | None = None) -> RefreshRun | None:
    """Compact *table* if it has too many small or delete files, and return the row of the ledger; None if nothing was done.

    *holds* is the branch of the caller, who has the table open and writes nothing meanwhile. Raises EngineUnavailable.
    """
    try:
        metadata = services.engine.load(table.identifier)
        if set(run_branches(metadata.branches)) - {holds} or not _may_have_many(services, metadata):
            return None
        fragments = services.engine.fragments(table.identifier)
        if not _are_many(services.settings, fragments.small_files, fragments.delete_files):
            return None
        return _Compaction(services=services, table=table, metadata=metadata, fragments=fragments).carry_out()
    except EngineUnavailable:
        raise
    except MtError as error:
        log.warning("compaction of %s failed: %s", table.identifier, error, extra={"action": "compaction_failed"})
        return None


def _may_have_many(services: TableServices, metadata: StorageMetadata) -> bool:
    """Whether the summary of main lets the files be worth counting."""
    newest = next(iter(services.engine.ancestors(metadata)), None)
    return newest is not None and _are_many(services.settings, newest.data_files, newest.delete_files)


def _are_many(settings: ManagerSettings, small_files: int, delete_files: int) -> bool:
    limits = ((small_files, settings.compact_small_files), (delete_files, settings.compact_delete_files))
    return any(limit and number > limit for number, limit in limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compaction:
    """One compaction of main as *metadata* has it."""

    services: TableServices
    table: MaterializedTable
    metadata: StorageMetadata
    fragments: Fragments

    def carry_out(self) -> RefreshRun | None:
        services, identifier = self.services, self.table.identifier
        run_id, began = services.new_id(), services.clock.now()
        branch = run_branch(run_id, 1)
        try:
            services.engine.swap(identifier, self.metadata, MetadataChange(branch=branch))
        except CommitConflict:
            return None
        published = False
        try:
            staged = services.engine.rewrite_files(
                Rewrite(job_id=run_id.replace("-", ""), table=identifier, branch=branch)
            )
            published = staged.snapshot.snapshot_id != self.metadata.main and self._publish(branch, staged)
        except EngineError:
            if branch in services.engine.load(identifier).branches:
                raise
            return None
        finally:
            if not published:
                self._drop(branch)
        return self._recorded(run_id, began, staged) if published else None

    def _recorded(self, run_id: str, began: datetime, staged: Staged) -> RefreshRun:
        files = staged.snapshot.data_files
        run = RefreshRun(
            run_id=run_id,
            table_id=self.table.table_id,
            kind=RunKind.COMPACTION,
            scope=WHOLE,
            requested_at=began,
            started_at=began,
            finished_at=self.services.clock.now(),
            status=RunStatus.SUCCEEDED,
            decision=COMPACTED,
            reason=f"{self.fragments}; {files} file{'' if files == 1 else 's'} since",
            rows=staged.snapshot.added_rows,
            snapshot_id=staged.snapshot.snapshot_id,
        )
        in_transaction(self.services.registry, lambda tx: tx.runs.insert(run))
        return run

    def _publish(self, branch: str, staged: Staged) -> bool:
        """Make the branch main; False if a refresh or another writer was there since."""
        metadata = staged.metadata
        for _ in range(MAX_CONFLICTS):
            if metadata.main == staged.snapshot.snapshot_id:
                return True
            head = metadata.branches.get(branch)
            if (metadata.main, head) != (self.metadata.main, staged.snapshot.snapshot_id):
                return False
            change = MetadataChange(publish=head, drop=(branch,))
            try:
                self.services.engine.swap(self.table.identifier, metadata, change)
            except (CommitConflict, CommitUnknown):
                metadata = self.services.engine.load(self.table.identifier)
                continue
            return True
        return False

    def _drop(self, branch: str) -> None:
        """Drop the branch; the next refresh that opens the table does it otherwise."""
        engine, identifier = self.services.engine, self.table.identifier
        try:
            metadata = engine.load(identifier)
            if branch in metadata.branches:
                engine.swap(identifier, metadata, MetadataChange(drop=(branch,)))
        except MtError as error:
            log.info("branch %s of %s is left: %s", branch, identifier, error)
