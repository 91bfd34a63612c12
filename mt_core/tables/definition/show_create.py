"""SHOW CREATE MATERIALIZED TABLE: a definition as a CREATE statement."""

from __future__ import annotations

from mt_core.base.identifiers import property_list, quote, string_literal
from mt_core.base.secrets import masked
from mt_core.model.table import Column, MaterializedTable


def show_create(table: MaterializedTable, *, or_alter: bool) -> str:
    """Return the statement, one clause per line, with secret values masked."""
    definition = table.definition
    clauses = [
        f"CREATE {'OR ALTER ' if or_alter else ''}MATERIALIZED TABLE {table.identifier.sql} (",
        ",\n".join(f"  {_column(column)}" for column in definition.columns),
        ")",
    ]
    if definition.comment is not None:
        clauses.append(f"COMMENT {string_literal(definition.comment)}")
    partitioning = [
        *map(quote, definition.partition_keys),
        *(transform.sql for transform in definition.transforms),
    ]
    if partitioning:
        clauses.append(f"PARTITIONED BY ({', '.join(partitioning)})")
    if definition.options:
        clauses.append("WITH (\n  " + property_list(masked(definition.options), ",\n  ") + "\n)")
    if definition.cron is not None:
        clauses.append(f"SCHEDULE {definition.cron} AT TIME ZONE {string_literal(definition.zone)}")
    else:
        clauses.append(f"FRESHNESS = {definition.interval}")
    clauses.append(f"REFRESH_MODE = {definition.refresh_mode}")
    clauses.append(f"AS {definition.expanded_query}")
    return "\n".join(clauses) + "\n"


def _column(column: Column) -> str:
    parts = [quote(column.name), type_text(column.type)]
    if not column.nullable:
        parts.append("NOT NULL")
    if column.comment is not None:
        parts.append(f"COMMENT {string_literal(column.comment)}")
    return " ".join(parts)


def type_text(type_name: str) -> str:
    """Return a type in upper case, unless it may contain field names."""
    return type_name if "<" in type_name else type_name.upper()
