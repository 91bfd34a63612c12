"""CREATE TABLE … WITH ('connector' = …): Flink's statement, said in Spark's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mt_core.errors import Unsupported
from mt_core.model.table import quoted
from mt_core.sql.catalog import CatalogStatement, CreateConnectorTable
from mt_core.sql.connectors import Source, literal, source_of
from mt_core.sql.cursor import Cursor
from mt_core.sql.flink_types import read_type
from mt_core.sql.statements import Name
from mt_core.tokens import TokenKind


@dataclass(slots=True, kw_only=True)
class _Table:
    name: Name
    replace: bool
    temporary: bool
    if_not_exists: bool
    columns: list[str] = field(default_factory=list)
    comment: str | None = None
    partition_keys: list[str] = field(default_factory=list)
    options: Mapping[str, str] = field(default_factory=dict)
    query: str | None = None

    def __str__(self) -> str:
        return ".".join(self.name)


def read_connector_table(cursor: Cursor, text: str) -> CatalogStatement | None:
    """Read what follows CREATE [OR REPLACE] [TEMPORARY] TABLE; None for a table without a connector: it is Spark's."""
    if not _names_a_connector(text):
        return None
    words = _words_before_table(text)
    table = _Table(
        replace="REPLACE" in words,
        temporary="TEMPORARY" in words,
        if_not_exists=cursor.accept("IF", "NOT", "EXISTS"),
        name=cursor.name("the name of a table"),
    )
    if cursor.at_symbol("("):
        cursor.entries(lambda: _read_column(cursor, table), "the columns", empty=True)
    if cursor.accept("COMMENT"):
        table.comment = cursor.string("the comment in quotes")
    if cursor.keyword() in {"DISTRIBUTED", "LIKE"}:
        raise Unsupported(
            f"Table {table}: {cursor.keyword()} is not supported for a table with a connector; leave it out."
        )
    if cursor.accept("PARTITIONED"):
        cursor.expect("BY")
        cursor.entries(lambda: table.partition_keys.append(cursor.identifier("a partition column")), "the columns")
    cursor.expect("WITH")
    table.options = cursor.properties()
    if cursor.accept("AS"):
        table.query = _query(cursor)
    if cursor.keyword() == "LIKE":
        raise Unsupported(f"Table {table}: LIKE is not supported for a table with a connector; write its columns.")
    cursor.expect_end("AS query, or the end of the statement")
    source = source_of(str(table), table.options)
    return CreateConnectorTable(
        name=table.name,
        connector=table.options["connector"].lower(),
        spark_sql=_spark_sql(table, source),
        is_temporary=table.temporary,
    )


def _words_before_table(text: str) -> set[str]:
    cursor, words = Cursor(text), set[str]()
    while (word := cursor.keyword()) and word != "TABLE":
        words.add(word)
        cursor.take()
    return words


def _names_a_connector(text: str) -> bool:
    """Whether `WITH ('connector' …` stands outside of brackets and before AS."""
    cursor, depth = Cursor(text), 0
    while token := cursor.take():
        if token.kind is TokenKind.SYMBOL:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0 and token.keyword == "AS":
            return False
        if depth == 0 and token.keyword == "WITH" and cursor.at_symbol("("):
            return _has_connector(cursor)
    return False


def _has_connector(cursor: Cursor) -> bool:
    cursor.take()
    while (token := cursor.take()) and token.text != ")":
        if token.kind is TokenKind.STRING and token.value == "connector" and cursor.at_symbol("="):
            return True
    return False


def _read_column(cursor: Cursor, table: _Table) -> None:
    if _accept_promise(cursor):
        return
    name = cursor.identifier("a column name")
    if cursor.keyword() in {"AS", "METADATA"}:
        raise Unsupported(f"Table {table}, column {name}: computed and metadata columns are not supported; use a view.")
    if cursor.at_symbol(",") or cursor.at_symbol(")"):
        raise cursor.error(f"the type of column {name}")
    column = f"{quoted(name)} {read_type(cursor)}"
    if cursor.accept("NOT", "NULL"):
        column += " NOT NULL"
    else:
        cursor.accept("NULL")
    if cursor.keyword() == "METADATA":
        raise Unsupported(f"Table {table}, column {name}: metadata columns are not supported; leave it out.")
    _accept_promise(cursor)
    if cursor.accept("COMMENT"):
        column += f" COMMENT {literal(cursor.string('the comment in quotes'))}"
    table.columns.append(column)


def _accept_promise(cursor: Cursor) -> bool:
    """Go past a key or watermark: Flink does not enforce the one, and does without the other in batch."""
    watermark = cursor.keyword() == "WATERMARK" and cursor.keyword(1) == "FOR"
    if not watermark and cursor.keyword() != "CONSTRAINT" and not _is_key(cursor):
        return False
    depth = 0
    while (token := cursor.peek()) and (depth or token.text not in {",", ")"}) and token.keyword != "COMMENT":
        if token.kind is TokenKind.SYMBOL:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
        cursor.take()
    return True


def _is_key(cursor: Cursor) -> bool:
    return cursor.keyword() in {"PRIMARY", "UNIQUE"} and (cursor.keyword(1) == "KEY" or cursor.keyword() == "UNIQUE")


def _query(cursor: Cursor) -> str:
    """Return the query at the line and column where it was written, as far as the text before leaves room."""
    query, line, column = cursor.query()
    return "\n" * (line - 1) + " " * (column - 1) + query if line > 1 else f" {query}"


# ------------------------------------------------------------------------------------------------------------- in Spark


def _spark_sql(table: _Table, source: Source) -> str:
    clauses = _temporary(table, source) if table.temporary else _permanent(table, source)
    text = " ".join(clause for clause in clauses if clause)
    return text if table.query is None else f"{text} AS{table.query}"


def _temporary(table: _Table, source: Source) -> Iterable[str]:
    if table.query is not None or table.if_not_exists or source.provider == "iceberg":
        what = (
            "AS query" if table.query is not None else "IF NOT EXISTS" if table.if_not_exists else "connector 'iceberg'"
        )
        raise Unsupported(
            f"Table {table}: {what} does not go with TEMPORARY; use CREATE TEMPORARY VIEW … AS query, or a table that stays."
        )
    return (
        f"CREATE {'OR REPLACE ' if table.replace else ''}TEMPORARY VIEW {_sql_name(table.name)}",
        _list(table.columns),
        f"USING {source.provider}",
        _pairs("OPTIONS", source.options),
    )


def _permanent(table: _Table, source: Source) -> Iterable[str]:
    if table.query is not None and table.columns:
        raise Unsupported(
            f"Table {table}: columns do not go with AS; give them names and types in the query, with CAST(… AS type) AS name."
        )
    head = "CREATE OR REPLACE TABLE" if table.replace else "CREATE TABLE"
    return (
        f"{head} {'IF NOT EXISTS ' if table.if_not_exists else ''}{_sql_name(table.name)}",
        _list(table.columns),
        f"USING {source.provider}",
        _pairs("OPTIONS", source.options),
        f"PARTITIONED BY {_list(quoted(key) for key in table.partition_keys)}" if table.partition_keys else "",
        f"LOCATION {literal(source.location)}" if source.location else "",
        f"COMMENT {literal(table.comment)}" if table.comment is not None else "",
        _pairs("TBLPROPERTIES", source.properties),
    )


def _sql_name(name: Name) -> str:
    return ".".join(map(quoted, name))


def _list(items: Iterable[str]) -> str:
    found = list(items)
    return f"({', '.join(found)})" if found else ""


def _pairs(word: str, options: Mapping[str, str]) -> str:
    return f"{word} {_list(f'{literal(key)} = {literal(value)}' for key, value in options.items())}" if options else ""
