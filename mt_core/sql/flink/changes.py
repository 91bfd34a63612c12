"""ALTER and DROP of tables, databases and views, translated from Flink's syntax to Spark's.

Flink's ALTER TABLE is translated clause by clause to the equivalent of Spark or Iceberg; for example, a
primary key becomes identifier fields. Both dialects have ALTER TABLE, so each reader first recognizes Spark's
forms (`_SPARK_ADD` and others) and returns None for them. The statement then goes to Spark unchanged. Flink's
forms that Spark cannot perform are refused with the nearest Spark statement. A statement is translated
completely or not at all, because it cannot mix the two dialects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from mt_core.base.identifiers import display_name, property_list, quote, sql_name, string_literal
from mt_core.errors import Unsupported
from mt_core.sql.catalog import CatalogStatement, DropTemporaryView, SparkStatement
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.flink.types import read_type
from mt_core.sql.statements import Name

_SPARK_ADD = {"COLUMN", "COLUMNS", "PARTITION", "CHECK", "FOREIGN", "IF"}
_SPARK_DROP = {"COLUMN", "COLUMNS", "PARTITION", "IF", "BRANCH", "TAG", "IDENTIFIER"}
_SPARK_RENAME = {"COLUMN", "PARTITION"}
_WATERMARK = "leave it out, because batch queries do not use watermarks"


def alter_table(cursor: TokenCursor, text: str) -> CatalogStatement | None:
    """Read ALTER TABLE [IF EXISTS] t SET (…) | RESET (…) | RENAME … | ADD … | MODIFY … | DROP ….

    Returns None for Spark's own forms.
    """
    if cursor.accept("IF", "EXISTS"):
        raise Unsupported("ALTER TABLE IF EXISTS is not supported; leave IF EXISTS out.")
    name = cursor.name("the name of a table")
    change = _CHANGES.get(cursor.word())
    if change is None:
        return None
    cursor.take()
    clause = change(cursor, name)
    if clause is None:
        return None
    cursor.expect_end()
    return SparkStatement(spark_sql=f"ALTER TABLE {sql_name(name)} {clause}")


def _set(cursor: TokenCursor, name: Name) -> str | None:
    return f"SET TBLPROPERTIES ({property_list(cursor.properties())})" if cursor.word() == "(" else None


def _reset(cursor: TokenCursor, name: Name) -> str:
    return f"UNSET TBLPROPERTIES IF EXISTS ({', '.join(map(string_literal, cursor.property_keys()))})"


def _rename(cursor: TokenCursor, name: Name) -> str | None:
    if cursor.word() in _SPARK_RENAME and cursor.word(1) != "TO":
        return None
    if cursor.accept("TO"):
        new = cursor.name("the new name of the table")
        # Spark resolves the new name within the catalog of the table.
        return f"RENAME TO {sql_name(new[1:] if len(new) > 2 and new[0] == name[0] else new)}"
    old = cursor.identifier("a column name")
    cursor.expect("TO")
    return f"RENAME COLUMN {quote(old)} TO {quote(cursor.identifier('the new name of the column'))}"


def _add(cursor: TokenCursor, name: Name) -> str | None:
    if cursor.word() in _SPARK_ADD and cursor.peek(1) is not None:
        return None
    if cursor.word() == "CONSTRAINT" and cursor.word(2) != "PRIMARY":
        return None
    if cursor.word() in {"PRIMARY", "CONSTRAINT"}:
        return f"SET IDENTIFIER FIELDS {', '.join(map(quote, read_key(cursor, display_name(name))))}"
    _refuse_watermark(cursor, name)
    columns = [_column(cursor, name) for _ in _one_or_more(cursor)]
    return f"ADD COLUMNS ({', '.join(columns)})"


def _modify(cursor: TokenCursor, name: Name) -> str:
    _refuse_watermark(cursor, name)
    if cursor.word() in {"PRIMARY", "CONSTRAINT"}:
        raise _refused(name, "MODIFY of a key", "use Spark's ALTER TABLE … SET IDENTIFIER FIELDS column, …")
    changes: list[str] = []
    for _ in _one_or_more(cursor):
        column = quote(cursor.identifier("a column name"))
        kind = read_type(cursor)
        if cursor.accept("NOT", "NULL"):
            raise _refused(
                name, "MODIFY … NOT NULL", f"use Spark's ALTER TABLE … ALTER COLUMN {column} SET NOT NULL"
            )
        cursor.accept("NULL")
        changes.append(f"CHANGE COLUMN {column} {column} {kind}{_comment_and_position(cursor)}")
    if len(changes) > 1:
        raise _refused(name, "MODIFY of several columns", "MODIFY the columns one at a time")
    return changes[0]


def _drop(cursor: TokenCursor, name: Name) -> str | None:
    if cursor.word() in _SPARK_DROP and cursor.peek(1) is not None:
        return None
    if cursor.word() == "PRIMARY" and cursor.word(1) == "KEY":
        raise _refused(name, "DROP PRIMARY KEY", "use Spark's ALTER TABLE … DROP IDENTIFIER FIELDS column, …")
    if cursor.word() == "CONSTRAINT" and cursor.peek(1) is not None:
        return None
    if cursor.word() == "WATERMARK":
        raise _refused(name, "DROP WATERMARK", _WATERMARK)
    columns = [quote(cursor.identifier("a column name")) for _ in _one_or_more(cursor)]
    return f"DROP COLUMNS ({', '.join(columns)})"


_CHANGES: Mapping[str, Callable[[TokenCursor, Name], str | None]] = {
    "SET": _set,
    "RESET": _reset,
    "RENAME": _rename,
    "ADD": _add,
    "MODIFY": _modify,
    "DROP": _drop,
}


def read_key(cursor: TokenCursor, table: str) -> tuple[str, ...]:
    """Read [CONSTRAINT name] PRIMARY KEY (column, …) NOT ENFORCED. Raises Unsupported for an enforced key."""
    if cursor.accept("CONSTRAINT"):
        cursor.identifier("the name of a constraint")
    cursor.expect("PRIMARY", "KEY")
    keys = tuple(cursor.identifier("a column of the key") for _ in cursor.entries("the columns of the key"))
    not_enforced(cursor, table)
    return keys


def not_enforced(cursor: TokenCursor, table: str) -> None:
    """Read NOT ENFORCED, which a key requires."""
    if not cursor.accept("NOT", "ENFORCED"):
        raise Unsupported(
            f"Table {table}: an enforced PRIMARY KEY is not supported; write PRIMARY KEY (…) NOT ENFORCED."
        )


def _column(cursor: TokenCursor, name: Name) -> str:
    column = cursor.identifier("a column name")
    if cursor.word() in {"AS", "METADATA"}:
        raise _refused(name, f"column {column}: a computed or metadata column", "use a view")
    kind = read_type(cursor)
    if cursor.accept("NOT", "NULL"):
        raise _refused(name, f"column {column}: NOT NULL", "existing rows have no value: leave NOT NULL out")
    cursor.accept("NULL")
    return f"{quote(column)} {kind}{_comment_and_position(cursor)}"


def _comment_and_position(cursor: TokenCursor) -> str:
    comment = cursor.comment()
    text = f" COMMENT {string_literal(comment)}" if comment is not None else ""
    if cursor.accept("FIRST"):
        return f"{text} FIRST"
    return f"{text} AFTER {quote(cursor.identifier('a column name'))}" if cursor.accept("AFTER") else text


def _one_or_more(cursor: TokenCursor) -> Iterator[None]:
    """Read a column or `( column, … )`. The body of a loop over the result reads one column per iteration."""
    if cursor.word() == "(":
        yield from cursor.entries("the columns")
    else:
        yield


def _refuse_watermark(cursor: TokenCursor, name: Name) -> None:
    if cursor.word() == "WATERMARK" and cursor.word(1) == "FOR":
        raise _refused(name, "WATERMARK", _WATERMARK)


def _refused(name: Name, what: str, way_out: str) -> Unsupported:
    return Unsupported(f"ALTER TABLE {display_name(name)}: {what} is not supported; {way_out}.")


# ------------------------------------------------------------------------------------------- databases, views


def create_database(cursor: TokenCursor, text: str) -> CatalogStatement | None:
    """Read CREATE DATABASE … WITH ('key' = 'value', …); return None for Spark's own forms."""
    guard = "IF NOT EXISTS " if cursor.accept("IF", "NOT", "EXISTS") else ""
    name, comment = cursor.name("the name of a database"), cursor.comment()
    if not cursor.accept("WITH") or cursor.word() != "(":
        return None
    properties = property_list(cursor.properties())
    cursor.expect_end()
    text = f" COMMENT {string_literal(comment)}" if comment is not None else ""
    return SparkStatement(
        spark_sql=f"CREATE NAMESPACE {guard}{sql_name(name)}{text} WITH DBPROPERTIES ({properties})"
    )


def alter_database(cursor: TokenCursor, text: str) -> CatalogStatement | None:
    """Read ALTER DATABASE d SET ('key' = 'value', …); return None for Spark's own forms."""
    name = cursor.name("the name of a database")
    if not cursor.accept("SET") or cursor.word() != "(":
        return None
    properties = property_list(cursor.properties())
    cursor.expect_end()
    return SparkStatement(spark_sql=f"ALTER NAMESPACE {sql_name(name)} SET DBPROPERTIES ({properties})")


def drop_temporary(cursor: TokenCursor, text: str) -> CatalogStatement | None:
    """Read the rest of DROP TEMPORARY TABLE | VIEW.

    The name is always that of a temporary view, because a temporary table is stored as a view.
    """
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name("the name of a temporary table or view")
    cursor.expect_end()
    if len(name) > 1:
        raise Unsupported(
            f"{display_name(name)}: a temporary view has a name without a database; leave it out."
        )
    return DropTemporaryView(name=name[0], if_exists=if_exists)
