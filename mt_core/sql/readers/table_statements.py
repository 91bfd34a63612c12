"""Readers of statements about materialized tables; None leaves a statement to Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from mt_core.errors import SqlSyntaxError, Unsupported
from mt_core.model.run import RunStatus
from mt_core.sql.catalog import CatalogStatement
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.readers.catalog_statements import read_explain
from mt_core.sql.readers.create import read_create, read_interval
from mt_core.sql.statements import (
    AlterQuery,
    DescribeTable,
    DropBehavior,
    DropTable,
    ExplainRefresh,
    RefreshTable,
    ResumeTable,
    SetFreshness,
    ShowCreateTable,
    ShowMaterializedTables,
    ShowRefreshes,
    Statement,
    SuspendTable,
)
from mt_core.tokens import TokenKind

MOST_REFRESHES = 10_000
_COLUMNS_COME_FROM_THE_QUERY = "its columns come from its query: use ALTER MATERIALIZED TABLE … AS query"
_USE_CREATE_OR_ALTER = "use CREATE OR ALTER MATERIALIZED TABLE"


# ------------------------------------------------------------------------------------------------ CREATE, ALTER, DROP


def _is_a_view(cursor: TokenCursor) -> bool:
    """Return whether this is Spark's MATERIALIZED VIEW; raises SqlSyntaxError unless VIEW or TABLE comes next."""
    if cursor.keyword() in {"VIEW", "VIEWS"}:
        return True
    cursor.expect("TABLE")
    return False


def create(cursor: TokenCursor, text: str) -> Statement | None:
    return None if _is_a_view(cursor) else read_create(cursor, or_alter=False)


def create_or_alter(cursor: TokenCursor, text: str) -> Statement | None:
    cursor.expect("TABLE")
    return read_create(cursor, or_alter=True)


def refuse_replace(cursor: TokenCursor, text: str) -> Statement | None:
    if _is_a_view(cursor):
        return None
    raise Unsupported("CREATE OR REPLACE MATERIALIZED TABLE is not supported; use CREATE OR ALTER MATERIALIZED TABLE.")


def refuse_temporary(cursor: TokenCursor, text: str) -> Statement | None:
    if _is_a_view(cursor):
        return None
    raise Unsupported("TEMPORARY MATERIALIZED TABLE is not supported; leave TEMPORARY out, or use a TEMPORARY VIEW.")


def drop(cursor: TokenCursor, text: str) -> Statement | None:
    if _is_a_view(cursor):
        return None
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name()
    behavior = next((each for each in DropBehavior if cursor.accept(each.value)), None)
    cursor.expect_end("RESTRICT, CASCADE, or the end of the statement")
    return DropTable(name=name, if_exists=if_exists, behavior=behavior)


def alter(cursor: TokenCursor, text: str) -> Statement | None:
    if _is_a_view(cursor):
        return None
    name = cursor.name()
    action = _ACTIONS.get(cursor.keyword())
    if action is None:
        if refused := _REFUSED_ACTIONS.get(cursor.keyword()):
            raise _no_action(name, *refused)
        raise cursor.error(
            "SUSPEND, RESUME [WITH (…)], REFRESH [PARTITION (…)], SET FRESHNESS = INTERVAL 'n' unit, or AS query"
        )
    cursor.take()
    statement = action(cursor, name)
    cursor.expect_end()
    return statement


def refresh(cursor: TokenCursor, text: str) -> Statement | None:
    """Read REFRESH MATERIALIZED TABLE name [PARTITION (…)], a synonym of ALTER MATERIALIZED TABLE … REFRESH."""
    if _is_a_view(cursor):
        return None
    statement = _refresh(cursor, cursor.name())
    cursor.expect_end("PARTITION (…), or the end of the statement")
    return statement


def _refresh(cursor: TokenCursor, name: tuple[str, ...]) -> Statement:
    return RefreshTable(name=name, partitions=cursor.partition() if cursor.accept("PARTITION") else {})


def _set(cursor: TokenCursor, name: tuple[str, ...]) -> Statement:
    if cursor.accept("FRESHNESS"):
        cursor.expect_symbol("=")
        return SetFreshness(name=name, freshness=read_interval(cursor))
    if cursor.keyword() == "REFRESH_MODE":
        raise _no_action(name, "SET REFRESH_MODE", "the mode is fixed at CREATE: DROP the table and CREATE it again")
    if cursor.at_symbol("(") or cursor.keyword() == "TBLPROPERTIES":
        raise _no_action(name, "SET of options", _USE_CREATE_OR_ALTER)
    raise cursor.error("FRESHNESS = INTERVAL 'n' unit")


def _as(cursor: TokenCursor, name: tuple[str, ...]) -> Statement:
    query, line, column = cursor.query()
    return AlterQuery(name=name, query=query, query_line=line, query_column=column)


_ACTIONS: Mapping[str, Callable[[TokenCursor, tuple[str, ...]], Statement]] = {
    "SUSPEND": lambda _, name: SuspendTable(name=name),
    "RESUME": lambda cursor, name: ResumeTable(name=name, options=cursor.properties() if cursor.accept("WITH") else {}),
    "REFRESH": _refresh,
    "SET": _set,
    "AS": _as,
}
_REFUSED_ACTIONS = {
    "RESET": ("RESET of options", _USE_CREATE_OR_ALTER),
    "UNSET": ("UNSET of options", _USE_CREATE_OR_ALTER),
    "RENAME": ("RENAME", "CREATE it under the new name and DROP this one"),
    "ADD": ("ADD", _COLUMNS_COME_FROM_THE_QUERY),
    "MODIFY": ("MODIFY", _COLUMNS_COME_FROM_THE_QUERY),
    "DROP": ("DROP of a part", _COLUMNS_COME_FROM_THE_QUERY),
}


def _no_action(name: tuple[str, ...], action: str, way_out: str) -> Unsupported:
    return Unsupported(f"ALTER MATERIALIZED TABLE {'.'.join(name)}: {action} is not supported; {way_out}.")


# ---------------------------------------------------------------------------------------------- SHOW, DESCRIBE, EXPLAIN


def show_tables(cursor: TokenCursor, text: str) -> Statement | None:
    if cursor.keyword() in {"VIEW", "VIEWS"}:
        return None
    cursor.expect("TABLES")
    namespace = cursor.name("a namespace") if cursor.accept("FROM") or cursor.accept("IN") else None
    negated = cursor.accept("NOT")
    if negated and cursor.keyword() != "LIKE":
        raise cursor.error("LIKE")
    like = cursor.string("a pattern in quotes") if cursor.accept("LIKE") else None
    cursor.expect_end("FROM namespace, [NOT] LIKE 'pattern', or the end of the statement")
    return ShowMaterializedTables(namespace=namespace, like=like, negated=negated)


def show_create(cursor: TokenCursor, text: str) -> Statement | None:
    return None if _is_a_view(cursor) else _read_show_create(cursor, or_alter=False)


def show_create_or_alter(cursor: TokenCursor, text: str) -> Statement | None:
    cursor.expect("MATERIALIZED", "TABLE")
    return _read_show_create(cursor, or_alter=True)


def _read_show_create(cursor: TokenCursor, *, or_alter: bool) -> ShowCreateTable:
    name = cursor.name()
    cursor.expect_end()
    return ShowCreateTable(name=name, or_alter=or_alter)


def show_refreshes(cursor: TokenCursor, text: str) -> Statement | None:
    name, status = cursor.name() if cursor.accept("FOR") else None, None
    if cursor.accept("WHERE"):
        cursor.expect("STATUS")
        cursor.expect_symbol("=")
        if (token := cursor.peek()) and token.value.upper() not in RunStatus.__members__:
            raise cursor.error("a status in quotes: " + ", ".join(f"'{each}'" for each in RunStatus))
        status = RunStatus(cursor.string("a status in quotes").upper())
    limit = _read_limit(cursor) if cursor.accept("LIMIT") else None
    cursor.expect_end("FOR name, WHERE status = '…', LIMIT n, or the end of the statement")
    return ShowRefreshes(name=name, status=status, limit=limit)


def _read_limit(cursor: TokenCursor) -> int:
    token = cursor.peek()
    if token is None or token.kind is not TokenKind.NUMBER or not re.fullmatch("[0-9]{1,9}", token.text):
        raise cursor.error("a whole number of rows")
    if int(token.text) > MOST_REFRESHES:
        raise cursor.error(f"at most {MOST_REFRESHES} rows; WHERE status = '…' and FOR name select among them")
    cursor.take()
    return int(token.text)


def explain_refresh(cursor: TokenCursor, text: str) -> Statement | CatalogStatement | None:
    if cursor.keyword() in {"TABLE", "FUNCTION"} and cursor.peek(1):
        whole = TokenCursor(text)
        whole.expect("EXPLAIN")
        return read_explain(whole, text)
    name = cursor.name()
    partitions = cursor.partition() if cursor.accept("PARTITION") else {}
    cursor.expect_end("PARTITION (…), or the end of the statement")
    return ExplainRefresh(name=name, partitions=partitions)


def refuse_explain_create(cursor: TokenCursor, text: str) -> Statement | None:
    raise Unsupported(
        "EXPLAIN CREATE MATERIALIZED TABLE is not supported; EXPLAIN its query, or EXPLAIN REFRESH a table."
    )


def describe(cursor: TokenCursor, text: str) -> Statement | None:
    """Read DESCRIBE [TABLE] [EXTENDED] name, the one form that can mean a materialized table; None for Spark's others."""
    if cursor.keyword() == "MATERIALIZED" and cursor.keyword(1) == "TABLE":
        raise cursor.refusal("DESCRIBE MATERIALIZED TABLE does not exist; expected DESCRIBE [EXTENDED] name")
    if cursor.peek(1):
        cursor.accept("TABLE")
    extended = bool(cursor.peek(1)) and (cursor.accept("EXTENDED") or cursor.accept("FORMATTED"))
    try:
        name = cursor.name()
    except SqlSyntaxError:
        return None
    return DescribeTable(name=name, extended=extended, text=text) if cursor.at_end else None
