"""Tables with a connector, as the registry records them because no Spark catalog can store such tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mt_core.base.identifiers import namespace_of, quote, sql_name, string_literal
from mt_core.model.kafka_topic import KafkaTopic

SPARK_CATALOG = "spark_catalog"
STORED_IN = "connector_tables"
"""The database in Spark's own catalog that stores the connector tables of other catalogs."""
CONNECTOR_PROPERTY = "freshtable.connector"
"""The property that marks a view as the representation of a connector table in its catalog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """WATERMARK FOR column AS column - INTERVAL delay; `delay` is in Spark's syntax, such as `5 SECOND`."""

    column: str
    delay: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedRows:
    """Rows that a connector generates.

    `items` are select items over `value`, which counts from 0, and `timestamp`. `number_of_rows` is None if
    the rows never end.
    """

    items: tuple[str, ...]
    rows_per_second: int
    number_of_rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorTable:
    """A table with a connector: its quoted full name, its columns as in CREATE TABLE, and its other clauses.

    The clauses and options may contain passwords, so the repr omits them. `keys` is the primary key.
    `spark_name` is the quoted name in Spark's own catalog; it is empty if that name is the same, or if the
    table does not exist there. A table that stores no rows has a `query` for batch reads instead. Its
    generated rows are `unbounded` if they never end, and `bounded` if they do. A Kafka table has a `topic`:
    Spark's own catalog contains a table of the records, and a view derives the rows from them.
    """

    name: str
    columns: tuple[str, ...]
    clauses: str = field(repr=False)
    keys: tuple[str, ...] = ()
    connector: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    comment: str | None = None
    partition_keys: tuple[str, ...] = ()
    watermark: Watermark | None = None
    spark_name: str = ""
    query: str = field(default="", repr=False)
    unbounded: GeneratedRows | None = None
    bounded: GeneratedRows | None = None
    topic: KafkaTopic | None = field(default=None, repr=False)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the full name."""
        return namespace_of(self.name)

    @property
    def stored_name(self) -> str:
        """The quoted name in Spark's own catalog."""
        return self.spark_name or self.name

    @property
    def statement(self) -> str:
        """The Spark statement that creates the table in Spark's own catalog."""
        if self.query:
            return f"CREATE VIEW {self.name} AS {self.query}"
        if self.topic is not None:
            return self.topic.records(self.stored_name)
        return f"CREATE TABLE {self.stored_name} ({', '.join(self.columns)}) {self.clauses}"

    @property
    def view(self) -> str:
        """The query of the view that represents the table in its catalog."""
        if self.topic is not None:
            return self.topic.rows(self.stored_name)
        return self.query or f"SELECT * FROM {self.stored_name}"

    @property
    def has_view(self) -> bool:
        """Whether the table also has a view, in addition to the object that `statement` creates."""
        return self.parts[0] != SPARK_CATALOG or bool(self.spark_name)

    def create_view(self, *, replacing: bool = False) -> str:
        """Return the Spark statement that creates the view."""
        comment = f" COMMENT {string_literal(self.comment)}" if self.comment is not None else ""
        mark = f"TBLPROPERTIES ({string_literal(CONNECTOR_PROPERTY)} = {string_literal(self.connector)})"
        return f"CREATE {'OR REPLACE ' if replacing else ''}VIEW {self.name}{comment} {mark} AS {self.view}"

    def watermark_text(self) -> str | None:
        """Return the watermark in Flink's syntax, or None if the table has none."""
        if self.watermark is None:
            return None
        column = quote(self.watermark.column)
        amount, _, unit = self.watermark.delay.partition(" ")
        return column if amount == "0" else f"{column} - INTERVAL '{amount}' {unit}"


def table_named(tables: Mapping[str, ConnectorTable], name: Sequence[str]) -> ConnectorTable | None:
    """Return the table with the full name *name*, or None; *tables* are keyed by quoted name.

    Names in Spark's own catalog are case-insensitive.
    """
    quoted = sql_name(name)
    if quoted in tables or name[0].lower() != SPARK_CATALOG:
        return tables.get(quoted)
    return next((table for table in tables.values() if table.name.lower() == quoted.lower()), None)
