"""FakeHousekeeping: the fake engine's storage tables, commits of other writers, and upkeep."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime

from mt_core.errors import EngineError, EngineUnavailable, MtError, StorageMissing
from mt_core.model.storage import Snapshot
from mt_core.model.table import TableIdentifier
from mt_core.tables.engine import Fragments, Rewrite, Staged
from tests.support.fake_tables import FakeStorage, Row, StoredSnapshot


class FakeHousekeeping:
    """The base of FakeSources and FakeEngine. Each operation in `failing` fails once."""

    def __init__(self) -> None:
        self.storages: dict[TableIdentifier, FakeStorage] = {}
        self.history_is_old = False
        self.kept_of: dict[TableIdentifier, frozenset[str]] = {}
        self.failing: dict[str, BaseException] = {}
        self.away = False
        self.on_rewrite: Callable[[Rewrite], None] | None = None
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()

    def write_foreign(self, identifier: TableIdentifier, rows: Sequence[Row]) -> None:
        """Add rows to main as another writer."""
        with self._lock:
            storage = self.storages[identifier]
            files = storage.snapshots[storage.main].facts.data_files + 1
            storage.commit(Snapshot(snapshot_id=self._next_id(), data_files=files), (*storage.rows, *rows))

    def compact_foreign(self, identifier: TableIdentifier) -> None:
        """Compact main as another writer."""
        with self._lock:
            storage = self.storages[identifier]
            storage.commit(Snapshot(snapshot_id=self._next_id(), replace=True), storage.rows)

    def has_expired(self, identifier: TableIdentifier, older_than: datetime, keep: Collection[str]) -> bool:
        return (
            self.history_is_old
            and self._storage(identifier).snapshots[self._storage(identifier).main].parent is not None
        )

    def expire(self, identifier: TableIdentifier, older_than: datetime, keep: Collection[str]) -> None:
        self._check("expire")
        self.kept_of[identifier] = frozenset(keep)
        with self._lock:
            storage = self._storage(identifier)
            storage.snapshots[storage.main].parent = None

    def remove_orphans(self, identifier: TableIdentifier, older_than: datetime) -> None:
        self._check("remove_orphans")

    def fragments(self, identifier: TableIdentifier) -> Fragments:
        self._check("fragments")
        storage = self._storage(identifier)
        facts = storage.snapshots[storage.main].facts
        return Fragments(small_files=max(facts.data_files - 1, 0), delete_files=facts.delete_files)

    def rewrite_files(self, rewrite: Rewrite) -> Staged:
        if self.on_rewrite is not None:
            self.on_rewrite(rewrite)
        self._check("rewrite_files")
        with self._lock:
            storage = self._storage(rewrite.table)
            head = storage.branches.get(rewrite.branch)
            if head is None:
                raise EngineError(f"{rewrite.table} has no branch {rewrite.branch} any more.")
            before = storage.snapshots[head]
            if before.facts.data_files > 1 or before.facts.delete_files:
                facts = replace(
                    before.facts,
                    snapshot_id=self._next_id(),
                    replace=True,
                    added_rows=len(before.rows),
                    deleted_rows=len(before.rows),
                    bytes_read=None,
                    data_files=1,
                    delete_files=0,
                )
                storage.snapshots[facts.snapshot_id] = StoredSnapshot(facts, head, before.rows)
                storage.branches[rewrite.branch] = facts.snapshot_id
                storage.last_number += 1
            found = storage.snapshots[storage.branches[rewrite.branch]].facts
            return Staged(snapshot=found, metadata=storage.metadata())

    def restage(self, rewrite: Rewrite, staged: Staged) -> Staged:
        self._check("restage")
        with self._lock:
            storage = self._storage(rewrite.table)
            head, written = storage.snapshots[storage.main], storage.snapshots[staged.snapshot.snapshot_id]
            assert written.parent is not None
            at = storage.main
            while at != written.parent:
                since = storage.snapshots[at]
                if since.facts.deleted_rows or since.parent is None:
                    raise EngineError(f"files of {rewrite.table} are gone.")
                at = since.parent
            gone = storage.snapshots[at].facts.data_files - written.facts.data_files
            facts = replace(
                head.facts, snapshot_id=self._next_id(), replace=True, data_files=head.facts.data_files - gone
            )
            storage.snapshots[facts.snapshot_id] = StoredSnapshot(facts, storage.main, head.rows)
            storage.branches[rewrite.branch] = facts.snapshot_id
            storage.last_number += 1
            return Staged(snapshot=facts, metadata=storage.metadata())

    def _storage(self, identifier: TableIdentifier) -> FakeStorage:
        if identifier not in self.storages:
            raise StorageMissing(f"The storage of {identifier} is missing; ALTER … RESUME recreates it.")
        return self.storages[identifier]

    def _check(self, operation: str) -> None:
        if self.away:
            raise EngineUnavailable("The fake engine is away.")
        planned = self.failing.pop(operation, None)
        if planned is None:
            return
        if isinstance(planned, MtError) or not isinstance(planned, Exception):
            raise planned
        raise EngineError(f"{operation} failed: {planned}") from planned

    def _next_id(self) -> str:
        return str(next(self._numbers))
