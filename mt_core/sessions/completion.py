"""Completion: the keywords, names and options that can follow at a position of a statement.

A statement that is still being typed rarely parses, so completion does not parse it. It uses only the
keywords before the cursor and the dotted name under it. Keywords come from the phrases that the statement
parser declares (`PHRASES`), so a new statement is completed without a change here. Spark's grammar is not
available inside a query, so every keyword of `_IN_QUERY` is offered there. The keyword before the cursor
decides which names fit: tables after FROM, namespaces after USE, columns and functions elsewhere in a query.
Completion never raises an error and never takes the session's turn. While Spark starts, it offers only
keywords and option keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from mt_core.base.identifiers import display_name
from mt_core.base.tokens import Token, TokenKind, significant, tokenize
from mt_core.errors import SqlSyntaxError
from mt_core.sessions.catalog.names import Named, SessionNames
from mt_core.sessions.completed_options import open_quote, options_in
from mt_core.sql.kinds import PHRASES
from mt_core.sql.statements import Name

# The empty word stands for the URI of a plan, which is not a keyword.
_PLANS = [
    [*verb.split(), "", *rest.split()]
    for verb, word in (
        ("COMPILE PLAN", "IF NOT EXISTS FOR"),
        ("COMPILE PLAN", "FOR"),
        ("COMPILE AND EXECUTE PLAN", "FOR"),
    )
    for rest in (f"{word} INSERT INTO", f"{word} STATEMENT SET BEGIN")
]
_PHRASES = [*(phrase.split() for phrase in sorted(PHRASES)), *_PLANS]

_IN_QUERY = (
    *(
        "AND",
        "AS",
        "ASC",
        "BETWEEN",
        "CASE",
        "CROSS JOIN",
        "DESC",
        "DISTINCT",
        "ELSE",
        "END",
        "EXCEPT",
        "EXISTS",
    ),
    *(
        "FROM",
        "FULL JOIN",
        "GROUP BY",
        "HAVING",
        "ILIKE",
        "IN",
        "INNER JOIN",
        "INTERSECT",
        "IS NOT NULL",
        "IS NULL",
    ),
    *("JOIN", "LATERAL", "LEFT JOIN", "LIKE", "LIMIT", "NOT", "OFFSET", "ON", "OR", "ORDER BY", "OVER"),
    *(
        "PARTITION BY",
        "QUALIFY",
        "RIGHT JOIN",
        "SELECT",
        "THEN",
        "UNION",
        "UNION ALL",
        "VALUES",
        "WHEN",
        "WHERE",
    ),
    *("WINDOW", "WITH"),
)
_NO_ALIAS = {word for phrase in (*_IN_QUERY, "SET USING") for word in phrase.split()}
_QUERY_STARTS = {
    "SELECT",
    "WITH",
    "INSERT",
    "CREATE",
    "EXPLAIN",
    "FROM",
    "UPDATE",
    "DELETE",
    "MERGE",
    "REPLACE",
}
_BEFORE_TABLE = {
    *(
        "FROM",
        "JOIN",
        "INTO",
        "OVERWRITE",
        "TABLE",
        "VIEW",
        "DESCRIBE",
        "DESC",
        "UPDATE",
        "PARTITIONS",
        "EXTENDED",
    ),
}
# Phrases whose last word does not precede a table anywhere else.
_BEFORE_TABLE_PHRASES = (["SHOW", "REFRESHES", "FOR"], ["SHOW", "LINEAGE", "OF"])
_BEFORE_NAMESPACE = {"USE", "DATABASE", "SCHEMA", "NAMESPACE", "IN"}
_WITH_NAMESPACE = {"USE", "SHOW", "DROP", "ALTER", "DESCRIBE"}
_WORD = re.compile(r"(?:`(?:[^`]|``)*(?:`|$)|[\w$.])*$")
_NAME = {TokenKind.WORD, TokenKind.IDENTIFIER}
_PART = re.compile(r"`((?:[^`]|``)*)(?:`|$)|([^.`]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The place of a completion: the keywords before it in its statement, and the name under the cursor.

    `written` is that name as typed, `parts` its complete parts and `begun` its last, incomplete part. A token
    that is not a word counts as an empty keyword.
    """

    keywords: Sequence[str]
    written: str
    parts: Name
    begun: str


def complete(text: str, position: int, names: SessionNames) -> list[str]:
    """Return the candidates that can replace the word at *position* of *text*, sorted and without duplicates.

    Never raises an error. Inside a comment there are no candidates. Inside a string literal, the candidates
    are only option keys and values, without quotation marks.
    """
    before = text[: max(position, 0)]
    place = _place(before)
    if place is None and (quote := open_quote(before)) is not None:
        return options_in(quote)
    if place is None:
        return []
    candidates = {*_keywords(place), *_names(place, text, names)}
    return sorted(candidates, key=lambda each: (each.casefold(), each))


def _place(text: str) -> _Place | None:
    """Return the place at the end of *text*, or None inside a string literal or a comment."""
    match = _WORD.search(text)
    written = match.group() if match else ""
    try:
        tokens = list(tokenize(text[: len(text) - len(written)]))
    except SqlSyntaxError:
        return None
    last = tokens[-1] if tokens else None
    if (
        last
        and last.kind is TokenKind.COMMENT
        and last.text.startswith("--")
        and "\n" not in text[last.end :]
    ):
        return None
    parts = [(quoted.replace("``", "`") if quoted else plain) for quoted, plain in _PART.findall(written)]
    begun = "" if not written or written.endswith(".") else parts.pop()
    keywords: list[str] = []
    for token in tokens:
        if token.text == ";":
            keywords.clear()
        elif token.kind is not TokenKind.COMMENT:
            keywords.append(token.keyword)
    return _Place(keywords=keywords, written=written, parts=tuple(parts), begun=begun)


# --------------------------------------------------------------------------------------------------- keywords


def _keywords(place: _Place) -> Iterable[str]:
    if place.parts or place.written.startswith("`"):
        return []
    words = place.keywords
    offered = _offered([phrase[len(words) :] for phrase in _PHRASES if phrase[: len(words)] == words])
    if not offered and words and words[0] in _QUERY_STARTS and words[-1] not in _BEFORE_TABLE:
        offered = list(_IN_QUERY)
    return [word for word in offered if word.startswith(place.begun.upper())]


def _offered(phrases: Sequence[Sequence[str]]) -> list[str]:
    """Return the next words of *phrases*.

    The words are extended up to the first place at which more than two words can follow.
    """
    offered: list[str] = []
    for first in dict.fromkeys(phrase[0] for phrase in phrases if phrase):
        group = [phrase for phrase in phrases if phrase[:1] == [first]]
        shared = [
            words[0] for words in takewhile(lambda words: len(set(words)) == 1, zip(*group, strict=False))
        ]
        following = {phrase[len(shared)] for phrase in group if len(phrase) > len(shared)}
        if shared in group or len(following) > 2:
            offered.append(" ".join(shared))
        else:
            offered += [
                " ".join([*shared, rest]) for rest in _offered([phrase[len(shared) :] for phrase in group])
            ]
    return offered


# ------------------------------------------------------------------------------------------------------ names


def _names(place: _Place, text: str, names: SessionNames) -> list[str]:
    """Return the names that complete the name at *place*, each with its qualifier."""
    first, last = (place.keywords[0], place.keywords[-1]) if place.keywords else ("", "")
    candidates: Sequence[str] = ()
    if last in _BEFORE_TABLE or place.keywords in _BEFORE_TABLE_PHRASES:
        candidates = [*names.within(Named.TABLES, place.parts), *_namespaces(place.parts, names)]
    elif place.keywords == ["USE", "CATALOG"] or last == "CATALOGS":
        candidates = names.catalogs()
    elif last in _BEFORE_NAMESPACE and first in _WITH_NAMESPACE:
        candidates = _namespaces(place.parts, names)
    elif last == "FUNCTION":
        candidates = () if first == "CREATE" else names.functions()
    elif first in _QUERY_STARTS:
        candidates = [*_columns(place.parts, text, names), *_functions(place, names)]
    begun = place.begun.casefold()
    return [display_name((*place.parts, name)) for name in candidates if name.casefold().startswith(begun)]


def _namespaces(parts: Name, names: SessionNames) -> list[str]:
    """Return the namespaces and catalogs that can follow the qualifier *parts*."""
    if not parts:
        return [*names.within(Named.NAMESPACES), *names.catalogs()]
    return [*names.within(Named.NAMESPACES, parts)] if len(parts) == 1 else []


def _columns(parts: Name, text: str, names: SessionNames) -> list[str]:
    """Return the columns of the statement's tables, or of the one table that *parts* names."""
    try:
        tokens = list(significant(text))
    except SqlSyntaxError:
        return []
    tables: dict[Name, None] = {}
    for index, token in enumerate(tokens):
        if token.keyword in {"FROM", "JOIN", "INTO", "UPDATE"}:
            name, alias = _read_table(tokens[index + 1 :])
            if name and (not parts or alias.casefold() == parts[-1].casefold()):
                tables[name] = None
    return [column for name in tables for column in names.columns(name)]


def _functions(place: _Place, names: SessionNames) -> list[str]:
    """Return the callable functions, but only after a first letter is typed, because Spark has hundreds."""
    if place.parts or not place.begun:
        return []
    return [*names.functions(), *names.system_functions()]


def _read_table(tokens: Sequence[Token]) -> tuple[Name, str]:
    """Return the name at the start of *tokens* and its alias. If it has no alias, return its last part.

    Both are empty if *tokens* do not start with a name.
    """
    parts, rest = list[str](), iter(tokens)
    token = next(rest, None)
    while token is not None and token.kind in _NAME:
        parts.append(token.value)
        token = next(rest, None)
        if token is None or token.text != ".":
            break
        token = next(rest, None)
    if token is not None and token.keyword == "AS":
        token = next(rest, None)
    has_alias = token is not None and token.kind in _NAME and token.keyword not in _NO_ALIAS
    return tuple(parts), token.value if token is not None and has_alias else "".join(parts[-1:])
