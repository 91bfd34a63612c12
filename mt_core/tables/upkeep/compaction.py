"""Compaction: rewrites small files of a storage table, and files with deletes, as fewer large files.

It takes no claim and delays no refresh (docs/design/refresh-protocol.md). The files are published by a commit
that moves main, if main is what it was. If refreshes have been published in the meantime, the compacted files
replace the old ones in what has become main; if they have removed any of the old files, the compaction is
abandoned.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime

from mt_core.base.plural import plural
from mt_core.errors import CommitConflict, CommitUnknown, EngineError, EngineUnavailable, MtError
from mt_core.model.fence import MAX_CONFLICTS
from mt_core.model.partition import WHOLE
from mt_core.model.run import ReasonCode, RefreshRun, RunKind, RunStatus
from mt_core.model.storage import MetadataChange, StorageMetadata
from mt_core.model.table import MaterializedTable
from mt_core.tables.engine import Fragments, Staged
from mt_core.tables.registry import in_transaction
from mt_core.tables.runs.decide import since
from mt_core.tables.services import TableServices
from mt_core.tables.settings import ManagerSettings

COMPACTED = "compact"
log = logging.getLogger(__name__)


def compact(
    services: TableServices,
    table: MaterializedTable,
    *,
    turn: AbstractContextManager[object] | None = None,
) -> RefreshRun | None:
    """Compact *table* if it has too many small files or delete files; return the row of the ledger, or None.

    A caller that also writes to the table does so only while it holds *turn*, which the compaction acquires
    when it publishes. Raises EngineUnavailable if the engine is lost.
    """
    try:
        fragments = too_many(services, table)
        if fragments is None:
            return None
        return _Compaction(
            services=services, table=table, fragments=fragments, turn=turn or nullcontext()
        ).carry_out()
    except EngineUnavailable:
        raise
    except MtError as error:
        log.warning(
            "compaction of %s failed: %s", table.identifier, error, extra={"action": "compaction_failed"}
        )
        return None


def too_many(services: TableServices, table: MaterializedTable) -> Fragments | None:
    """Return the numbers of files that a compaction of *table* would remove, or None if that is too few."""
    if not _may_have_many(services, services.engine.metadata.load(table.identifier)):
        return None
    fragments = services.engine.housekeeping.fragments(table.identifier)
    return fragments if _are_many(services.settings, fragments.small_files, fragments.delete_files) else None


def _may_have_many(services: TableServices, metadata: StorageMetadata) -> bool:
    """Return whether the summary of main shows so many files that counting them is worthwhile."""
    newest = next(iter(services.engine.metadata.ancestors(metadata)), None)
    return newest is not None and _are_many(services.settings, newest.data_files, newest.delete_files)


def _are_many(settings: ManagerSettings, small_files: int, delete_files: int) -> bool:
    limits = ((small_files, settings.compact_small_files), (delete_files, settings.compact_delete_files))
    return any(limit and number > limit for number, limit in limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compaction:
    """One compaction of main as it is when writing begins."""

    services: TableServices
    table: MaterializedTable
    fragments: Fragments
    turn: AbstractContextManager[object]

    def carry_out(self) -> RefreshRun | None:
        services, identifier = self.services, self.table.identifier
        run_id, began = services.new_id(), services.clock.now()
        staged = services.engine.housekeeping.rewrite_files(identifier, run_id.replace("-", ""))
        if staged is None:
            return None
        with self.turn:
            published = self._published(staged)
        return None if published is None else self._recorded(run_id, began, published)

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
            reason=f"{self.fragments}; {files} {plural(files, 'file')} since",
            reason_code=ReasonCode.TOO_MANY_FILES,
            rows=staged.snapshot.added_rows,
            snapshot_id=staged.snapshot.snapshot_id,
        )
        in_transaction(self.services.registry, lambda tx: tx.runs.insert(run))
        return run

    def _published(self, staged: Staged) -> Staged | None:
        """Make the compacted files part of main.

        Returns None if a refresh has removed the files to be replaced in the meantime.
        """
        engine, identifier = self.services.engine, self.table.identifier
        is_sent = False
        for _ in range(MAX_CONFLICTS):
            try:
                metadata, snapshot_id = staged.metadata, staged.snapshot.snapshot_id
                change = MetadataChange(publish=snapshot_id, pending=staged.pending)
                engine.metadata.swap(identifier, metadata, change)
                return staged
            except CommitConflict:
                pass
            except CommitUnknown:
                is_sent = True
            # A commit without an answer, or one that is reported as a conflict, may have landed.
            if self._is_part(snapshot_id, of=engine.metadata.load(identifier), after=metadata.main):
                return staged
            try:
                staged = engine.housekeeping.restage(identifier, staged)
            except EngineUnavailable:
                raise
            except EngineError as error:
                log.info("compaction of %s is abandoned: %s", identifier, error)
                break
        if not is_sent:
            engine.metadata.discard(staged)
        return None

    def _is_part(self, snapshot_id: str, *, of: StorageMetadata, after: str | None) -> bool:
        """Return whether a snapshot is among the ancestors of main since the snapshot *after*."""
        history = self.services.engine.metadata.ancestors(of)
        return any(each.snapshot_id == snapshot_id for each in since(history, after))
