"""Readers of SET and RESET. Statements without a property key, such as SET TIME ZONE, are left to Spark."""

from __future__ import annotations

import re

from mt_core.base.tokens import Token, TokenKind
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.statements import ResetProperty, SetProperty, Statement

_PROPERTY_KEY = re.compile(r"[\w$-]+(\.[\w$-]+)*")
_SPARK_SET_FORMS = {"TIME", "VAR", "VARIABLE", "CATALOG", "ROLE"}


def set_property(cursor: TokenCursor, text: str) -> Statement | None:
    if cursor.at_end:
        return SetProperty()
    tokens = list(iter(cursor.take, None))
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


def reset_property(cursor: TokenCursor, text: str) -> Statement | None:
    if cursor.at_end:
        return ResetProperty()
    tokens = list(iter(cursor.take, None))
    key = _property_text(text, tokens)
    return ResetProperty(key=key) if _is_property_key(key, tokens) else None


def _property_text(text: str, tokens: list[Token]) -> str:
    """Return the text of *tokens* as written, or the value of a single token without its quotes."""
    if len(tokens) == 1:
        return tokens[0].value
    return text[tokens[0].start : tokens[-1].end] if tokens else ""
