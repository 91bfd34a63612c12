"""Tables with a connector as sources of a stream: the relation that reads each as one."""

from __future__ import annotations

from pyspark.sql import SparkSession

from mt_core.identifiers import quote, string_literal
from mt_core.model.connector_table import ConnectorTable
from mt_core.spark.catalogs.connector_tables import stored_table
from mt_core.spark.queries.temporary import rows_without_end

FILES = frozenset({"parquet", "orc", "csv", "json", "text", "avro"})
_GLOBAL = "global_temp"


def stream_of(session: SparkSession, table: ConnectorTable) -> str | None:
    """Return a relation in brackets that reads *table* as a stream, with its watermark; None if it is read as it stands."""
    if table.unbounded is not None:
        return _generated(session, table)
    if table.query or _provider(session, table) not in FILES:
        return None
    watermark = ""
    if table.watermark is not None:
        amount, _, unit = table.watermark.delay.partition(" ")
        watermark = f" WATERMARK {quote(table.watermark.column)} DELAY OF INTERVAL {string_literal(amount)} {unit}"
    return f"(SELECT * FROM STREAM {table.stored_name}{watermark})"


def _generated(session: SparkSession, table: ConnectorTable) -> str:
    """Create the view with the rows, for all sessions of this Spark: a stream in each of them has rows of its own."""
    view = f"rows_of_{'_'.join(part.encode().hex() for part in table.parts)}"
    if table.unbounded is not None:
        rows_without_end(session, table.unbounded, table.watermark).createOrReplaceGlobalTempView(view)
    return f"(SELECT * FROM {_GLOBAL}.{view})"


def _provider(session: SparkSession, table: ConnectorTable) -> str:
    stored = stored_table(session, table.stored_name)
    provider = None if stored is None else stored.provider()
    return str(provider.get()).lower() if provider is not None and provider.isDefined() else ""
