"""Readers of statements about materialized tables. A reader returns None to leave a statement to Spark.

Some of these statements are Flink's (FLIP-435), others are Freshtable's own: SHOW REFRESHES, SHOW LINEAGE,
VERIFY, EXPLAIN REFRESH. Spark's MATERIALIZED VIEW begins with the same words, so most readers first test for
it and return None. An error lists every form that would be accepted at its place, because users learn the
syntax from it. Actions that other systems have, such as RENAME or ADD column, are recognized so that the
error can name the statement with the same effect. A reader does not check whether the table exists or what
its status allows. That is decided when the statement runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from mt_core.base.tokens import TokenKind
from mt_core.errors import SqlSyntaxError, Unsupported
from mt_core.model.run import RunStatus
from mt_core.sql.catalog import CatalogStatement
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.readers.catalog_statements import read_explain
from mt_core.sql.readers.create import create_named, is_view, read_cron, read_interval, read_mode
from mt_core.sql.statements import (
    AlterOptions,
    AlterQuery,
    DescribeTable,
    DropBehavior,
    DropTable,
    ExplainCreate,
    ExplainRefresh,
    RefreshTable,
    ResumeTable,
    SetFreshness,
    SetRefreshMode,
    SetSchedule,
    ShowCreateTable,
    ShowLineage,
    ShowMaterializedTables,
    ShowRefreshes,
    Statement,
    SuspendTable,
    VerifyTable,
)

MOST_REFRESHES = 10_000
_COLUMNS_COME_FROM_THE_QUERY = "its columns come from its query: use ALTER MATERIALIZED TABLE … AS query"


# ------------------------------------------------------------------------------------------------ ALTER, DROP


def drop(cursor: TokenCursor, text: str) -> Statement | None:
    if is_view(cursor):
        return None
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name()
    behavior = next((each for each in DropBehavior if cursor.accept(each.value)), None)
    cursor.expect_end("RESTRICT, CASCADE, or the end of the statement")
    return DropTable(name=name, if_exists=if_exists, behavior=behavior)


def alter(cursor: TokenCursor, text: str) -> Statement | None:
    if is_view(cursor):
        return None
    name = cursor.name()
    action = _ACTIONS.get(cursor.word())
    if action is None:
        if refused := _REFUSED_ACTIONS.get(cursor.word()):
            raise _no_action(name, *refused)
        raise cursor.error(
            "SUSPEND, RESUME [WITH (…)], REFRESH [PARTITION (…)], SET "
            "FRESHNESS = INTERVAL 'n' unit, SET SCHEDULE CRON '…', "
            "SET REFRESH_MODE = FULL | CONTINUOUS, SET ('key' = 'value', …), RESET ('key', …), or AS query"
        )
    cursor.take()
    statement = action(cursor, name)
    cursor.expect_end()
    return statement


def refresh(cursor: TokenCursor, text: str) -> Statement | None:
    """Read REFRESH MATERIALIZED TABLE name [PARTITION (…)].

    The statement is a synonym of ALTER MATERIALIZED TABLE … REFRESH.
    """
    if is_view(cursor):
        return None
    statement = _refresh(cursor, cursor.name())
    cursor.expect_end("PARTITION (…), or the end of the statement")
    return statement


def _refresh(cursor: TokenCursor, name: tuple[str, ...]) -> Statement:
    return RefreshTable(name=name, partitions=cursor.partition() if cursor.accept("PARTITION") else {})


def _set(cursor: TokenCursor, name: tuple[str, ...]) -> Statement:
    if cursor.accept("FRESHNESS"):
        cursor.expect("=")
        return SetFreshness(name=name, freshness=read_interval(cursor))
    if cursor.accept("SCHEDULE"):
        cron, zone = read_cron(cursor)
        return SetSchedule(name=name, cron=cron, zone=zone)
    if cursor.accept("REFRESH_MODE"):
        cursor.expect("=")
        return SetRefreshMode(name=name, mode=read_mode(cursor))
    if cursor.word() == "TBLPROPERTIES":
        raise _no_action(name, "SET TBLPROPERTIES", "use SET ('key' = 'value', …)")
    if cursor.word() != "(":
        raise cursor.error(
            "FRESHNESS = INTERVAL 'n' unit, SCHEDULE CRON '…', "
            "REFRESH_MODE = FULL | CONTINUOUS, or ('key' = 'value', …)"
        )
    options = cursor.properties()
    if not options:
        raise cursor.refusal("SET names at least one option")
    return AlterOptions(name=name, options=options)


def _as(cursor: TokenCursor, name: tuple[str, ...]) -> Statement:
    query, line, column = cursor.query()
    return AlterQuery(name=name, query=query, query_line=line, query_column=column)


_ACTIONS: Mapping[str, Callable[[TokenCursor, tuple[str, ...]], Statement]] = {
    "SUSPEND": lambda _, name: SuspendTable(name=name),
    "RESUME": lambda cursor, name: ResumeTable(
        name=name, options=cursor.properties() if cursor.accept("WITH") else {}
    ),
    "REFRESH": _refresh,
    "SET": _set,
    "RESET": lambda cursor, name: AlterOptions(name=name, removed=cursor.property_keys()),
    "AS": _as,
}
_REFUSED_ACTIONS = {
    "UNSET": ("UNSET of options", "use RESET ('key', …)"),
    "RENAME": ("RENAME", "CREATE it under the new name and DROP this one"),
    "ADD": ("ADD", _COLUMNS_COME_FROM_THE_QUERY),
    "MODIFY": ("MODIFY", _COLUMNS_COME_FROM_THE_QUERY),
    "DROP": ("DROP of a part", _COLUMNS_COME_FROM_THE_QUERY),
}


def _no_action(name: tuple[str, ...], action: str, way_out: str) -> Unsupported:
    return Unsupported(f"ALTER MATERIALIZED TABLE {'.'.join(name)}: {action} is not supported; {way_out}.")


# ------------------------------------------------------------------------------------ SHOW, DESCRIBE, EXPLAIN


def show_tables(cursor: TokenCursor, text: str) -> Statement | None:
    if cursor.word() in {"VIEW", "VIEWS"}:
        return None
    cursor.expect("TABLES")
    namespace = cursor.name("a namespace") if cursor.accept("FROM") or cursor.accept("IN") else None
    negated = cursor.accept("NOT")
    if negated and cursor.word() != "LIKE":
        raise cursor.error("LIKE")
    like = cursor.string("a pattern in quotes") if cursor.accept("LIKE") else None
    extended, late = cursor.accept("EXTENDED"), cursor.accept("LATE")
    cursor.expect_end("FROM namespace, [NOT] LIKE 'pattern', EXTENDED, LATE, or the end of the statement")
    return ShowMaterializedTables(
        namespace=namespace, like=like, negated=negated, extended=extended, late=late
    )


def show_create(cursor: TokenCursor, text: str, *, or_alter: bool = False) -> Statement | None:
    """Read the rest of SHOW CREATE MATERIALIZED or SHOW CREATE OR ALTER."""
    if or_alter:
        cursor.expect("MATERIALIZED", "TABLE")
    elif is_view(cursor):
        return None
    name = cursor.name()
    cursor.expect_end()
    return ShowCreateTable(name=name, or_alter=or_alter)


def show_refreshes(cursor: TokenCursor, text: str) -> Statement | None:
    name, status = cursor.name() if cursor.accept("FOR") else None, None
    batches = name is not None and cursor.accept("BATCHES")
    if not batches and cursor.accept("WHERE"):
        cursor.expect("STATUS")
        cursor.expect("=")
        if (token := cursor.peek()) and token.value.upper() not in RunStatus.__members__:
            raise cursor.error("a status in quotes: " + ", ".join(f"'{each}'" for each in RunStatus))
        status = RunStatus(cursor.string("a status in quotes").upper())
    extended = not batches and cursor.accept("EXTENDED")
    limit = _read_limit(cursor) if cursor.accept("LIMIT") else None
    cursor.expect_end(
        "FOR name [BATCHES], WHERE status = '…', EXTENDED, LIMIT n, or the end of the statement"
    )
    return ShowRefreshes(name=name, batches=batches, status=status, extended=extended, limit=limit)


def _read_limit(cursor: TokenCursor) -> int:
    token = cursor.peek()
    if token is None or token.kind is not TokenKind.NUMBER or not re.fullmatch("[0-9]{1,9}", token.text):
        raise cursor.error("a whole number of rows")
    if int(token.text) > MOST_REFRESHES:
        raise cursor.error(
            f"at most {MOST_REFRESHES} rows; WHERE status = '…' and FOR name select among them"
        )
    cursor.take()
    return int(token.text)


def show_lineage(cursor: TokenCursor, text: str) -> Statement | None:
    name = cursor.name() if cursor.accept("OF") else None
    extended = cursor.accept("EXTENDED")
    cursor.expect_end("OF name, EXTENDED, or the end of the statement")
    return ShowLineage(name=name, extended=extended)


def explain_refresh(cursor: TokenCursor, text: str) -> Statement | CatalogStatement | None:
    if cursor.word() in {"TABLE", "FUNCTION"} and cursor.peek(1):
        whole = TokenCursor(text)
        whole.expect("EXPLAIN")
        return read_explain(whole, text)
    name = cursor.name()
    partitions = cursor.partition() if cursor.accept("PARTITION") else {}
    cursor.expect_end("PARTITION (…), or the end of the statement")
    return ExplainRefresh(name=name, partitions=partitions)


def verify(cursor: TokenCursor, text: str) -> Statement | None:
    """Read VERIFY MATERIALIZED TABLE name [SAMPLE n [PERCENT]]."""
    if is_view(cursor):
        return None
    name, percent = cursor.name(), 100.0
    if cursor.accept("SAMPLE"):
        percent = _read_percent(cursor)
        cursor.accept("PERCENT")
    cursor.expect_end("SAMPLE n [PERCENT], or the end of the statement")
    return VerifyTable(name=name, percent=percent)


def _read_percent(cursor: TokenCursor) -> float:
    token = cursor.peek()
    if (
        token is None
        or not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,4})?", token.text)
        or not 0 < float(token.text) <= 100
    ):
        raise cursor.error("a percentage greater than 0 and at most 100")
    cursor.take()
    return float(token.text)


def explain_create(cursor: TokenCursor, text: str, *, or_alter: bool = False) -> Statement:
    """Read the rest of EXPLAIN CREATE [OR ALTER] MATERIALIZED TABLE."""
    return ExplainCreate(statement=create_named(cursor, text, or_alter=or_alter))


def describe(cursor: TokenCursor, text: str) -> Statement | None:
    """Read DESCRIBE [TABLE] [EXTENDED] name, the only form that can name a materialized table.

    Returns None for Spark's other forms.
    """
    if cursor.word() == "MATERIALIZED" and cursor.word(1) == "TABLE":
        raise cursor.refusal("DESCRIBE MATERIALIZED TABLE does not exist; expected DESCRIBE [EXTENDED] name")
    if cursor.peek(1):
        cursor.accept("TABLE")
    extended = bool(cursor.peek(1)) and (cursor.accept("EXTENDED") or cursor.accept("FORMATTED"))
    try:
        name = cursor.name()
    except SqlSyntaxError:
        return None
    return DescribeTable(name=name, extended=extended, text=text) if cursor.at_end else None
