"""Compaction: rewrites small files of a storage table, and files with deletes, as fewer large files.

It takes no claim and delays no refresh (docs/design/refresh-protocol.md). The files are written on a branch
and published by a commit that moves main, if main is what it was. The next publish of a refresh drops the
branch, and the compaction is then abandoned. The batches of a continuous run do not drop the branch; the
compacted files then replace the old ones in what has become main.
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
from mt_core.model.storage import MetadataChange, StorageMetadata, run_branch, run_branches
from mt_core.model.table import MaterializedTable
from mt_core.tables.engine import Fragments, Rewrite, Staged
from mt_core.tables.registry import in_transaction
from mt_core.tables.services import TableServices
from mt_core.tables.settings import ManagerSettings

COMPACTED = "compact"
log = logging.getLogger(__name__)


def compact(
    services: TableServices,
    table: MaterializedTable,
    *,
    holds: str | None = None,
    turn: AbstractContextManager[object] | None = None,
) -> RefreshRun | None:
    """Compact *table* if it has too many small files or delete files; return the row of the ledger, or None.

    *holds* is the branch of a caller that writes only while it holds *turn*. The compaction acquires *turn*
    when it begins and when it publishes. Raises EngineUnavailable if the engine is lost.
    """
    try:
        fragments = too_many(services, table)
        if fragments is None:
            return None
        return _Compaction(
            services=services, table=table, fragments=fragments, holds=holds, turn=turn or nullcontext()
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
    holds: str | None
    turn: AbstractContextManager[object]

    def carry_out(self) -> RefreshRun | None:
        services, identifier = self.services, self.table.identifier
        run_id, began = services.new_id(), services.clock.now()
        rewrite = Rewrite(job_id=run_id.replace("-", ""), table=identifier, branch=run_branch(run_id, 1))
        with self.turn:
            metadata = services.engine.metadata.load(identifier)
            # Other branches are those of runs that have ended.
            ended = tuple(name for name in run_branches(metadata.branches) if name != self.holds)
            begun = MetadataChange(branches=_at_main(rewrite, metadata), drop=ended)
            try:
                services.engine.metadata.swap(identifier, metadata, begun)
            except CommitConflict:
                return None
        published = None
        try:
            staged = services.engine.housekeeping.rewrite_files(rewrite)
            if staged.snapshot.snapshot_id != metadata.main:
                with self.turn:
                    published = self._published(metadata.main, rewrite, staged)
        except EngineError:
            if rewrite.branch in services.engine.metadata.load(identifier).branches:
                raise
            return None
        finally:
            if published is None:
                self._drop(rewrite.branch)
        return self._recorded(run_id, began, published) if published is not None else None

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

    def _published(self, base: str | None, rewrite: Rewrite, staged: Staged) -> Staged | None:
        """Make the branch main.

        Returns None if a refresh has been published in the meantime, or has changed the files to be replaced.
        """
        engine, identifier, branch = self.services.engine, self.table.identifier, rewrite.branch
        metadata = engine.metadata.load(identifier)
        for _ in range(MAX_CONFLICTS):
            if metadata.main == staged.snapshot.snapshot_id:
                return staged
            if metadata.branches.get(branch) != staged.snapshot.snapshot_id:
                return None
            try:
                if metadata.main == base:
                    change = MetadataChange(publish=staged.snapshot.snapshot_id, drop=(branch,))
                    engine.metadata.swap(identifier, metadata, change)
                    return staged
                again = MetadataChange(branches=_at_main(rewrite, metadata))
                engine.metadata.swap(identifier, metadata, again)
                base, staged = metadata.main, engine.housekeeping.restage(rewrite, staged)
            except (CommitConflict, CommitUnknown):
                pass
            except EngineError as error:
                log.info("compaction of %s is abandoned: %s", identifier, error)
                return None
            metadata = engine.metadata.load(identifier)
        return None

    def _drop(self, branch: str) -> None:
        """Drop the branch; if this fails, the next publish drops it."""
        engine, identifier = self.services.engine, self.table.identifier
        try:
            with self.turn:
                metadata = engine.metadata.load(identifier)
                if branch in metadata.branches:
                    engine.metadata.swap(identifier, metadata, MetadataChange(drop=(branch,)))
        except MtError as error:
            log.info("branch %s of %s could not be dropped: %s", branch, identifier, error)


def _at_main(rewrite: Rewrite, metadata: StorageMetadata) -> dict[str, str]:
    return {} if metadata.main is None else {rewrite.branch: metadata.main}
