"""The registry in a SQL database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine

from mt_core.clock import Clock
from mt_core.errors import RegistryError
from mt_core.registry.database import WAIT_S, connect, shown
from mt_core.registry.definitions import SqlDefinitionStore
from mt_core.registry.failures import translated
from mt_core.registry.statements import Statements
from mt_core.registry.transaction import SqlTransaction
from mt_core.registry.turns import Turns
from mt_core.workflow.definitions import DefinitionStore


class SqlRegistry:
    """Implements `Registry` in SQLite or PostgreSQL. Thread-safe.

    Only one transaction runs at a time, across threads and processes. If the database nevertheless aborts one
    in favor of another, `transaction()` raises RevisionConflict, and the caller has to run the whole block
    again. After any other RegistryError at the end of the block, the transaction may or may not have been
    committed; the caller has to read again.
    """

    def __init__(self, engine: Engine, clock: Clock | None = None) -> None:
        self._engine = engine
        self._clock = clock
        self._name = shown(engine.url)
        self._turns = Turns()
        self._closed = threading.Event()
        self.definitions: DefinitionStore = SqlDefinitionStore(self.transaction)

    @classmethod
    def open(cls, url: str, clock: Clock | None = None) -> SqlRegistry:
        """Open the registry at *url* (`sqlite:////…` or `postgresql://…`); create or migrate it if necessary.

        If *clock* is None, the database's clock is used. Raises ConfigError for an invalid URL or schema, and
        RegistryError if the database fails.
        """
        return cls(connect(url), clock)

    @contextmanager
    def transaction(self) -> Iterator[SqlTransaction]:
        """Begin a transaction; raise RegistryError inside another transaction of the same thread."""
        with self._turns.take(WAIT_S, self._name):
            if self._closed.is_set():
                raise RegistryError(f"Registry {self._name} is closed; open it again.")
            with translated(self._name), self._engine.begin() as connection:
                yield SqlTransaction(Statements(connection=connection, name=self._name, clock=self._clock))

    def close(self) -> None:
        self._closed.set()
        self._engine.dispose()
