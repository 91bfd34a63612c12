"""SHOW CREATE TABLE of a connector table, in Flink's syntax."""

from __future__ import annotations

from mt_core.base.identifiers import property_list, quote, string_literal
from mt_core.base.secrets import masked
from mt_core.model.connector_table import ConnectorTable
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.flink.spark_types import in_flink


def show_create(table: ConnectorTable) -> str:
    """Return the CREATE TABLE statement, one clause a line, with secret option values masked."""
    items = [_column(column) for column in table.columns]
    if table.watermark is not None:
        items.append(f"WATERMARK FOR {quote(table.watermark.column)} AS {table.watermark_text()}")
    if table.keys:
        items.append(f"PRIMARY KEY ({', '.join(map(quote, table.keys))}) NOT ENFORCED")
    clauses = [f"CREATE TABLE {table.name} (", ",\n".join(f"  {item}" for item in items), ")"]
    if table.comment is not None:
        clauses.append(f"COMMENT {string_literal(table.comment)}")
    if table.partition_keys:
        clauses.append(f"PARTITIONED BY ({', '.join(map(quote, table.partition_keys))})")
    clauses.append("WITH (\n  " + property_list(masked(table.options), ",\n  ") + "\n)")
    return "\n".join(clauses) + "\n"


def _column(column: str) -> str:
    """Return the definition of a column with its Spark type translated to Flink's."""
    cursor = TokenCursor(column)
    name = cursor.identifier("a column")
    first = cursor.peek()
    rest = column[first.start :] if first is not None else ""
    if cursor.word() == "AS":
        return column
    kind, end = rest, ""
    for word in (" NOT NULL", " METADATA FROM ", " COMMENT "):
        before, found, after = kind.partition(word)
        kind, end = before, found + after + end
    return f"{quote(name)} {in_flink(kind)}{end}"
