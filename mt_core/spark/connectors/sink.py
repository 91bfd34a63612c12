"""Sinks of a stream: what an attempt needs of a table that it writes, of whatever kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, lit

from mt_core.base.identifiers import quote
from mt_core.errors import EngineError
from mt_core.model.stream import StreamDefinition
from mt_core.spark.catalogs.storage_catalogs import Catalogs
from mt_core.spark.connectors.changelog import ROW_KIND
from mt_core.spark.connectors.connector_tables import ConnectorSource

PUBLISHED = "published"
Check = Callable[[str], object]
"""Receives the step of a batch that is next, and raises what is to prevent it: write, publish; published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkAttempt:
    """The attempt of a job that writes; the one with the greatest `number` is the last."""

    job_id: str
    number: int
    definition: StreamDefinition
    catalogs: Catalogs = field(repr=False)
    connectors: ConnectorSource = field(repr=False)


class Sink(ABC):
    """One table in one attempt of a job."""

    guarantee: ClassVar[str]
    """How the rows of a stream arrive, as EXPLAIN says it."""
    keeps_batch: ClassVar[bool] = True
    """Whether the table itself says which batch of a job it has."""
    takes_changes: ClassVar[bool] = False
    """Whether rows may have a kind; a table of Iceberg takes them if it has a key."""
    in_spark: ClassVar[bool] = True
    """Whether Spark can INSERT INTO the table itself, and checks the columns for it."""

    batch: int | None = None
    """The last batch of the job that the table has, as this attempt knows it since it opened the table;
    None before the first.
    """

    @abstractmethod
    def open(self) -> None:
        """Take the table over from earlier attempts.

        Raises CommitConflict if a later one has, StreamBroken if it is gone.
        """

    @abstractmethod
    def close(self) -> None:
        """Let no attempt publish any more, as far as the table can prevent it; harmless if it is gone."""

    @abstractmethod
    def forget(self) -> None:
        """Remove all that the table says of the job; harmless if it says nothing, or is gone."""

    @abstractmethod
    def last_batch(self) -> int | None:
        """Return the last batch of the job that the table says it has, None before the first."""

    @abstractmethod
    def publish(self, rows: DataFrame, batch: int, check: Check) -> int:
        """Write a batch, as the guarantee says, and return how many rows that were."""


def shaped(rows: DataFrame, table: str) -> DataFrame:
    """Return *rows* with NULL in the columns of *table* that they do not have;
    raises EngineError for one that it has not.

    The kind of each row is no column of the table, and stays.
    """
    present = {name.lower() for name in rows.columns}
    fields = rows.sparkSession.table(table).schema.fields
    known = {ROW_KIND, *(field.name.lower() for field in fields)}
    gone = [name for name in rows.columns if name.lower() not in known]
    if gone:
        raise EngineError(
            f"{table} has no column {', '.join(map(quote, gone))} any more, which the job writes; "
            "add or rename it again, or STOP the job and run its INSERT again."
        )
    missing = [field for field in fields if field.name.lower() not in present]
    return rows.select("*", *(lit(None).cast(field.dataType).alias(field.name) for field in missing))


def stored(rows: DataFrame, table: str) -> DataFrame:
    """Return *rows* with the columns of *table*, in its order and of its types,
    and their kind if they have one, the last.
    """
    rows = shaped(rows, table)
    columns = [
        col(quote(field.name)).cast(field.dataType).alias(field.name)
        for field in rows.sparkSession.table(table).schema.fields
    ]
    return rows.select(*columns, *(name for name in rows.columns if name == ROW_KIND))
