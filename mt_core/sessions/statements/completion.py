"""Completion: what can stand at a position of a statement - keywords, catalogs, namespaces, tables and columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from mt_core.errors import SqlSyntaxError
from mt_core.identifiers import display_name
from mt_core.sessions.ports import Name, NameDirectory
from mt_core.sql.kinds import PHRASES
from mt_core.tokens import Token, TokenKind, significant, tokenize

_PHRASES = [phrase.split() for phrase in sorted(PHRASES)]

_IN_QUERY = (
    *("AND", "AS", "CASE", "CROSS JOIN", "DISTINCT", "EXCEPT", "FROM", "FULL JOIN", "GROUP BY", "HAVING", "INNER JOIN"),
    *(
        "INTERSECT",
        "JOIN",
        "LEFT JOIN",
        "LIMIT",
        "NOT",
        "ON",
        "OR",
        "ORDER BY",
        "RIGHT JOIN",
        "SELECT",
        "UNION",
        "UNION ALL",
    ),
    *("VALUES", "WHERE", "WINDOW", "WITH"),
)
_QUERY_STARTS = {"SELECT", "WITH", "INSERT", "CREATE", "EXPLAIN", "FROM", "UPDATE", "DELETE", "MERGE", "REPLACE"}
_BEFORE_TABLE = {
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
}
_BEFORE_NAMESPACE = {"USE", "DATABASE", "SCHEMA", "NAMESPACE", "IN"}
_WORD = re.compile(r"(?:`(?:[^`]|``)*(?:`|$)|[\w$.])*$")
_PART = re.compile(r"`((?:[^`]|``)*)(?:`|$)|([^.`]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The place to complete: the words before it, the parts of the name at it, and what there is of the last part."""

    before: Sequence[Token]
    written: str
    parts: Name
    begun: str

    @property
    def keywords(self) -> list[str]:
        return [token.keyword for token in self.before]

    @property
    def last(self) -> str:
        return self.keywords[-1] if self.before else ""


def complete(text: str, position: int, names: NameDirectory) -> list[str]:
    """Return the candidates for the word at *position* of *text*, each as the whole word; sorted, without repetition.

    Nothing is raised: where nothing can be said, as inside of a string or comment, there are no candidates.
    """
    position = min(max(position, 0), len(text))
    place = _place(text[:position])
    if place is None:
        return []
    found = [*_keywords(place), *_names(place, text, names)]
    return sorted(set(found), key=lambda each: (each.casefold(), each))


def _place(text: str) -> _Place | None:
    match = _WORD.search(text)
    written = match.group() if match else ""
    try:
        tokens = list(tokenize(text[: len(text) - len(written)]))
    except SqlSyntaxError:
        return None
    if (
        tokens
        and tokens[-1].kind is TokenKind.COMMENT
        and tokens[-1].text.startswith("--")
        and "\n" not in text[tokens[-1].end :]
    ):
        return None
    parts = [(quoted.replace("``", "`") if quoted else plain) for quoted, plain in _PART.findall(written)]
    begun = "" if not written or written.endswith(".") else parts.pop()
    before = [token for token in tokens if token.kind is not TokenKind.COMMENT]
    return _Place(before=_last_statement(before), written=written, parts=tuple(parts), begun=begun)


def _last_statement(tokens: list[Token]) -> list[Token]:
    ends = [index for index, token in enumerate(tokens) if token.text == ";"]
    return tokens[ends[-1] + 1 :] if ends else tokens


# ------------------------------------------------------------------------------------------------------------- keywords


def _keywords(place: _Place) -> Iterable[str]:
    if place.parts or place.written.startswith("`"):
        return []
    words = place.keywords
    known = _offered([phrase[len(words) :] for phrase in _PHRASES if phrase[: len(words)] == words])
    if not known and words[:1] and words[0] in _QUERY_STARTS and place.last not in _BEFORE_TABLE:
        known = list(_IN_QUERY)
    return [word for word in known if word.startswith(place.begun.upper())]


def _offered(phrases: Sequence[Sequence[str]]) -> list[str]:
    """Return how *phrases* go on: each up to where there is a choice of more than two words."""
    found: list[str] = []
    for first in dict.fromkeys(phrase[0] for phrase in phrases if phrase):
        group = [phrase for phrase in phrases if phrase[:1] == [first]]
        shared = [words[0] for words in takewhile(lambda words: len(set(words)) == 1, zip(*group, strict=False))]
        following = {phrase[len(shared)] for phrase in group if len(phrase) > len(shared)}
        if shared in group or len(following) > 2:
            found.append(" ".join(shared))
        else:
            found += [" ".join([*shared, rest]) for rest in _offered([phrase[len(shared) :] for phrase in group])]
    return found


# ---------------------------------------------------------------------------------------------------------------- names


def _names(place: _Place, text: str, names: NameDirectory) -> list[str]:
    if place.last in _BEFORE_TABLE:
        return _fitting(place, _relations(place.parts, names))
    if place.keywords == ["USE", "CATALOG"] or place.last == "CATALOGS":
        return _fitting(place, names.catalogs())
    if place.last in _BEFORE_NAMESPACE and place.keywords[0] in {"USE", "SHOW", "DROP", "ALTER", "DESCRIBE"}:
        return _fitting(place, _namespaces(place.parts, names))
    if place.keywords[:1] and place.keywords[0] in _QUERY_STARTS:
        return _fitting(place, _columns(place, text, names))
    return []


def _relations(parts: Name, names: NameDirectory) -> list[str]:
    """Return what can follow *parts* in the name of a table: tables, and the namespaces and catalogs around them."""
    found = [*names.tables(parts)]
    if not parts:
        found += [*names.namespaces(None), *names.catalogs()]
    elif len(parts) == 1:
        found += names.namespaces(parts[0])
    return found


def _namespaces(parts: Name, names: NameDirectory) -> list[str]:
    if not parts:
        return [*names.namespaces(None), *names.catalogs()]
    return [*names.namespaces(parts[0])] if len(parts) == 1 else []


def _columns(place: _Place, text: str, names: NameDirectory) -> list[str]:
    """Return columns of the tables that the statement reads, or of the one that *place* names by its name or alias."""
    sources = _sources(text)
    if place.parts:
        wanted = place.parts[-1].casefold()
        sources = {alias: name for alias, name in sources.items() if alias.casefold() == wanted}
    return [column for name in dict.fromkeys(sources.values()) for column in names.columns(name)]


def _sources(text: str) -> dict[str, Name]:
    """Return the tables after FROM, JOIN, INTO and UPDATE, by their aliases or else the last parts of their names."""
    try:
        tokens = list(significant(text))
    except SqlSyntaxError:
        return {}
    found: dict[str, Name] = {}
    for index, token in enumerate(tokens):
        if token.keyword in {"FROM", "JOIN", "INTO", "UPDATE"}:
            name, end = _read_name(tokens, index + 1)
            if name:
                found[_alias(tokens, end) or name[-1]] = name
    return found


def _read_name(tokens: Sequence[Token], start: int) -> tuple[Name, int]:
    parts: list[str] = []
    at = start
    while at < len(tokens) and tokens[at].kind in {TokenKind.WORD, TokenKind.IDENTIFIER}:
        parts.append(tokens[at].value)
        at += 1
        if at >= len(tokens) or tokens[at].text != ".":
            break
        at += 1
    return tuple(parts), at


def _alias(tokens: Sequence[Token], at: int) -> str:
    if at < len(tokens) and tokens[at].keyword == "AS":
        at += 1
    if at >= len(tokens) or tokens[at].kind not in {TokenKind.WORD, TokenKind.IDENTIFIER}:
        return ""
    keyword = tokens[at].keyword
    return "" if any(keyword in phrase.split() for phrase in (*_IN_QUERY, "SET USING")) else tokens[at].value


def _fitting(place: _Place, found: Iterable[str]) -> list[str]:
    """Return those of *found* that go on with what is begun, written out after the parts before."""
    begun = place.begun.casefold()
    return [display_name((*place.parts, name)) for name in found if name.casefold().startswith(begun)]
