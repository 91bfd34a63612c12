"""A CREATE TABLE in Flink's syntax, as written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mt_core.errors import SqlSyntaxError
from mt_core.model.connector_table import Watermark
from mt_core.sql.connectors.kafka import MetadataColumn
from mt_core.sql.statements import ColumnSpec, Name


@dataclass(slots=True, kw_only=True)
class WrittenTable:
    """The clauses of the statement, which the reader fills in order."""

    name: Name
    words: frozenset[str]
    temporary: bool
    if_not_exists: bool
    columns: dict[str, str] = field(default_factory=dict)
    specs: list[ColumnSpec] = field(default_factory=list)
    # Columns may only lack a type in CREATE TABLE … AS, which is known at the end of the statement.
    untyped: SqlSyntaxError | None = None
    keys: tuple[str, ...] = ()
    comment: str | None = None
    partition_keys: list[str] = field(default_factory=list)
    options: Mapping[str, str] = field(default_factory=dict)
    query: str | None = None
    # The columns AS PROCTIME().
    now_columns: set[str] = field(default_factory=set)
    watermark: Watermark | None = None
    has_other_watermark: bool = False
    metadata: dict[str, MetadataColumn] = field(default_factory=dict)
    # The expressions of other computed columns.
    computed: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return ".".join(self.name)

    @property
    def connector(self) -> str:
        """The connector in the options, in lower case; empty without one."""
        return self.options.get("connector", "").lower()

    @property
    def has_keys(self) -> bool:
        """Whether the table stores its primary key; only Iceberg tables can."""
        return (
            bool(self.keys)
            and not self.temporary
            and self.options.get("connector", "iceberg").lower() == "iceberg"
        )
