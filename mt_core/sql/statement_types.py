"""The type of a statement as FLIP-91 names it.

It is decided by the first words or, for WITH, FROM and CREATE TABLE, by a later word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mt_core.base.tokens import Token, TokenKind, significant, skip_brackets
from mt_core.errors import SqlSyntaxError

SELECT, INSERT, STATEMENT_SET = "SELECT", "INSERT", "STATEMENT_SET"
CREATE_TABLE_AS, REPLACE_TABLE_AS = "CREATE_TABLE_AS", "REPLACE_TABLE_AS"

_QUERY_WORDS = {"SELECT", "VALUES", "TABLE", "MAP", "REDUCE"}
_CHANGING_WORDS = {INSERT, "UPDATE", "DELETE", "MERGE"}
_MODIFIERS = {
    *(
        "OR",
        "REPLACE",
        "ALTER",
        "TEMPORARY",
        "TEMP",
        "GLOBAL",
        "SYSTEM",
        "EXTERNAL",
        "FULL",
        "EXTENDED",
        "FORMATTED",
    ),
    *("IF", "NOT", "EXISTS"),
}
_SYNONYMS = {
    "NAMESPACE": "DATABASE",
    "SCHEMA": "DATABASE",
    "NAMESPACES": "DATABASE",
    "SCHEMAS": "DATABASE",
    "DATABASES": "DATABASE",
    "DESC": "DESCRIBE",
}
_TWO_WORDS = {"MATERIALIZED", "CREATE", "CURRENT"}
_PLANS = (("COMPILE", "PLAN"), ("EXECUTE", "PLAN"), ("COMPILE", "AND", "EXECUTE", "PLAN"))
_DESCRIBED = {"CATALOG", "DATABASE", "JOB"}


def type_of(text: str, head: Sequence[Token]) -> tuple[str, int]:
    """Return the type of the statement in *text*, which begins with *head*, and the offset of its verb.

    The type, such as SELECT, CREATE_TABLE or SHOW_TABLES, is empty if the SQL has no words. Types that
    FLIP-91's appendix does not list are named in the same style.
    """
    words = [token.keyword for token in head if token.kind is TokenKind.WORD]
    if not words:
        return "", 0
    start, first = head[0].start, _SYNONYMS.get(words[0], words[0])
    if head[0].text == "(" or first in _QUERY_WORDS:
        return SELECT, start
    if first in {"WITH", "FROM"}:
        return _lead(text, head[0])
    if first in {"CREATE", "REPLACE", "ALTER", "DROP"}:
        return _definition(first, words, text, start), start
    return _named(first, words, head), start


def _named(first: str, words: Sequence[str], head: Sequence[Token]) -> str:
    if words[:3] == ["EXECUTE", "STATEMENT", "SET"] or first == "END":
        return STATEMENT_SET
    for plan in _PLANS:
        if words[: len(plan)] == list(plan):
            return "_".join(plan)
    if first == "DESCRIBE" and len(head) > 2 and head[1].keyword in _DESCRIBED:
        return f"DESCRIBE_{head[1].keyword}"
    if first in {"SHOW", "USE", "ADD", "LOAD", "UNLOAD", "REMOVE", "BEGIN", "STOP"}:
        return _with_object(first, words[1:])
    return first


def _lead(text: str, first: Token) -> tuple[str, int]:
    """Return the type and the verb offset of WITH … or FROM …, which may be a query or a change."""
    from_, before = first.keyword == "FROM", first
    for token in _outer(text, first.end):
        word = token.keyword
        if from_ and word in {SELECT, INSERT, "MAP", "REDUCE"}:
            return (INSERT, token.start) if word == INSERT else (SELECT, first.start)
        if not from_ and before.text == ")":
            if word in _CHANGING_WORDS:
                return word, token.start
            if word in _QUERY_WORDS:
                break
            from_ = word == "FROM"
        before = token
    return SELECT, first.start


def _definition(verb: str, words: Sequence[str], text: str, start: int) -> str:
    kind = _with_object(verb, words[1:])
    if kind in {"CREATE_TABLE", "REPLACE_TABLE"} and any(
        token.keyword == "AS" for token in _outer(text, start)
    ):
        return REPLACE_TABLE_AS if "REPLACE" in words[:3] else CREATE_TABLE_AS
    return kind


def _with_object(verb: str, words: Sequence[str]) -> str:
    nouns = [word for word in words if word not in _MODIFIERS]
    if verb == "USE" and (
        len(nouns) < 2 or nouns[0] not in {"CATALOG", "DATABASE", "NAMESPACE", "SCHEMA", "MODULES"}
    ):
        return "USE_MODULES" if nouns[:1] == ["MODULES"] else verb
    if nouns[:1] and nouns[0] in _TWO_WORDS:
        nouns = [*nouns[:1], *(_SYNONYMS.get(noun, noun) for noun in nouns[1:2])]
        if verb == "SHOW" and nouns == ["CREATE", "MATERIALIZED"]:
            nouns.append("TABLE")
    else:
        nouns = nouns[:1]
    return "_".join([verb, *(_SYNONYMS.get(noun, noun) for noun in nouns)])


def _outer(text: str, start: int) -> Iterator[Token]:
    """Yield the tokens outside brackets, and each closing bracket, up to the first token that is invalid."""
    tokens = significant(text, start)
    try:
        while token := next(tokens, None):
            if token.text == "(":
                end = skip_brackets(text, token.start)
                tokens = significant(text, end - 1) if end <= len(text) else iter(())
            else:
                yield token
    except SqlSyntaxError:
        return
