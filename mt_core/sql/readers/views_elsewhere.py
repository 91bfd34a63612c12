"""Materialized views and dynamic tables of other systems: refused, with the equivalent statement."""

from __future__ import annotations

import re
from collections.abc import Callable

from mt_core.base.secrets import statement_text
from mt_core.errors import Unsupported
from mt_core.model.freshness import UNIT_SECONDS
from mt_core.sql.cursor import TokenCursor

_LAG = re.compile(r"\s*([1-9][0-9]*)\s*([A-Za-z]+?)s?\s*", re.IGNORECASE)
_CREATES = {"CREATE": "CREATE", "CREATE OR REPLACE": "CREATE OR ALTER"}
_VERBS = (*_CREATES, "ALTER", "DROP", "REFRESH", "SHOW")


def readers(verb: str, noun: str) -> dict[str, Callable[[TokenCursor, str], None]]:
    """Return the readers of statements with *verb* and *noun*, such as CREATE and MATERIALIZED VIEW.

    The keys are the first words of the statements.
    """
    plural = "S" if verb == "SHOW" else ""
    return {
        f"{words} {noun}{plural}": _refuse(words, noun) for words in _VERBS if words.partition(" ")[0] == verb
    }


def _refuse(words: str, noun: str) -> Callable[[TokenCursor, str], None]:
    def read(cursor: TokenCursor, text: str) -> None:
        if words in _CREATES:
            statement = _creation(_CREATES[words], cursor)
        else:
            plural = "S" if words == "SHOW" else ""
            statement = f"{words} MATERIALIZED TABLE{plural}{_rest(cursor, text)}"
        suggestion = statement_text(statement, len(statement))
        raise Unsupported(f"{noun} is not supported; the equivalent is a materialized table: {suggestion}")

    return read


def _rest(cursor: TokenCursor, text: str) -> str:
    first = cursor.peek()
    return "" if first is None else f" {text[first.start :].rstrip().rstrip(';').rstrip()}"


def _creation(head: str, cursor: TokenCursor) -> str:
    """Return the equivalent CREATE statement.

    It retains the name, columns, comment, partitions and query of the refused statement.
    """
    cursor.accept("IF", "NOT", "EXISTS")

    def name() -> None:
        cursor.name("a name")

    def skip_tokens(number: int) -> Callable[[], None]:
        return lambda: [cursor.take() for _ in range(number)].clear()

    parts = [f"{head} MATERIALIZED TABLE", cursor.text_of(name, "a name")]
    freshness, query = "INTERVAL '1' HOUR", "query"
    if cursor.word() == "(":
        parts.append(cursor.text_of(lambda: _skip_brackets(cursor), "the columns"))
    while not cursor.at_end:
        match cursor.word():
            case "AS":
                cursor.take()
                query = cursor.query()[0]
                break
            case "COMMENT" if cursor.word(1) == "":
                parts.append(cursor.text_of(skip_tokens(2), "the comment"))
            case "PARTITIONED" if cursor.word(1) == "BY":
                cursor.take()
                cursor.take()
                parts.append(
                    f"PARTITIONED BY {cursor.text_of(lambda: _skip_brackets(cursor), 'the columns')}"
                )
            case "TARGET_LAG":
                cursor.take()
                cursor.accept("=")
                freshness = _freshness(cursor) or freshness
            case "(":
                _skip_brackets(cursor)
            case _:
                cursor.take()
    return " ".join([*parts, f"FRESHNESS = {freshness} AS {query}"])


def _freshness(cursor: TokenCursor) -> str | None:
    token = cursor.take()
    lag = None if token is None else _LAG.fullmatch(token.value)
    return (
        f"INTERVAL '{lag[1]}' {lag[2].upper()}"
        if lag is not None and lag[2].upper() in set(UNIT_SECONDS)
        else None
    )


def _skip_brackets(cursor: TokenCursor) -> None:
    """Move past `( … )`, or past a single token that is not a bracket."""
    depth = 0
    while (token := cursor.take()) is not None:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth <= 0:
            return
