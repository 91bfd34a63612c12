"""What kind of statement a text is, told by its words alone: its type as FLIP-91 names it, and what the type allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mt_core.errors import SqlSyntaxError
from mt_core.tokens import Token, TokenKind, tokenize

SELECT, INSERT, STATEMENT_SET = "SELECT", "INSERT", "STATEMENT_SET"
CREATE_TABLE_AS, REPLACE_TABLE_AS = "CREATE_TABLE_AS", "REPLACE_TABLE_AS"
CHANGES = frozenset({INSERT, "UPDATE", "DELETE", "MERGE", CREATE_TABLE_AS, REPLACE_TABLE_AS, STATEMENT_SET})
JOBS = CHANGES | {SELECT}

_QUERY_WORDS = {"SELECT", "VALUES", "WITH", "FROM", "TABLE", "MAP", "REDUCE"}
_MODIFIERS = {
    *("OR", "REPLACE", "ALTER", "TEMPORARY", "TEMP", "GLOBAL", "SYSTEM", "EXTERNAL", "FULL", "EXTENDED", "FORMATTED"),
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
_CONFIGURING_OBJECTS = {"TABLE", "VIEW", "DATABASE", "FUNCTION", "CATALOG", "MODEL", "MATERIALIZED_TABLE"}
CONFIGURING = frozenset(
    {"SET", "RESET", "USE", "USE_CATALOG", "USE_DATABASE", "USE_MODULES", "LOAD_MODULE", "UNLOAD_MODULE", "ADD_JAR"}
    | {f"{verb}_{noun}" for verb in ("CREATE", "ALTER", "DROP") for noun in _CONFIGURING_OBJECTS}
)


def statement_type(text: str) -> str:
    """Return the type of the statement in *text*, such as SELECT, CREATE_TABLE or SHOW_TABLES; empty if it has no words.

    The types of FLIP-91's appendix have its names; all others are made in the same way.
    """
    tokens = list(_readable(text))
    words = [token.keyword for token in tokens if token.kind is TokenKind.WORD]
    if not words:
        return ""
    first = _SYNONYMS.get(words[0], words[0])
    if tokens[0].text == "(" or first in _QUERY_WORDS:
        return _type_of_query(tokens)
    if first in {"CREATE", "REPLACE", "ALTER", "DROP"}:
        return _type_of_definition(first, words, tokens)
    if words[:3] == ["EXECUTE", "STATEMENT", "SET"] or first == "END":
        return STATEMENT_SET
    if first in {"SHOW", "USE", "ADD", "LOAD", "UNLOAD", "REMOVE", "BEGIN", "STOP"}:
        return _with_object(first, words[1:])
    return first


def is_configuring(text: str) -> bool:
    """Return whether the statement sets a session up: no query, and nothing that runs a job."""
    return statement_type(text) in CONFIGURING


def _readable(text: str) -> Iterator[Token]:
    """Yield the tokens but for comments, as far as the text can be read."""
    try:
        for token in tokenize(text):
            if token.kind is not TokenKind.COMMENT:
                yield token
    except SqlSyntaxError:
        return


def _type_of_query(tokens: Sequence[Token]) -> str:
    """A query may lead up to a change: WITH … INSERT, FROM … INSERT."""
    found = {token.keyword for token in _outer(tokens)}
    return INSERT if INSERT in found else SELECT


def _type_of_definition(verb: str, words: Sequence[str], tokens: Sequence[Token]) -> str:
    kind = _with_object(verb, words[1:])
    if kind in {"CREATE_TABLE", "REPLACE_TABLE"} and any(token.keyword == "AS" for token in _outer(tokens)):
        return REPLACE_TABLE_AS if "REPLACE" in words[:3] else CREATE_TABLE_AS
    return kind


def _with_object(verb: str, words: Sequence[str]) -> str:
    nouns = [word for word in words if word not in _MODIFIERS]
    if verb == "USE" and (len(nouns) < 2 or nouns[0] not in {"CATALOG", "DATABASE", "NAMESPACE", "SCHEMA", "MODULES"}):
        return "USE_MODULES" if nouns[:1] == ["MODULES"] else verb
    if nouns[:1] and nouns[0] in _TWO_WORDS:
        nouns = [*nouns[:1], *(_SYNONYMS.get(noun, noun) for noun in nouns[1:2])]
        if verb == "SHOW" and nouns == ["CREATE", "MATERIALIZED"]:
            nouns.append("TABLE")
    else:
        nouns = nouns[:1]
    return "_".join([verb, *(_SYNONYMS.get(noun, noun) for noun in nouns)])


def _outer(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens outside of all parentheses."""
    depth = 0
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0:
            yield token
