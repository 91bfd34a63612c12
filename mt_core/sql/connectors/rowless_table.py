"""Tables of connectors that store no rows: generators, sinks and Kafka topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mt_core.base.identifiers import quote, sql_name, string_literal
from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.model.connector_table import GeneratedRows
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.connectors.generated_rows import COUNTER, TIME, generated_rows
from mt_core.sql.connectors.kafka import KafkaColumns, kafka_topic, upsert_topic
from mt_core.sql.connectors.kinds import SINKS, TOPICS, UPSERT_KAFKA, check_sink
from mt_core.sql.connectors.written_table import WrittenTable
from mt_core.sql.statements import ColumnSpec

_EVENT_TIMES = ("TIMESTAMP", "TIMESTAMP_NTZ")
# The columns of a `rate` table that has no column list.
_RATE_ITEMS = ["CAST(NULL AS TIMESTAMP) AS `timestamp`", "CAST(NULL AS BIGINT) AS `value`"]
_UNREADABLE_REASONS = (
    "has unbounded rows, which a batch query cannot read; SET 'execution.runtime-mode' = 'streaming'",
    "is a sink and cannot be read; read another table",
)


def rowless_table(table: WrittenTable) -> CreateConnectorTable:
    """Return a table whose connector stores no rows: it generates rows or writes the rows of a stream."""
    connector, or_replace = table.options["connector"].lower(), "REPLACE" in table.words
    _check_words(table, connector)
    rows, specs = None, table.specs
    if connector in SINKS:
        check_sink(str(table), table.options, table.columns)
    else:
        specs = with_event_time(table)
        rows = generated_rows(str(table), table.options, specs, frozenset(table.now_columns))
    is_unbounded = rows is not None and rows.number_of_rows is None
    query = _counted(rows) if rows is not None and not is_unbounded else _unreadable(table, specs, connector)
    replacing, temporary = "OR REPLACE " if or_replace else "", "TEMPORARY " if table.temporary else ""
    spark_sql = f"CREATE {replacing}{temporary}VIEW {sql_name(table.name)} AS {query}"
    return CreateConnectorTable(
        name=table.name,
        connector=connector,
        spark_sql="" if table.temporary and rows is not None else spark_sql,
        is_temporary=table.temporary,
        if_not_exists=table.if_not_exists,
        or_replace=or_replace,
        unbounded=rows if is_unbounded else None,
        bounded=None if is_unbounded else rows,
        watermark=table.watermark,
        column_list=() if table.temporary else tuple(f"{quote(spec.name)} {spec.type}" for spec in specs),
        options={} if table.temporary else table.options,
        comment=None if table.temporary else table.comment,
        all_keys=() if table.temporary else table.keys,
        rows="" if table.temporary and (rows is None or is_unbounded) else query,
    )


def topic_table(table: WrittenTable) -> CreateConnectorTable:
    """Return a table over a Kafka topic."""
    _check_words(table, table.connector)
    computed = table.computed | dict.fromkeys(table.now_columns, "current_timestamp()")
    if table.watermark is not None and table.watermark.column in computed:
        # Only Spark can infer the type of the expression, and event time must be a TIMESTAMP with time zone.
        computed[table.watermark.column] = f"CAST(({computed[table.watermark.column]}) AS TIMESTAMP)"
    columns = KafkaColumns(specs=with_event_time(table), metadata=table.metadata, computed=computed)
    upserts = table.connector == UPSERT_KAFKA
    name, options = str(table), table.options
    return CreateConnectorTable(
        name=table.name,
        connector=table.connector,
        spark_sql="",
        is_temporary=table.temporary,
        if_not_exists=table.if_not_exists,
        or_replace="REPLACE" in table.words,
        kafka=upsert_topic(name, options, columns, table.keys)
        if upserts
        else kafka_topic(name, options, columns),
        watermark=table.watermark,
        column_list=() if table.temporary else tuple(_declared(table, spec) for spec in columns.specs),
        options={} if table.temporary else table.options,
        comment=None if table.temporary else table.comment,
        all_keys=() if table.temporary else table.keys,
    )


def _declared(table: WrittenTable, spec: ColumnSpec) -> str:
    """Return the entry of a column in a CREATE TABLE column list, with its Spark type."""
    if spec.name in table.now_columns:
        return f"{quote(spec.name)} AS PROCTIME()"
    if spec.name in table.computed:
        return f"{quote(spec.name)} AS {table.computed[spec.name]}"
    is_key = table.connector == UPSERT_KAFKA and spec.name.lower() in map(str.lower, table.keys)
    text = f"{quote(spec.name)} {spec.type}{' NOT NULL' if is_key or not spec.nullable else ''}"
    if (metadata := table.metadata.get(spec.name)) is not None:
        text += f" METADATA FROM {string_literal(metadata.key)}{' VIRTUAL' if metadata.virtual else ''}"
    return text if spec.comment is None else f"{text} COMMENT {string_literal(spec.comment)}"


def _check_words(table: WrittenTable, connector: str) -> None:
    """Refuse clauses that a table without stored rows cannot have."""
    if table.temporary and (table.if_not_exists or len(table.name) > 1):
        what = "IF NOT EXISTS" if table.if_not_exists else "a name with a database"
        raise Unsupported(
            f"Table {table}: {what} cannot be combined with TEMPORARY; write CREATE OR REPLACE TEMPORARY "
            f"TABLE {quote(table.name[-1])}, or leave TEMPORARY out."
        )
    if table.query is not None:
        raise Unsupported(
            f"Table {table}: AS query cannot be combined with connector '{connector}', "
            f"{_without_query(table, connector)}"
        )
    if table.partition_keys:
        raise Unsupported(f"Table {table}: connector '{connector}' stores no rows; leave PARTITIONED BY out.")


def _without_query(table: WrittenTable, connector: str) -> str:
    """Return why the connector does not allow AS query, and what to write instead."""
    if connector not in {*SINKS, *TOPICS}:
        return "which generates its rows; leave AS query out."
    what, how = (
        ("which stores its rows in a topic", "")
        if connector in TOPICS
        else ("which stores no rows", " in streaming mode")
    )
    words = "CREATE TEMPORARY TABLE" if table.temporary else "CREATE TABLE"
    return (
        f"{what}; write {words} {table} (column type, …) WITH ('connector' = '{connector}', …) without AS, "
        f"then INSERT INTO {table} and the query{how}."
    )


def _counted(rows: GeneratedRows) -> str:
    counter = f"SELECT id AS {COUNTER}, current_timestamp() AS {TIME} FROM range({rows.number_of_rows or 0})"
    return f"SELECT {', '.join(rows.items)} FROM ({counter})"


def _unreadable(table: WrittenTable, specs: Sequence[ColumnSpec], connector: str) -> str:
    """Return a query with the columns of a table that a batch cannot read. The query fails when it runs."""
    why = _UNREADABLE_REASONS[connector in SINKS]
    reason = string_literal(f"Table {table}: connector '{connector}' {why}.")
    items = [f"CAST(NULL AS {spec.type}) AS {quote(spec.name)}" for spec in specs] or _RATE_ITEMS
    # The error is raised in WHERE, because a query that only counts rows evaluates no SELECT item.
    return f"SELECT {', '.join(items)} FROM VALUES (1) WHERE CAST(raise_error({reason}) AS BOOLEAN)"


def with_event_time(table: WrittenTable) -> list[ColumnSpec]:
    """Return the columns, with the watermark column as TIMESTAMP.

    Spark requires event time with a time zone. Raises Unsupported or DefinitionInvalid for an invalid
    watermark.
    """
    if table.has_other_watermark:
        raise Unsupported(
            f"Table {table}: write WATERMARK FOR column AS column - INTERVAL '5' SECOND, or AS column."
        )
    if table.watermark is None:
        return table.specs
    name = table.watermark.column
    column = next((spec for spec in table.specs if spec.name.lower() == name.lower()), None)
    if column is None:
        raise DefinitionInvalid(
            f"Table {table}: WATERMARK FOR {name}, which is not a column of the table; the columns are "
            f"{', '.join(spec.name for spec in table.specs)}."
        )
    if column.name not in table.computed and column.type not in _EVENT_TIMES:
        raise DefinitionInvalid(
            f"Table {table}: WATERMARK FOR {name} needs a column of type TIMESTAMP or TIMESTAMP_LTZ."
        )
    return [replace(spec, type="TIMESTAMP") if spec is column else spec for spec in table.specs]
