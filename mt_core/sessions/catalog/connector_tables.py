"""Connector tables of all catalogs, which statements created and the registry stores for all sessions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from mt_core.errors import RegistryError
from mt_core.model.connector_table import ConnectorTable, table_named
from mt_core.tables.registry import Registry, Transaction, in_transaction


class ConnectorTables:
    """The connector tables in the registry, in a write-through cache. Thread-safe.

    Only this gateway writes to the registry. Every method raises RegistryError.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._tables: Mapping[str, ConnectorTable] | None = None

    def all(self) -> Mapping[str, ConnectorTable]:
        """Return all connector tables by name."""
        tables = self._tables
        if tables is None:
            with self._lock:
                tables = self._tables = self._tables or in_transaction(self._registry, _tables)
        return tables

    def find(self, name: Sequence[str]) -> ConnectorTable | None:
        """Return the connector table with a full name, or None if there is none."""
        return table_named(self.all(), name)

    def put(self, table: ConnectorTable) -> None:
        """Store a table, replacing any table with the same name."""
        self._change(lambda tx: tx.connector_tables.put(table))

    def delete(self, name: str) -> None:
        """Delete a table if it exists."""
        self._change(lambda tx: tx.connector_tables.delete(name))

    def _change(self, work: Callable[[Transaction], None]) -> None:
        def changed(tx: Transaction) -> Mapping[str, ConnectorTable]:
            work(tx)
            return _tables(tx)

        with self._lock:
            try:
                self._tables = in_transaction(self._registry, changed)
            except RegistryError:
                # The transaction may have committed, so load the tables again on the next call.
                self._tables = None
                raise


def _tables(tx: Transaction) -> Mapping[str, ConnectorTable]:
    return {table.name: table for table in tx.connector_tables.all()}
