"""Translates statements, such as CREATE TABLE in Flink's syntax, to the SQL that Spark runs."""

from __future__ import annotations

from dataclasses import replace

from mt_core.base.identifiers import quote, sql_name
from mt_core.errors import DefinitionInvalid, QueryFailed
from mt_core.model.stream import StreamMember
from mt_core.sessions.ports import CatalogEngine, SessionContext
from mt_core.sql.catalog import CreateConnectorTable, SparkStatement
from mt_core.sql.flink.columns_of_query import overrides, select_list
from mt_core.sql.parser import ReadStatement

_ICEBERG = "org.apache.iceberg.spark.SparkCatalog"


def in_spark(read: ReadStatement, engine: CatalogEngine, context: SessionContext) -> tuple[str, ...]:
    """Return the statements that Spark runs. Only statements in Flink's syntax are translated.

    Raises DefinitionInvalid for a table that its catalog cannot store as declared.
    """
    match read.fact:
        case CreateConnectorTable(is_temporary=False) as table:
            _check_catalog(table, engine, context)
            if table.columns:
                return (_with_columns(table, engine, context),)
            return _with_keys(table, engine, context)
        case SparkStatement(spark_sql=text):
            return (text,)
        case _:
            return (read.text,)


def member_in_spark(read: ReadStatement, engine: CatalogEngine, context: SessionContext) -> StreamMember:
    """Return CREATE or REPLACE TABLE … AS as one Spark text, with the positions of its hints adjusted.

    Raises the errors of `in_spark`.
    """
    text, hints = in_spark(read, engine, context)[0], read.hints
    if text != read.text and isinstance(read.fact, CreateConnectorTable):
        # All hints are in the query, which ends both texts, except for a closing parenthesis.
        query = read.fact.query.strip()
        moved = text.rindex(query) - read.text.rindex(query)
        hints = tuple(replace(hint, start=hint.start + moved, stop=hint.stop + moved) for hint in hints)
    return StreamMember(text=text, hints=hints)


def _with_columns(table: CreateConnectorTable, engine: CatalogEngine, context: SessionContext) -> str:
    """Return CREATE TABLE with the query's columns cast to the declared types.

    Raises DefinitionInvalid if a column cannot be stored in its declared type.
    """
    produced = engine.query_columns(context, table.query)
    for query_column, column in overrides(table.columns, produced):
        engine.check_assignable(context, query_column, column)
    items = select_list(".".join(table.name), table.columns, produced)
    # The parenthesis needs its own line, because the query may end with a comment.
    return f"{table.spark_sql} AS SELECT {items} FROM ({table.query.strip()}\n)"


def _with_keys(
    table: CreateConnectorTable, engine: CatalogEngine, context: SessionContext
) -> tuple[str, ...]:
    """Return CREATE TABLE and an ALTER TABLE for its primary key.

    Iceberg can set identifier fields only with ALTER TABLE.
    """
    if not table.keys:
        return (table.spark_sql,)
    if table.if_not_exists:
        try:
            engine.relation(context, table.name)
        except QueryFailed:
            pass
        else:
            return (table.spark_sql,)
    keys = ", ".join(map(quote, table.keys))
    return (table.spark_sql, f"ALTER TABLE {sql_name(table.name)} SET IDENTIFIER FIELDS {keys}")


def _check_catalog(table: CreateConnectorTable, engine: CatalogEngine, context: SessionContext) -> None:
    if table.connector == "iceberg" or not (table.connector or table.keys):
        return
    catalogs, name = engine.catalogs(context), table.name
    catalog = name[0] if len(name) > 1 and name[0] in catalogs else engine.session_state(context).catalog
    is_iceberg = catalogs.get(catalog, {}).get("type") == _ICEBERG
    if table.connector is None and not is_iceberg:
        raise DefinitionInvalid(
            f"Table {'.'.join(name)}: catalog {catalog} does not support PRIMARY KEY; "
            "leave it out, or create the table in an Iceberg catalog such as lake."
        )
    if table.connector is not None and table.query and is_iceberg:
        raise DefinitionInvalid(
            f"Table {'.'.join(name)}: catalog {catalog} stores the rows of a query in Iceberg tables only, "
            f"not with connector '{table.connector}'; CREATE TABLE without AS, then "
            f"INSERT INTO it, or name it spark_catalog.default.{name[-1]}."
        )
