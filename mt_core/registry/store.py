"""The registry in a SQL database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Engine

from mt_core.clock import Clock
from mt_core.errors import FactUnreadable, RegistryError, RevisionConflict
from mt_core.registry.database import WAIT_S, connect, reader, shown, upgrade
from mt_core.registry.definitions import SqlDefinitionStore
from mt_core.registry.failures import translated
from mt_core.registry.statements import Statements
from mt_core.registry.transaction import SqlTransaction
from mt_core.registry.turns import Turns
from mt_core.tables.registry import RUN_ENDED, Change, RunChange, Transaction, notice_of
from mt_core.workflow.definitions import DefinitionStore


class SqlRegistry:
    """Implements `Registry` in SQLite or PostgreSQL. Thread-safe.

    Only one transaction runs at a time, across threads and processes. If the database nevertheless aborts one
    in favor of another, `transaction()` raises RevisionConflict, and the caller has to run the whole block
    again. After any other RegistryError at the end of the block, the transaction may or may not have been
    committed; the caller has to read again. Reads have connections of their own.
    """

    def __init__(self, engine: Engine, clock: Clock | None = None) -> None:
        self._engine = engine
        self._reader = reader(engine.url)
        self._clock = clock
        self._name = shown(engine.url)
        self._turns = Turns()
        self._closed = threading.Event()
        self.definitions: DefinitionStore = SqlDefinitionStore(self.transaction)
        self.on_commit: Callable[[tuple[Change, ...]], None] | None = None
        self.on_transaction: Callable[[float, float, bool], object] | None = None
        self.keeps_notices = False

    @classmethod
    def open(cls, url: str, clock: Clock | None = None, *, migrate: bool = True) -> SqlRegistry:
        """Open the registry at *url* (`sqlite:////…` or `postgresql://…`); create or migrate it if necessary.

        If *clock* is None, the database's clock is used. If *migrate* is false, a registry of an earlier
        release is not migrated until `migrate` is called, and until then only `gateways` may be used. Raises
        ConfigError for an invalid URL or schema, and RegistryError if the database fails.
        """
        return cls(connect(url, migrate=migrate), clock)

    def migrate(self, hold: Callable[[Transaction], None]) -> None:
        """Migrate the registry in one transaction if an earlier release wrote it.

        *hold* is called in the transaction before and after the migration. If it raises, nothing is migrated.
        """
        with self.transaction() as transaction:
            hold(transaction)
            upgrade(transaction.statements.connection)
            hold(transaction)

    @contextmanager
    def transaction(self) -> Iterator[SqlTransaction]:
        """Begin a transaction; raise RegistryError inside another transaction of the same thread."""
        asked, begun, failed = time.monotonic(), None, False
        try:
            with self._turns.take(WAIT_S, self._name):
                with self._begun(self._engine) as statements:
                    begun = time.monotonic()
                    transaction = SqlTransaction(statements)
                    yield transaction
                    if self.keeps_notices:
                        _note_ends(transaction)
                if self.on_commit is not None and statements.changes:
                    self.on_commit(tuple(statements.changes))
        except RegistryError as error:
            failed = not isinstance(error, RevisionConflict | FactUnreadable)
            raise
        finally:
            if self.on_transaction is not None:
                ended = time.monotonic()
                begun = begun or ended
                self.on_transaction(begun - asked, ended - begun, failed)

    @contextmanager
    def reading(self) -> Iterator[SqlTransaction]:
        """Begin a read of the committed state on a connection that cannot write."""
        with self._begun(self._reader) as statements:
            yield SqlTransaction(statements)

    def close(self) -> None:
        self._closed.set()
        # SQLite removes the write-ahead log when the last connection that can write is also the last one.
        self._reader.dispose()
        self._engine.dispose()

    @contextmanager
    def _begun(self, engine: Engine) -> Iterator[Statements]:
        if self._closed.is_set():
            raise RegistryError(f"Registry {self._name} is closed; open it again.")
        with translated(self._name), engine.begin() as connection:
            yield Statements(connection=connection, name=self._name, clock=self._clock)


def _note_ends(transaction: SqlTransaction) -> None:
    for change in transaction.statements.changes:
        if isinstance(change, RunChange) and change.ended:
            transaction.notices.put(RUN_ENDED, notice_of(change.after))
