"""FakeHousekeeping: the fake engine's storage tables, commits of other writers, and upkeep."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime

from mt_core.errors import EngineError, EngineUnavailable, MtError, StorageMissing
from mt_core.model.storage import Snapshot, StorageMetadata
from mt_core.model.table import TableIdentifier
from mt_core.tables.engine import Fragments, Staged
from tests.support.fake_tables import FakeStorage, Row, StoredSnapshot


class FakeHousekeeping:
    """The base of FakeSources and FakeEngine. Each operation in `failing` fails once."""

    def __init__(self) -> None:
        self.storages: dict[TableIdentifier, FakeStorage] = {}
        self.history_is_old = False
        self.kept_of: dict[TableIdentifier, frozenset[str]] = {}
        self.failing: dict[str, BaseException] = {}
        self.away = False
        self.on_rewrite: Callable[[TableIdentifier], None] | None = None
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

    def rewrite_files(self, identifier: TableIdentifier, job_id: str) -> Staged | None:
        metadata = self._storage(identifier).metadata()
        before = self._storage(identifier).snapshots[str(metadata.main)]
        if self.on_rewrite is not None:
            self.on_rewrite(identifier)
        self._check("rewrite_files")
        if before.facts.data_files <= 1 and not before.facts.delete_files:
            return None
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
        return self._staged(identifier, facts, metadata, before.rows)

    def restage(self, identifier: TableIdentifier, staged: Staged) -> Staged:
        self._check("restage")
        with self._lock:
            storage = self._storage(identifier)
            head, written = storage.snapshots[storage.main], storage.snapshots[staged.snapshot.snapshot_id]
            assert written.parent is not None
            at = storage.main
            while at != written.parent:
                since = storage.snapshots[at]
                if since.facts.deleted_rows or since.parent is None:
                    raise EngineError(f"files of {identifier} are gone.")
                at = since.parent
            gone = storage.snapshots[at].facts.data_files - written.facts.data_files
            facts = replace(
                head.facts, snapshot_id=self._next_id(), replace=True, data_files=head.facts.data_files - gone
            )
            return self._staged(identifier, facts, storage.metadata(), head.rows)

    def _staged(
        self,
        identifier: TableIdentifier,
        facts: Snapshot,
        metadata: StorageMetadata,
        rows: tuple[Row, ...],
        base: str | None = None,
    ) -> Staged:
        """Return a pending snapshot that follows *base*, by default main."""
        with self._lock:
            snapshots = self._storage(identifier).snapshots
            snapshots[facts.snapshot_id] = StoredSnapshot(facts, base or metadata.main, rows)
            return Staged(snapshot=facts, metadata=metadata, pending=facts)

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
