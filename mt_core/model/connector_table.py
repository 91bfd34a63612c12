"""Tables with a connector: what the registry keeps of them, since no catalog of Spark stores such tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mt_core.base.identifiers import namespace_of, quote, sql_name, string_literal
from mt_core.model.kafka_topic import KafkaTopic

SPARK_CATALOG = "spark_catalog"
STORED_IN = "connector_tables"
"""The database of Spark's own catalog that has the tables of other catalogs."""
CONNECTOR_PROPERTY = "freshtable.connector"
"""The property of the view that stands for a table with a connector in its catalog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """WATERMARK FOR column AS column - INTERVAL delay; `delay` is in Spark's words, such as `5 SECOND`."""

    column: str
    delay: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedRows:
    """Rows of a connector that generates them; `items` are a select list over `value`, which counts from 0,
    and `timestamp`.

    `number_of_rows` is None for rows without end.
    """

    items: tuple[str, ...]
    rows_per_second: int
    number_of_rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorTable:
    """One table: its full name, quoted, its columns as CREATE TABLE lists them, and the clauses after these.

    The clauses and the options can hold passwords, so its repr leaves them out. `keys` are the columns
    of its primary key. `spark_name` is its quoted name in Spark's own catalog, empty if that is its name,
    or if it has none there. A table that stores no rows has a `query` instead: what a batch reads of it.
    One with rows without end has them in `unbounded`, one whose generated rows end in `bounded`. One over
    Kafka has its `topic`: Spark's own catalog has a table of the records, and a view makes rows of them.
    """

    name: str
    columns: tuple[str, ...]
    clauses: str = field(repr=False)
    keys: tuple[str, ...] = ()
    connector: str = ""
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
        """The parts of its full name."""
        return namespace_of(self.name)

    @property
    def stored_name(self) -> str:
        """The quoted name under which Spark's own catalog has it."""
        return self.spark_name or self.name

    @property
    def statement(self) -> str:
        """The statement of Spark that creates it in Spark's own catalog."""
        if self.query:
            return f"CREATE VIEW {self.name} AS {self.query}"
        if self.topic is not None:
            return self.topic.records(self.stored_name)
        return f"CREATE TABLE {self.stored_name} ({', '.join(self.columns)}) {self.clauses}"

    @property
    def view(self) -> str:
        """The query of the view that stands for it in its catalog."""
        if self.topic is not None:
            return self.topic.rows(self.stored_name)
        return self.query or f"SELECT * FROM {self.stored_name}"

    @property
    def has_view(self) -> bool:
        """Whether a view stands beside what `statement` creates, or in its place."""
        return self.parts[0] != SPARK_CATALOG or bool(self.spark_name)

    def create_view(self, *, replacing: bool = False) -> str:
        """Return the statement of Spark that creates the view."""
        comment = f" COMMENT {string_literal(self.comment)}" if self.comment is not None else ""
        mark = f"TBLPROPERTIES ({string_literal(CONNECTOR_PROPERTY)} = {string_literal(self.connector)})"
        return f"CREATE {'OR REPLACE ' if replacing else ''}VIEW {self.name}{comment} {mark} AS {self.view}"

    def watermark_text(self) -> str | None:
        """Return the watermark in Flink's words, None without one."""
        if self.watermark is None:
            return None
        column = quote(self.watermark.column)
        amount, _, unit = self.watermark.delay.partition(" ")
        return column if amount == "0" else f"{column} - INTERVAL '{amount}' {unit}"


def table_named(tables: Mapping[str, ConnectorTable], name: Sequence[str]) -> ConnectorTable | None:
    """Return the one of *tables*, by their quoted names, that has a full name;
    names of Spark's own catalog have no case.
    """
    quoted = sql_name(name)
    if quoted in tables or name[0].lower() != SPARK_CATALOG:
        return tables.get(quoted)
    return next((table for table in tables.values() if table.name.lower() == quoted.lower()), None)
