"""Completion inside a string literal: keys of properties and options, and the values that they can have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mt_core.base.options import BOOLEAN
from mt_core.base.tokens import Token, TokenKind, significant
from mt_core.errors import SqlSyntaxError
from mt_core.model.table import FORMATTER_PREFIX
from mt_core.sessions.properties.property_values import settable_keys, values_for
from mt_core.sql.connectors.catalog_options import SUPPORTED as CATALOGS
from mt_core.sql.connectors.kinds import SUPPORTED as CONNECTORS
from mt_core.sql.connectors.kinds import option_names
from mt_core.sql.hints import STREAMING
from mt_core.tables.definition.options import TABLE_OPTIONS

_CONNECTOR, _TYPE = "connector", "type"
_HINT = re.compile(r"/\*\+\s*OPTIONS\s*\((?P<before>[^*]*)$", re.IGNORECASE)
_WITH = {"WITH", "SET", "RESET"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuote:
    """An unterminated string literal: the tokens before it in its statement, and its text so far.

    In a hint, `tokens` are only the tokens inside the hint's parentheses.
    """

    tokens: Sequence[Token]
    begun: str
    in_hint: bool = False


def open_quote(text: str) -> OpenQuote | None:
    """Return the string literal at the end of *text*, or None if it ends outside one or in a comment."""
    before, quote, begun = text.rpartition("'")
    if not quote:
        return None
    hint = _HINT.search(before)
    try:
        if hint is not None:
            return OpenQuote(tokens=list(significant(hint["before"])), begun=begun, in_hint=True)
        tokens = list(significant(before))
    except SqlSyntaxError:
        return None
    last = max((place for place, token in enumerate(tokens) if token.text == ";"), default=-1)
    return OpenQuote(tokens=tokens[last + 1 :], begun=begun)


def options_in(quote: OpenQuote) -> list[str]:
    """Return the keys or values that complete *quote*, sorted and without quotation marks."""
    tokens = quote.tokens
    if tokens and tokens[-1].text == "=" and len(tokens) > 1 and tokens[-2].kind is TokenKind.STRING:
        keys = _keys(OpenQuote(tokens=tokens[:-2], begun="", in_hint=quote.in_hint))
        candidates: Iterable[str] = keys.get(tokens[-2].value, ())
    else:
        candidates = _keys(quote)
    return sorted(each for each in candidates if each.casefold().startswith(quote.begun.casefold()))


def _keys(quote: OpenQuote) -> Mapping[str, Sequence[str]]:
    """Return the keys that are valid at *quote*, each with its values if there is a list of them."""
    if quote.in_hint:
        return {STREAMING: BOOLEAN.values}
    words = [token.keyword for token in quote.tokens]
    if words in (["SET"], ["RESET"]):
        return {key: values_for(key) for key in settable_keys()}
    opened = _opened(quote.tokens)
    if opened is None:
        return {}
    head = words[:opened]
    if "MATERIALIZED" in head:
        return {**TABLE_OPTIONS, FORMATTER_PREFIX: ()}
    if head[:2] == ["CREATE", "CATALOG"]:
        return {_TYPE: CATALOGS}
    if head[:1] == ["CREATE"] and "TABLE" in head:
        named = _written(quote.tokens[opened:]).get(_CONNECTOR, "").lower()
        return {_CONNECTOR: CONNECTORS, **dict.fromkeys(option_names(named), ())}
    return {}


def _opened(tokens: Sequence[Token]) -> int | None:
    """Return the index of the WITH, SET or RESET whose option list is still open at the end of *tokens*."""
    for place in range(len(tokens) - 1, 0, -1):
        if tokens[place].text == "(":
            return place - 1 if tokens[place - 1].keyword in _WITH and tokens[-1].text in {"(", ","} else None
        if tokens[place].text == ")":
            return None
    return None


def _written(tokens: Sequence[Token]) -> dict[str, str]:
    """Return the options that *tokens* contain so far."""
    texts = [token.value for token in tokens if token.kind is TokenKind.STRING]
    return dict(zip(texts[::2], texts[1::2], strict=False))
