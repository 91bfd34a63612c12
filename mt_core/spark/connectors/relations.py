"""SQL relations that read connector tables as streams."""

from __future__ import annotations

from pyspark.sql import SparkSession

from mt_core.base.identifiers import quote, string_literal
from mt_core.model.connector_table import ConnectorTable, GeneratedRows
from mt_core.spark.connectors.connector_tables import stored_table
from mt_core.spark.connectors.generated import generated_stream

FILES = frozenset({"parquet", "orc", "csv", "json", "text", "avro"})
_GLOBAL = "global_temp"


def stream_of(session: SparkSession, table: ConnectorTable) -> str | None:
    """Return a parenthesized relation that reads *table* as a stream with its watermark.

    Return None if the table is read as a batch.
    """
    rows = table.unbounded or table.bounded
    if rows is not None:
        return _generated(session, table, rows)
    if table.query or _provider(session, table) not in FILES:
        return None
    watermark = ""
    if table.watermark is not None:
        amount, _, unit = table.watermark.delay.partition(" ")
        watermark = (
            f" WATERMARK {quote(table.watermark.column)} DELAY OF INTERVAL {string_literal(amount)} {unit}"
        )
    return f"(SELECT * FROM STREAM {table.stored_name}{watermark})"


def _generated(session: SparkSession, table: ConnectorTable, rows: GeneratedRows) -> str:
    """Create a global temporary view of generated rows and return a relation over it.

    Each stream over the view generates rows of its own.
    """
    view = f"rows_of_{'_'.join(part.encode().hex() for part in table.parts)}"
    generated_stream(session, rows, table.watermark).createOrReplaceGlobalTempView(view)
    return f"(SELECT * FROM {_GLOBAL}.{view})"


def _provider(session: SparkSession, table: ConnectorTable) -> str:
    stored = stored_table(session, table.stored_name)
    provider = None if stored is None else stored.provider()
    return str(provider.get()).lower() if provider is not None and provider.isDefined() else ""
