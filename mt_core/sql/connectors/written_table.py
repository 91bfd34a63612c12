"""The clauses of a CREATE TABLE in Flink's syntax, as written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mt_core.errors import SqlSyntaxError
from mt_core.model.connector_table import Watermark
from mt_core.sql.connectors.kafka import MetadataColumn
from mt_core.sql.statements import ColumnSpec, Name


@dataclass(slots=True, kw_only=True)
class WrittenTable:
    """The clauses of the statement. The reader fills them in as it reads."""

    name: Name
    words: frozenset[str]
    temporary: bool
    if_not_exists: bool
    columns: dict[str, str] = field(default_factory=dict)
    specs: list[ColumnSpec] = field(default_factory=list)
    # The error for the first column without a type. Only CREATE TABLE … AS allows such columns, and AS comes
    # last.
    untyped: SqlSyntaxError | None = None
    keys: tuple[str, ...] = ()
    comment: str | None = None
    partition_keys: list[str] = field(default_factory=list)
    options: Mapping[str, str] = field(default_factory=dict)
    query: str | None = None
    # The names of the columns AS PROCTIME().
    now_columns: set[str] = field(default_factory=set)
    watermark: Watermark | None = None
    has_other_watermark: bool = False
    metadata: dict[str, MetadataColumn] = field(default_factory=dict)
    # The expressions of all other computed columns.
    computed: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return ".".join(self.name)

    @property
    def connector(self) -> str:
        """The connector named in the options, in lower case; empty if there is none."""
        return self.options.get("connector", "").lower()

    @property
    def has_keys(self) -> bool:
        """Whether the table stores its primary key, which only Iceberg tables can do."""
        return (
            bool(self.keys)
            and not self.temporary
            and self.options.get("connector", "iceberg").lower() == "iceberg"
        )
