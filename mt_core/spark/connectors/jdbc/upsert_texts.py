"""Upsert and delete statements of the supported databases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_ON_CONFLICT = ("postgresql", "sqlite", "duckdb")
_ON_DUPLICATE_KEY = ("mysql", "mariadb")
_MERGE_KEY = "h2"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedTable:
    """A table of the database at a JDBC `url`, with its columns and key columns.

    `quoted` quotes a column name for the database.
    """

    url: str
    name: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    quoted: Callable[[str], str]

    @property
    def deletes(self) -> str:
        """The statement that deletes a row by key. Its parameters are the key columns."""
        return f"DELETE FROM {self.name} WHERE {' AND '.join(f'{self.quoted(key)} = ?' for key in self.keys)}"

    @property
    def inserts(self) -> str:
        """The statement that upserts a row, or only inserts it. Its parameters are all columns."""
        database, others = self._database, [column for column in self.columns if column not in self.keys]
        into, values = (
            f"{self.name} ({self._listed(self.columns)})",
            f"VALUES ({', '.join('?' for _ in self.columns)})",
        )
        if database == _MERGE_KEY:
            return f"MERGE INTO {into} KEY ({self._listed(self.keys)}) {values}"
        text = f"INSERT INTO {into} {values}"
        if database in _ON_CONFLICT:
            changes = ", ".join(f"{self.quoted(each)} = EXCLUDED.{self.quoted(each)}" for each in others)
            action = f"UPDATE SET {changes}" if others else "NOTHING"
            return f"{text} ON CONFLICT ({self._listed(self.keys)}) DO {action}"
        if database in _ON_DUPLICATE_KEY:
            # If there are no other columns, assign a key column to itself, which changes nothing.
            changes = ", ".join(
                f"{self.quoted(each)} = VALUES({self.quoted(each)})" for each in others or self.keys[:1]
            )
            return f"{text} ON DUPLICATE KEY UPDATE {changes}"
        return text

    @property
    def deletes_first(self) -> bool:
        """True if `inserts` is a plain INSERT, so that existing rows must be deleted first."""
        return self._database not in (*_ON_CONFLICT, *_ON_DUPLICATE_KEY, _MERGE_KEY)

    @property
    def _database(self) -> str:
        """The kind of database, as named in the JDBC URL."""
        return self.url.partition(":")[2].partition(":")[0].lower()

    def _listed(self, columns: Sequence[str]) -> str:
        return ", ".join(map(self.quoted, columns))
