"""The interface of stream sinks."""

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
from mt_core.spark.iceberg.catalog_probe import TableCatalogs

PUBLISHED = "published"
Check = Callable[[str], object]
"""Called before `write`, before `publish`, and after the batch. An error prevents the next step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkAttempt:
    """An attempt of a job. The attempt with the highest `number` is the current one."""

    job_id: str
    number: int
    definition: StreamDefinition
    catalogs: Catalogs = field(repr=False)
    table_catalogs: TableCatalogs = field(repr=False)
    connectors: ConnectorSource = field(repr=False)


class Sink(ABC):
    """The target table of one attempt of a job."""

    guarantee: ClassVar[str]
    """The delivery guarantee, as displayed by EXPLAIN."""
    records_batch: ClassVar[bool] = True
    """True if the table records the last batch of a job."""
    accepts_changelog: ClassVar[bool] = False
    """True if the sink accepts changelog rows. Iceberg tables accept them if they have a key."""
    in_spark: ClassVar[bool] = True
    """True if Spark itself can INSERT INTO the table and checks the columns."""

    batch: int | None = None
    """The last batch that this attempt knows to be published, or None before the first."""

    @abstractmethod
    def open(self) -> None:
        """Take over the table from earlier attempts.

        Raises CommitConflict if a later attempt has taken over the table, and StreamBroken if it was
        dropped.
        """

    @abstractmethod
    def close(self) -> None:
        """Prevent all attempts from publishing, if the table can. Does nothing if it was dropped."""

    @abstractmethod
    def forget(self) -> None:
        """Delete the job's state from the table, if there is any. Does nothing if the table was dropped."""

    @abstractmethod
    def last_batch(self) -> int | None:
        """Return the last batch that the table has recorded for the job, or None if there is none."""

    @abstractmethod
    def publish(self, rows: DataFrame, batch: int, check: Check) -> int:
        """Write a batch with the sink's guarantee and return the row count."""


def shaped(rows: DataFrame, table: str) -> DataFrame:
    """Return *rows* with NULL in the columns of *table* that they lack and with their row kind.

    Raises EngineError for a column that the table lacks.
    """
    present = {name.lower() for name in rows.columns}
    fields = rows.sparkSession.table(table).schema.fields
    known = {ROW_KIND, *(field.name.lower() for field in fields)}
    gone = [name for name in rows.columns if name.lower() not in known]
    if gone:
        raise EngineError(
            f"Column {', '.join(map(quote, gone))} of {table}, which the job writes, was dropped or renamed; "
            "add or rename it again, or STOP the job and run its INSERT again."
        )
    missing = [field for field in fields if field.name.lower() not in present]
    return rows.select("*", *(lit(None).cast(field.dataType).alias(field.name) for field in missing))


def stored(rows: DataFrame, table: str) -> DataFrame:
    """Return *rows* with the columns of *table*, in its order and types, then their row kind, if any."""
    rows = shaped(rows, table)
    columns = [
        col(quote(field.name)).cast(field.dataType).alias(field.name)
        for field in rows.sparkSession.table(table).schema.fields
    ]
    return rows.select(*columns, *(name for name in rows.columns if name == ROW_KIND))
