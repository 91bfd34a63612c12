"""Tables with a connector in Spark's session catalog, which forgets its tables when Spark ends."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorTable:
    """One table: its full name, quoted, its columns as CREATE TABLE lists them, and the clauses after these.

    The clauses can hold passwords, so its repr leaves them out. `keys` are the columns of its primary key.
    """

    name: str
    columns: tuple[str, ...]
    clauses: str = field(repr=False)
    keys: tuple[str, ...] = ()

    @property
    def statement(self) -> str:
        """The statement of Spark that creates it."""
        return f"CREATE TABLE {self.name} ({', '.join(self.columns)}) {self.clauses}"
