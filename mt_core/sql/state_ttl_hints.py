"""Flink's hints after SELECT, `/*+ STATE_TTL('clicks' = '1 d') */`, in a form that Spark can parse."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mt_core.base.options import FLINK_DURATION
from mt_core.base.tokens import Token, TokenKind, significant
from mt_core.errors import SqlSyntaxError
from mt_core.plans.policies import hinted_policy
from mt_core.sql.cursor import TokenCursor

STATE_TTL = "STATE_TTL"
_HINT = re.compile(r"/\*\+.*?\bSTATE_TTL\b", re.IGNORECASE | re.DOTALL)
_KEYS = (TokenKind.STRING, TokenKind.WORD, TokenKind.IDENTIFIER)


def with_state_ttls(text: str) -> str:
    """Replace each = in the STATE_TTL hints of *text* by a comma, so that Spark can parse the hints.

    Spark then attaches them to the query block. All positions stay the same. Raises SqlSyntaxError if a hint
    cannot be parsed, has no duration, or does not follow SELECT.
    """
    if not _HINT.search(text):
        return text
    characters = list(text)
    before = ""
    for token in significant(text):
        if token.kind is TokenKind.HINT and _HINT.match(token.text):
            for sign in _signs(text, token, before):
                characters[sign] = ","
        before = before if token.kind is TokenKind.HINT else token.keyword
    return "".join(characters)


def _signs(text: str, hint: Token, before: str) -> Iterator[int]:
    """Yield the offset of each = in the STATE_TTL of *hint*, which follows the word *before*."""
    # The padding keeps the hint at its line and column in the text that the client sent.
    cursor = TokenCursor(re.sub(r"[^\n]", " ", text[: hint.start + 3]) + hint.text[3:-2])
    while not cursor.at_end:
        if not cursor.accept(STATE_TTL):
            cursor.take()
            continue
        if before != "SELECT":
            raise SqlSyntaxError(
                'Encountered "/*+ STATE_TTL"; expected it directly after SELECT',
                line=hint.line,
                column=hint.column,
            )
        for _ in cursor.entries("the names of tables with their durations"):
            yield _sign(cursor)


def _sign(cursor: TokenCursor) -> int:
    """Read `'table' = 'duration'` and return the offset of the = sign."""
    name = cursor.value("the name or the alias of a table in quotes", *_KEYS)
    sign = cursor.peek()
    cursor.expect("=")
    value = cursor.peek()
    if value is not None and value.kind is TokenKind.STRING and hinted_policy(value.value) is None:
        raise cursor.refusal(
            f"the STATE_TTL of '{name}' must be {FLINK_DURATION.name}, at least 1 ms, or 0 for unlimited; "
            "ON READ WRITE and EVENT TIME may follow"
        )
    cursor.string(f"the duration of '{name}' in quotes")
    return -1 if sign is None else sign.start
