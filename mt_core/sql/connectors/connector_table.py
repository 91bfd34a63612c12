"""CREATE TABLE … WITH (…), or with a primary key: translated from Flink's syntax to Spark's.

Spark and Flink share most of CREATE TABLE but differ in types, keys, watermarks and options. The first step
decides whether a statement is in Flink's syntax (`_is_flink_syntax`): it is if it has a WITH list, a key, a
watermark or a column list before AS. Every other statement is left to Spark, which reports its own errors.
The second step collects the clauses in a `WrittenTable`, in Flink's order, and refuses clauses that have no
equivalent. The third step depends on the connector. For tables that store rows, this module writes Spark's
CREATE TABLE text; Kafka tables and tables that store no rows are built in `rowless_table.py`. A query after
AS keeps its line and column, so that the positions in Spark's errors refer to the user's text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile

from mt_core.base.identifiers import property_list, quote, sql_name, string_literal
from mt_core.base.tokens import TokenKind, significant
from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.model.connector_table import Watermark
from mt_core.model.temporary_files import TemporaryFiles
from mt_core.sql.catalog import CatalogStatement, CreateConnectorTable
from mt_core.sql.connectors.kafka import MetadataColumn
from mt_core.sql.connectors.kinds import (
    FORMATS,
    STREAMING_CONNECTORS,
    TOPICS,
    UPSERT_KAFKA,
    Source,
    source_of,
)
from mt_core.sql.connectors.rowless_table import rowless_table, topic_table, with_event_time
from mt_core.sql.connectors.written_table import WrittenTable
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.flink.changes import not_enforced, read_key
from mt_core.sql.flink.types import read_type
from mt_core.sql.statements import ColumnSpec

_TYPES_WITHOUT_KEYS = ("FLOAT", "DOUBLE", "ARRAY", "MAP", "STRUCT", "VARIANT")
# Words before brackets that do not contain columns, and words that occur in Spark's CREATE TABLE but not in
# Flink's.
_BEFORE_BRACKETS = frozenset({"BY", "WITH", "OPTIONS", "TBLPROPERTIES", "ON"})
_SPARK_WORDS = frozenset({"USING", "OPTIONS", "LOCATION", "TBLPROPERTIES", "CLUSTERED", "ROW", "STORED"})
_NOT_TEMPORARY = "a table that is not of a file or database connector"


def read_connector_table(cursor: TokenCursor, text: str) -> CatalogStatement | None:
    """Read the rest of CREATE [OR REPLACE] [TEMPORARY] TABLE.

    Return None if the statement is in Spark's syntax.
    """
    if not _is_flink_syntax(text):
        return None
    words = frozenset(takewhile(lambda word: word != "TABLE", (token.keyword for token in significant(text))))
    table = WrittenTable(
        words=words,
        temporary="TEMPORARY" in words,
        if_not_exists=cursor.accept("IF", "NOT", "EXISTS"),
        name=cursor.name("the name of a table"),
    )
    _read_columns(cursor, table)
    _read_end(cursor, table)
    is_topic = table.connector in TOPICS
    for name in () if is_topic else (*table.metadata, *table.computed):
        raise _computed(table, name)
    if table.query is not None and (table.specs or table.keys):
        _check_columns_of_query(table)
    elif table.untyped is not None:
        raise table.untyped
    _check_keys(table)
    if table.connector in STREAMING_CONNECTORS:
        return topic_table(table) if is_topic else rowless_table(table)
    return _stored(table)


def _read_columns(cursor: TokenCursor, table: WrittenTable) -> None:
    """Read the part before WITH and AS: the columns, the comment and the partition columns."""
    if cursor.word() == "(":
        for _ in cursor.entries("the columns", empty=True):
            _read_column(cursor, table)
    table.comment = cursor.comment()
    if cursor.word() in {"DISTRIBUTED", "LIKE"}:
        raise Unsupported(
            f"Table {table}: {cursor.word()} is not supported for a table in Flink's syntax; leave it out."
        )
    if cursor.accept("PARTITIONED"):
        cursor.expect("BY")
        table.partition_keys = [
            cursor.identifier("a partition column") for _ in cursor.entries("the columns")
        ]


def _stored(table: WrittenTable) -> CreateConnectorTable:
    for name in table.now_columns:
        raise _computed(table, name)
    source = source_of(str(table), table.options)
    _set_event_time(table, source)
    return CreateConnectorTable(
        name=table.name,
        connector=table.options["connector"].lower() if "connector" in table.options else None,
        spark_sql=_spark_sql(table, source),
        is_temporary=table.temporary,
        if_not_exists=table.if_not_exists,
        keys=table.keys if table.has_keys else (),
        columns=tuple(table.specs) if table.query is not None else (),
        query=table.query or "",
        watermark=table.watermark,
        column_list=tuple(table.columns.values()) if table.query is None else (),
        clauses="" if table.temporary else _joined(_clauses(table, source)),
        options=table.options,
        comment=table.comment,
        partition_keys=tuple(table.partition_keys),
        all_keys=table.keys,
    )


def _set_event_time(table: WrittenTable, source: Source) -> None:
    """Make the watermark column a TIMESTAMP if Spark itself reads the table.

    Iceberg tables have no watermark.
    """
    if source.provider in {None, "iceberg"} or table.watermark is None or table.query is not None:
        return
    for spec in with_event_time(table):
        if spec.name in table.columns and spec.name.lower() == table.watermark.column.lower():
            column, name = table.columns[spec.name], quote(spec.name)
            rest = column.removeprefix(name).lstrip().partition(" ")[2]
            table.columns[spec.name] = " ".join(filter(None, (name, spec.type, rest)))


def _read_end(cursor: TokenCursor, table: WrittenTable) -> None:
    if cursor.accept("WITH"):
        table.options = cursor.properties()
    if cursor.accept("AS"):
        query, line, column = cursor.query()
        # The padding keeps the query at its line and column in the text that the client sent.
        table.query = "\n" * (line - 1) + " " * (column - 1) + query
    if cursor.word() == "LIKE":
        raise Unsupported(
            f"Table {table}: LIKE is not supported for a table in Flink's syntax; write its columns."
        )
    cursor.expect_end(f"{'' if table.options else 'WITH (…), '}AS query, or the end of the statement")


def _check_columns_of_query(table: WrittenTable) -> None:
    """Refuse column properties that CREATE TABLE … AS does not support."""
    way_out = f"CREATE TABLE {table} (…) first, then INSERT INTO {table} its query"
    if table.keys:
        raise Unsupported(f"Table {table}: PRIMARY KEY cannot be combined with AS; {way_out}.")
    types = [each.type is None for each in table.specs]
    if any(types) and not all(types):
        raise Unsupported(f"Table {table}: give every column of the list a type, or none.")
    for each in table.specs:
        if not each.nullable or each.comment is not None:
            what = "COMMENT" if each.nullable else "NOT NULL"
            raise Unsupported(
                f"Table {table}, column {each.name}: {what} cannot be combined with AS; {way_out}."
            )


def _check_keys(table: WrittenTable) -> None:
    """Make the key columns NOT NULL, as Flink does.

    Raises DefinitionInvalid for columns that cannot be keys.
    """
    columns = {name.lower(): name for name in table.columns}
    for key in table.keys:
        name = columns.get(key.lower())
        if name is None:
            raise DefinitionInvalid(
                f"Table {table}: PRIMARY KEY names {key}, which is not a column of the table."
            )
        kind = table.columns[name].removeprefix(quote(name)).strip()
        if not table.has_keys and table.connector != UPSERT_KAFKA:
            continue
        if kind.upper().startswith(_TYPES_WITHOUT_KEYS):
            raise DefinitionInvalid(
                f"Table {table}: column {key} of type {kind} cannot be in a PRIMARY KEY; choose another."
            )
        if " NOT NULL" not in kind:
            # NOT NULL must stand between the type and the comment.
            kind, comment, text = kind.partition(" COMMENT ")
            table.columns[name] = f"{quote(name)} {kind} NOT NULL{comment}{text}"


def _is_flink_syntax(text: str) -> bool:
    """Return whether *text* has `WITH (`, a column list before AS, a primary key or a watermark."""
    cursor, depth, before, listed, is_spark = TokenCursor(text), 0, "", False, False
    while token := cursor.take():
        word = token.keyword
        if token.kind is TokenKind.SYMBOL:
            listed |= depth == 0 and token.text == "(" and before not in _BEFORE_BRACKETS
            depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0 and word == "AS":
            return listed and not is_spark
        is_spark |= depth == 0 and word in _SPARK_WORDS
        if depth == 0 and word == "WITH" and cursor.word() == "(":
            return True
        if depth == 1 and (before, word) in {("PRIMARY", "KEY"), ("WATERMARK", "FOR")}:
            return True
        before = word
    return False


def _read_column(cursor: TokenCursor, table: WrittenTable) -> None:
    if _accept_key(cursor, table) or _accept_watermark(cursor, table) or _accept_unenforced(cursor):
        return
    name = cursor.identifier("a column name")
    if any(each.name.lower() == name.lower() for each in table.specs):
        raise cursor.refusal(f"column {name} is given twice")
    if _accept_computed(cursor, table, name):
        return
    if cursor.word() in {",", ")"}:
        table.untyped = table.untyped or cursor.error(f"the type of column {name}")
        table.specs.append(ColumnSpec(name=name))
        return
    kind = read_type(cursor)
    nullable = cursor.accept("NULL") or not cursor.accept("NOT", "NULL")
    column = f"{quote(name)} {kind}{'' if nullable else ' NOT NULL'}"
    if cursor.accept("METADATA"):
        key = cursor.string("the key of the metadata in quotes") if cursor.accept("FROM") else name
        table.metadata[name] = MetadataColumn(key=key, virtual=cursor.accept("VIRTUAL"))
    if cursor.accept("PRIMARY", "KEY"):
        not_enforced(cursor, str(table))
        _set_keys(table, (name,))
    _accept_unenforced(cursor)
    if (comment := cursor.comment()) is not None:
        column += f" COMMENT {string_literal(comment)}"
    table.columns[name] = column
    table.specs.append(ColumnSpec(name=name, type=kind, nullable=nullable, comment=comment))


def _accept_computed(cursor: TokenCursor, table: WrittenTable, name: str) -> bool:
    """Read AS PROCTIME() or AS expression if it comes next; return whether it did."""
    if cursor.accept("AS", "PROCTIME", "(", ")"):
        table.now_columns.add(name)
        table.specs.append(ColumnSpec(name=name, type="TIMESTAMP"))
        return True
    if cursor.accept("AS"):
        table.computed[name] = cursor.text_of(lambda: _skip_item(cursor), "an expression")
        table.specs.append(ColumnSpec(name=name))
        return True
    return False


def _accept_key(cursor: TokenCursor, table: WrittenTable) -> bool:
    is_named = cursor.word() == "CONSTRAINT" and cursor.word(2) == "PRIMARY"
    if not is_named and (cursor.word(), cursor.word(1)) != ("PRIMARY", "KEY"):
        return False
    _set_keys(table, read_key(cursor, str(table)))
    return True


def _set_keys(table: WrittenTable, keys: tuple[str, ...]) -> None:
    if table.keys:
        raise DefinitionInvalid(f"Table {table}: a table has one PRIMARY KEY; name all its columns in it.")
    table.keys = keys


def _accept_watermark(cursor: TokenCursor, table: WrittenTable) -> bool:
    """Read WATERMARK FOR column AS expression if it comes next; return whether it did.

    Only streams use watermarks. If the expression is not a column with an optional delay, this is recorded,
    and a later step refuses it.
    """
    if not cursor.accept("WATERMARK", "FOR"):
        return False
    column, ahead = cursor.identifier("the column of the watermark"), 2
    cursor.expect("AS")
    delayed = (first := cursor.peek()) is not None and first.value.lower() == column.lower()
    if delayed and cursor.word(1) == "-" and cursor.word(2) == "INTERVAL":
        amount, ahead = cursor.peek(3), 5
        delay = f"{amount.value} {cursor.word(4)}" if amount is not None else ""
    else:
        delay, ahead = "0 SECOND", 1
    if delayed and cursor.word(ahead) in {",", ")"}:
        table.watermark = Watermark(column=column, delay=delay)
    else:
        table.has_other_watermark = True
    _skip_item(cursor)
    return True


def _accept_unenforced(cursor: TokenCursor) -> bool:
    """Skip a UNIQUE constraint, because Flink does not enforce keys; return whether there was one."""
    if cursor.word() not in {"CONSTRAINT", "UNIQUE"}:
        return False
    _skip_item(cursor)
    return True


def _skip_item(cursor: TokenCursor) -> None:
    """Move to the end of an entry in the column list."""
    depth = 0
    while (token := cursor.peek()) and (depth or token.text not in {",", ")"}) and token.keyword != "COMMENT":
        if token.kind is TokenKind.SYMBOL:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
        cursor.take()


def _computed(table: WrittenTable, name: str) -> Unsupported:
    return Unsupported(
        f"Table {table}, column {name}: computed and metadata columns are not supported; use a view."
    )


# --------------------------------------------------------------------------------------------------- in Spark


def _spark_sql(table: WrittenTable, source: Source) -> str:
    clauses = _temporary(table, source) if table.temporary else _permanent(table, source)
    text = _joined(clauses)
    if table.query is None or table.specs:
        return text
    # If the query is on the first line, its column depends on the length of the clauses before it.
    query = table.query if table.query.startswith("\n") else f" {table.query.lstrip()}"
    return f"{text} AS{query}"


def _temporary(table: WrittenTable, source: Source) -> Iterable[str]:
    if table.query is not None or table.if_not_exists or source.provider in {"iceberg", None}:
        what = (
            "AS query"
            if table.query is not None
            else "IF NOT EXISTS"
            if table.if_not_exists
            else _NOT_TEMPORARY
        )
        raise Unsupported(
            f"Table {table}: {what} cannot be combined with TEMPORARY; use CREATE TEMPORARY VIEW … AS query, "
            "or a permanent table."
        )
    files = TemporaryFiles(watermark=table.watermark, partition_keys=tuple(table.partition_keys))
    return (
        f"CREATE {'OR REPLACE ' if 'REPLACE' in table.words else ''}TEMPORARY VIEW {sql_name(table.name)}",
        _list(table.columns.values()),
        f"USING {source.provider}",
        _pairs("OPTIONS", {**source.options, **(files.to_options() if source.provider in FORMATS else {})}),
    )


def _permanent(table: WrittenTable, source: Source) -> Iterable[str]:
    # REPLACE TABLE without CREATE requires an existing table.
    head = " ".join(word for word in ("CREATE", "OR", "REPLACE") if word in table.words)
    return (
        f"{head} TABLE {'IF NOT EXISTS ' if table.if_not_exists else ''}{sql_name(table.name)}",
        _list(table.columns.values()) if table.query is None else "",
        *_clauses(table, source),
    )


def _clauses(table: WrittenTable, source: Source) -> Iterable[str]:
    return (
        f"USING {source.provider}" if source.provider else "",
        _pairs("OPTIONS", source.options),
        f"PARTITIONED BY {_list(quote(key) for key in table.partition_keys)}" if table.partition_keys else "",
        f"LOCATION {string_literal(source.location)}" if source.location else "",
        f"COMMENT {string_literal(table.comment)}" if table.comment is not None else "",
        _pairs("TBLPROPERTIES", source.properties),
    )


def _joined(clauses: Iterable[str]) -> str:
    return " ".join(clause for clause in clauses if clause)


def _list(items: Iterable[str]) -> str:
    listed = ", ".join(items)
    return f"({listed})" if listed else ""


def _pairs(word: str, options: Mapping[str, str]) -> str:
    return f"{word} ({property_list(options)})" if options else ""
