"""The parser: text of one statement in, a statement of ours out, or None for what is Spark's alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import takewhile

from mt_core.errors import SqlSyntaxError, Unsupported
from mt_core.sql.catalog import CatalogStatement
from mt_core.sql.catalog_reader import CATALOG_READERS, read_explain
from mt_core.sql.create import read_create, read_interval
from mt_core.sql.cursor import Cursor
from mt_core.sql.statements import (
    AlterQuery,
    DescribeTable,
    DropTable,
    ExplainRefresh,
    RefreshTable,
    ResetProperty,
    ResumeTable,
    SetFreshness,
    SetProperty,
    ShowCreateTable,
    ShowMaterializedTables,
    ShowRefreshes,
    Statement,
    SuspendTable,
)
from mt_core.tokens import Token, TokenKind, tokenize

FIRST_WORDS = 6
_PROPERTY_KEY = re.compile(r"[\w$-]+(\.[\w$-]+)*")
_SPARK_SET_FORMS = {"TIME", "VAR", "VARIABLE", "CATALOG", "ROLE"}
_COLUMNS_COME_FROM_THE_QUERY = "its columns come from its query: use ALTER MATERIALIZED TABLE … AS query"
_USE_CREATE_OR_ALTER = "use CREATE OR ALTER MATERIALIZED TABLE"


def parse(text: str) -> Statement | CatalogStatement | None:
    """Return the statement of ours in *text* (one statement), None if it is Spark's.

    Raises SqlSyntaxError naming what stands where and what was expected, DefinitionInvalid or Unsupported.
    """
    words = _first_words(text)
    for length in range(len(words), 0, -1):
        reader = _READERS.get(" ".join(words[:length]))
        if reader is not None:
            cursor = Cursor(text)
            cursor.expect(*words[:length])
            return reader(cursor, text)
    return None


def parse_name(text: str) -> tuple[str, ...]:
    """Return the parts of a name that stands alone, such as cat.`my schema`.t; raises SqlSyntaxError."""
    cursor = Cursor(text)
    name = cursor.name()
    cursor.expect_end("the end of the name")
    return name


def _first_words(text: str) -> list[str]:
    """Return the words at the beginning in capitals, a few at most, and only as far as the text can be read."""
    words: list[str] = []
    try:
        significant = (token for token in tokenize(text) if token.kind is not TokenKind.COMMENT)
        for token in takewhile(lambda found: found.kind is TokenKind.WORD, significant):
            words.append(token.keyword)
            if len(words) == FIRST_WORDS:
                break
    except SqlSyntaxError:
        return words
    return words


# ------------------------------------------------------------------------------------------------ CREATE, ALTER, DROP


def _is_a_view(cursor: Cursor) -> bool:
    """Whether it is Spark's MATERIALIZED VIEW; raises SqlSyntaxError unless it is one or our MATERIALIZED TABLE."""
    if cursor.keyword() in {"VIEW", "VIEWS"}:
        return True
    cursor.expect("TABLE")
    return False


def _create(cursor: Cursor, text: str) -> Statement | None:
    return None if _is_a_view(cursor) else read_create(cursor, or_alter=False)


def _create_or_alter(cursor: Cursor, text: str) -> Statement | None:
    cursor.expect("TABLE")
    return read_create(cursor, or_alter=True)


def _refuse_replace(cursor: Cursor, text: str) -> Statement | None:
    if _is_a_view(cursor):
        return None
    raise Unsupported("CREATE OR REPLACE MATERIALIZED TABLE is not supported; use CREATE OR ALTER MATERIALIZED TABLE.")


def _refuse_temporary(cursor: Cursor, text: str) -> Statement | None:
    if _is_a_view(cursor):
        return None
    raise Unsupported("TEMPORARY MATERIALIZED TABLE is not supported; leave TEMPORARY out, or use a TEMPORARY VIEW.")


def _drop(cursor: Cursor, text: str) -> Statement | None:
    if _is_a_view(cursor):
        return None
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name()
    cursor.expect_end()
    return DropTable(name=name, if_exists=if_exists)


def _alter(cursor: Cursor, text: str) -> Statement | None:
    if _is_a_view(cursor):
        return None
    name = cursor.name()
    action = _ACTIONS.get(cursor.keyword())
    if action is None:
        _refuse_action(cursor, name)
        raise cursor.error(
            "SUSPEND, RESUME [WITH (…)], REFRESH [PARTITION (…)], SET FRESHNESS = INTERVAL 'n' unit, or AS query"
        )
    cursor.take()
    statement = action(cursor, name)
    cursor.expect_end()
    return statement


def _resume(cursor: Cursor, name: tuple[str, ...]) -> Statement:
    return ResumeTable(name=name, options=cursor.properties() if cursor.accept("WITH") else {})


def _refresh(cursor: Cursor, name: tuple[str, ...]) -> Statement:
    return RefreshTable(name=name, partitions=cursor.partition() if cursor.accept("PARTITION") else {})


def _set(cursor: Cursor, name: tuple[str, ...]) -> Statement:
    if cursor.accept("FRESHNESS"):
        cursor.expect_symbol("=")
        return SetFreshness(name=name, freshness=read_interval(cursor))
    if cursor.keyword() == "REFRESH_MODE":
        raise _no_action(name, "SET REFRESH_MODE", "the mode is fixed at CREATE: DROP the table and CREATE it again")
    if cursor.at_symbol("(") or cursor.keyword() == "TBLPROPERTIES":
        raise _no_action(name, "SET of options", _USE_CREATE_OR_ALTER)
    raise cursor.error("FRESHNESS = INTERVAL 'n' unit")


def _as(cursor: Cursor, name: tuple[str, ...]) -> Statement:
    query, line, column = cursor.query()
    return AlterQuery(name=name, query=query, query_line=line, query_column=column)


_ACTIONS: Mapping[str, Callable[[Cursor, tuple[str, ...]], Statement]] = {
    "SUSPEND": lambda _, name: SuspendTable(name=name),
    "RESUME": _resume,
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


def _refuse_action(cursor: Cursor, name: tuple[str, ...]) -> None:
    if refused := _REFUSED_ACTIONS.get(cursor.keyword()):
        raise _no_action(name, *refused)


def _no_action(name: tuple[str, ...], action: str, way_out: str) -> Unsupported:
    return Unsupported(f"ALTER MATERIALIZED TABLE {'.'.join(name)}: {action} is not supported; {way_out}.")


# ---------------------------------------------------------------------------------------------- SHOW, DESCRIBE, EXPLAIN


def _show_tables(cursor: Cursor, text: str) -> Statement | None:
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


def _show_create(cursor: Cursor, text: str) -> Statement | None:
    return None if _is_a_view(cursor) else _read_show_create(cursor, or_alter=False)


def _show_create_or_alter(cursor: Cursor, text: str) -> Statement | None:
    cursor.expect("MATERIALIZED", "TABLE")
    return _read_show_create(cursor, or_alter=True)


def _read_show_create(cursor: Cursor, *, or_alter: bool) -> ShowCreateTable:
    name = cursor.name()
    cursor.expect_end()
    return ShowCreateTable(name=name, or_alter=or_alter)


def _show_refreshes(cursor: Cursor, text: str) -> Statement | None:
    name = cursor.name() if cursor.accept("FOR") else None
    limit = _read_limit(cursor) if cursor.accept("LIMIT") else None
    cursor.expect_end("FOR name, LIMIT n, or the end of the statement")
    return ShowRefreshes(name=name, limit=limit)


def _read_limit(cursor: Cursor) -> int:
    token = cursor.peek()
    if token is None or token.kind is not TokenKind.NUMBER or not re.fullmatch("[0-9]{1,9}", token.text):
        raise cursor.error("a whole number of rows")
    cursor.take()
    return int(token.text)


def _explain_refresh(cursor: Cursor, text: str) -> Statement | CatalogStatement | None:
    if cursor.keyword() in {"TABLE", "FUNCTION"} and cursor.peek(1):
        whole = Cursor(text)
        whole.expect("EXPLAIN")
        return read_explain(whole, text)
    name = cursor.name()
    partitions = cursor.partition() if cursor.accept("PARTITION") else {}
    cursor.expect_end("PARTITION (…), or the end of the statement")
    return ExplainRefresh(name=name, partitions=partitions)


def _refuse_explain_create(cursor: Cursor, text: str) -> Statement | None:
    raise Unsupported(
        "EXPLAIN CREATE MATERIALIZED TABLE is not supported; EXPLAIN its query, or EXPLAIN REFRESH a table."
    )


def _describe(cursor: Cursor, text: str) -> Statement | None:
    """Spark's DESCRIBE has many forms; only the one that has nothing but a name behind it can mean a table of ours."""
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


# ------------------------------------------------------------------------------------------------------------ SET, RESET


def _set_property(cursor: Cursor, text: str) -> Statement | None:
    if cursor.at_end:
        return SetProperty()
    tokens = _rest(cursor)
    equals = next((index for index, token in enumerate(tokens) if token.text == "="), len(tokens))
    key = _property_text(text, tokens[:equals])
    if not _is_property_key(key, tokens[:equals]):
        return None
    if equals == len(tokens):
        return SetProperty(key=key)
    return SetProperty(key=key, value=_property_text(text, tokens[equals + 1 :]))


def _is_property_key(key: str, tokens: list[Token]) -> bool:
    if len(tokens) == 1 and tokens[0].kind is TokenKind.STRING:
        return bool(key)
    if len(tokens) > 1 and tokens[0].keyword in _SPARK_SET_FORMS and tokens[1].text not in {".", "="}:
        return False
    return len(tokens) > 0 and not key.startswith("-") and bool(_PROPERTY_KEY.fullmatch(key))


def _reset_property(cursor: Cursor, text: str) -> Statement | None:
    if cursor.at_end:
        return ResetProperty()
    tokens = _rest(cursor)
    key = _property_text(text, tokens)
    return ResetProperty(key=key) if _is_property_key(key, tokens) else None


def _rest(cursor: Cursor) -> list[Token]:
    tokens = []
    while token := cursor.take():
        tokens.append(token)
    return tokens


def _property_text(text: str, tokens: list[Token]) -> str:
    """A quoted text without its quotes, anything else as it is written."""
    if len(tokens) == 1:
        return tokens[0].value
    return text[tokens[0].start : tokens[-1].end] if tokens else ""


_READERS: Mapping[str, Callable[[Cursor, str], Statement | CatalogStatement | None]] = {
    **CATALOG_READERS,
    "CREATE MATERIALIZED": _create,
    "CREATE OR ALTER MATERIALIZED": _create_or_alter,
    "CREATE OR REPLACE MATERIALIZED": _refuse_replace,
    "CREATE TEMPORARY MATERIALIZED": _refuse_temporary,
    "CREATE TEMP MATERIALIZED": _refuse_temporary,
    "CREATE OR REPLACE TEMPORARY MATERIALIZED": _refuse_temporary,
    "CREATE OR ALTER TEMPORARY MATERIALIZED": _refuse_temporary,
    "ALTER MATERIALIZED": _alter,
    "DROP MATERIALIZED": _drop,
    "DROP TEMPORARY MATERIALIZED": _refuse_temporary,
    "SHOW MATERIALIZED": _show_tables,
    "SHOW CREATE MATERIALIZED": _show_create,
    "SHOW CREATE OR ALTER": _show_create_or_alter,
    "SHOW REFRESHES": _show_refreshes,
    "EXPLAIN REFRESH": _explain_refresh,
    "EXPLAIN CREATE MATERIALIZED TABLE": _refuse_explain_create,
    "EXPLAIN CREATE OR ALTER MATERIALIZED TABLE": _refuse_explain_create,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "SET": _set_property,
    "RESET": _reset_property,
}
