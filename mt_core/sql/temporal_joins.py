"""Temporal joins, FOR SYSTEM_TIME AS OF column: joins with the version of a table at the time of each row."""

from __future__ import annotations

from collections.abc import Sequence

from mt_core.base.tokens import Token, TokenKind, significant
from mt_core.errors import Unsupported

_CLAUSE = ["FOR", "SYSTEM_TIME", "AS", "OF"]
_NAME = {TokenKind.WORD, TokenKind.IDENTIFIER}
# Functions that are called without parentheses.
_NOW = {"CURRENT_DATE", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP"}


def check_temporal_joins(text: str) -> None:
    """Raise Unsupported, with an alternative, if *text* contains a temporal join.

    FOR SYSTEM_TIME AS OF a time that is not a column is accepted.
    """
    if _CLAUSE[1] not in text.upper():
        return
    tokens = list(significant(text))
    for place in range(len(tokens)):
        if [each.keyword for each in tokens[place : place + len(_CLAUSE)]] != _CLAUSE:
            continue
        column, table = _column(tokens[place + len(_CLAUSE) :]), _table(tokens[:place])
        if column:
            raise Unsupported(
                f"{table} FOR SYSTEM_TIME AS OF {column}: Spark has no temporal join, which reads the "
                "version of a table at the time of each row. Join the current table of each batch: "
                f"{table} /*+ OPTIONS('streaming' = 'false') */ in place of FOR SYSTEM_TIME AS OF."
            )


def _table(before: Sequence[Token]) -> str:
    """Return the table name at the end of *before*, as written."""
    start = len(before) - 1
    while start >= 2 and before[start - 1].text == ".":
        start -= 2
    return "".join(token.text for token in before[max(start, 0) :])


def _column(after: Sequence[Token]) -> str:
    """Return the column at the beginning of *after*, as written, or an empty string for anything else."""
    stop = 1
    while stop + 1 < len(after) and after[stop].text == ".":
        stop += 2
    following = after[stop] if stop < len(after) else None
    if not after or after[0].kind not in _NAME or after[0].keyword in _NOW:
        return ""
    if following is not None and (following.text == "(" or following.kind is TokenKind.STRING):
        return ""
    return "".join(token.text for token in after[:stop])
