"""Registered tables: the names that statements about other relations must not use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mt_core.base.identifiers import Namespace
from mt_core.model.stream import TableName
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.tables.pages import on_each_page
from mt_core.tables.registry import Registry, Transaction, in_transaction
from mt_core.tables.views.readers import recorded_readers
from mt_core.tables.views.stream_tables import check_no_stream


@dataclass(frozen=True, slots=True)
class RegisteredTables:
    """Looks up names in the registry. Thread-safe; methods may raise RegistryError."""

    registry: Registry

    def first_of(self, identifiers: Sequence[TableIdentifier]) -> TableIdentifier | None:
        """Return the first of *identifiers* that is a materialized table, or None if none is."""
        return in_transaction(
            self.registry,
            lambda tx: next((each for each in identifiers if tx.tables.named(each) is not None), None),
        )

    def within(self, catalog: str, namespace: Namespace) -> Sequence[TableIdentifier]:
        """Return the tables in a namespace or below it, however the namespace is split into levels."""

        def inside(_tx: Transaction, tables: Iterable[MaterializedTable]) -> list[TableIdentifier]:
            return [
                each.identifier for each in tables if _is_within(each.identifier.parts, catalog, namespace)
            ]

        return on_each_page(self.registry, inside)

    def readers(self, identifiers: Sequence[TableIdentifier]) -> Sequence[TableIdentifier]:
        """Return the materialized tables that read one of these tables or views."""
        return recorded_readers(self.registry, {each.parts for each in identifiers}) if identifiers else ()

    def check_no_stream(self, identifiers: Sequence[TableIdentifier], statement: str) -> None:
        """Raise TableBusy if a streaming job reads or writes a table that *statement* would drop."""
        names = {each.parts for each in identifiers}
        in_transaction(self.registry, lambda tx: check_no_stream(tx, names.__contains__, statement))

    def check_no_stream_within(self, catalog: str, namespace: Namespace, statement: str) -> None:
        """Raise TableBusy if a streaming job reads or writes a table in a namespace or below it."""
        in_transaction(
            self.registry,
            lambda tx: check_no_stream(tx, lambda name: _is_within(name, catalog, namespace), statement),
        )


def _is_within(name: TableName, catalog: str, namespace: Namespace) -> bool:
    place = "".join(f"{level}." for level in namespace)
    return name[0] == catalog and "".join(f"{level}." for level in name[1:-1]).startswith(place)
