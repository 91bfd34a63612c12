"""Upsert texts: the statements by which a database replaces and deletes rows by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_ON_CONFLICT = ("postgresql", "sqlite", "duckdb")
_ON_DUPLICATE_KEY = ("mysql", "mariadb")
_MERGE_KEY = "h2"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedTable:
    """A table of the database at a JDBC `url`, by its name there, with its columns and those of its key.

    `quoted` returns the name of a column in the SQL of the database.
    """

    url: str
    name: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    quoted: Callable[[str], str]

    @property
    def deletes(self) -> str:
        """The statement that deletes the row of a key; its parameters are the key."""
        return f"DELETE FROM {self.name} WHERE {' AND '.join(f'{self.quoted(key)} = ?' for key in self.keys)}"

    @property
    def inserts(self) -> str:
        """The statement that puts a row in the place of the one with its key;
        its parameters are the columns.
        """
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
            # A row without other columns stays as it is.
            changes = ", ".join(
                f"{self.quoted(each)} = VALUES({self.quoted(each)})" for each in others or self.keys[:1]
            )
            return f"{text} ON DUPLICATE KEY UPDATE {changes}"
        return text

    @property
    def deletes_first(self) -> bool:
        """Whether `inserts` only adds a row, so that the one with its key has to be deleted before."""
        return self._database not in (*_ON_CONFLICT, *_ON_DUPLICATE_KEY, _MERGE_KEY)

    @property
    def _database(self) -> str:
        """The name of the database's kind in its URL."""
        return self.url.partition(":")[2].partition(":")[0].lower()

    def _listed(self, columns: Sequence[str]) -> str:
        return ", ".join(map(self.quoted, columns))
