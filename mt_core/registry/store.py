"""The registry in a SQL database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine

from mt_core.clock import Clock
from mt_core.errors import RegistryError
from mt_core.registry.database import WAIT_S, connect, shown
from mt_core.registry.failures import translated
from mt_core.registry.transaction import SqlTransaction
from mt_core.registry.turns import Turns
from mt_core.registry.workflows import SqlDefinitionStore


class SqlRegistry:
    """A `Registry` in SQLite or PostgreSQL, safe from any thread.

    Transactions take turns, within the process and between processes. Should the database end one for the sake of
    another all the same, `transaction()` raises RevisionConflict: callers run the whole block again. Any other
    RegistryError at the end of the block leaves open whether the transaction happened: read again.
    """

    def __init__(self, engine: Engine, clock: Clock | None = None) -> None:
        self._engine = engine
        self._clock = clock
        self._name = shown(engine.url)
        self._turns = Turns()
        self._closed = threading.Event()
        self._definitions = SqlDefinitionStore(self._begin)

    @classmethod
    def open(cls, url: str, clock: Clock | None = None) -> SqlRegistry:
        """Return the registry at *url* (`sqlite:////…` or `postgresql://…`), made or migrated as needed.

        `clock` None means the database's own clock. Raises ConfigError for a URL or a schema that cannot be used, and
        RegistryError when the database fails.
        """
        return cls(connect(url), clock)

    @property
    def definitions(self) -> SqlDefinitionStore:
        return self._definitions

    @contextmanager
    def transaction(self) -> Iterator[SqlTransaction]:
        """Begin a transaction; raises RegistryError inside another one of the same thread."""
        with self._begin() as connection:
            yield SqlTransaction(connection, name=self._name, clock=self._clock)

    def close(self) -> None:
        self._closed.set()
        self._engine.dispose()

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        if self._turns.mine:
            raise RegistryError(f"Registry {self._name}: this thread is in a transaction already; end it first.")
        with self._turns.take(WAIT_S, self._name):
            if self._closed.is_set():
                raise RegistryError(f"Registry {self._name} is closed; open it again.")
            with translated(self._name), self._engine.begin() as connection:
                yield connection
