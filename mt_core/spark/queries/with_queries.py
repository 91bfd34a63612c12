"""Inlines WITH queries that are read more than once, so that every use has its own table readings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from mt_core.base.identifiers import quote
from mt_core.base.tokens import Token, significant, skip_brackets
from mt_core.spark.queries.relations import ParsedQuery, RelationName

LONGEST = 200_000
"""The maximum length of the inlined text, in characters. Nested WITH queries make it grow exponentially."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _WithQuery:
    """The WITH query `text[begin:end]`, with its name and its column list, in parentheses, if it has one."""

    name: str
    columns: str
    begin: int
    end: int


class _TooLong(Exception):
    """Raised if the inlined text is longer than `LONGEST`."""


def inline_with_queries(parsed: ParsedQuery) -> str | None:
    """Return the text of a query with its WITH queries inlined.

    Return None if none of them is read more than once, if a WITH clause is not at the beginning, or if the
    text becomes too long.
    """
    times = Counter(relation.parts[0].lower() for relation in parsed.relations if relation.cte)
    if max(times.values(), default=0) < 2 or parsed.with_clauses != 1:
        return None
    *queries, main = _parts(parsed.text)
    try:
        return _Inlining(parsed, queries).text(main.begin, main.end) if queries else None
    except _TooLong:
        return None


def _parts(text: str) -> Iterator[_WithQuery]:
    """Yield the WITH queries at the beginning of the SQL, then its main query.

    Recursive WITH queries are part of the main query.
    """
    token = _token(text, 0)
    if token.keyword != "WITH" or _token(text, token.end).keyword == "RECURSIVE":
        yield _WithQuery(name="", columns="", begin=0, end=len(text))
        return
    more = True
    while more:
        name = _token(text, token.end)
        token, columns = _token(text, name.end), ""
        if token.text == "(":
            end = skip_brackets(text, token.start)
            following = _token(text, end)
            if following.keyword == "AS" or following.text == "(":
                columns, token = text[token.start : end], following
        if token.keyword == "AS":
            token = _token(text, token.end)
        end = skip_brackets(text, token.start)
        yield _WithQuery(name=name.value.lower(), columns=columns, begin=token.end, end=end - 1)
        token = _token(text, end)
        more = token.text == ","
    yield _WithQuery(name="", columns="", begin=token.start, end=len(text))


def _token(text: str, start: int) -> Token:
    """Return the first token at or after *start*. There always is one, because Spark has parsed the text."""
    return next(significant(text, start))


class _Inlining:
    """Writes parts of a query with inlined WITH queries."""

    def __init__(self, parsed: ParsedQuery, queries: list[_WithQuery]) -> None:
        self._text, self._queries = parsed.text, queries
        self._readings = [relation for relation in parsed.relations if relation.cte]

    def text(self, begin: int, end: int) -> str:
        written, position = [], begin
        for relation in self._readings:
            if begin <= relation.start < end:
                written += [self._text[position : relation.begin], self._subquery(relation)]
                position = relation.stop
        written.append(self._text[position:end])
        if sum(map(len, written)) > LONGEST:
            raise _TooLong
        return "".join(written)

    def _subquery(self, relation: RelationName) -> str:
        name = relation.parts[0]
        query = next(
            each
            for each in reversed(self._queries)
            if each.name == name.lower() and each.end < relation.start
        )
        # Start a new line, because the text may end with a comment.
        text = f"({self.text(query.begin, query.end)}\n)"
        if query.columns:
            text = f"(SELECT * FROM {text} AS `_w`{query.columns})"
        word = "" if relation.table_word is None else "SELECT * FROM "
        return f"{word}{text}" if relation.aliased else f"{word}{text} AS {quote(name)}"
