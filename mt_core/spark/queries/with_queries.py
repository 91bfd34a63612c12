"""WITH queries in place of their names: a text in which each place that reads a table does so once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from mt_core.base.identifiers import quote
from mt_core.base.tokens import Token, significant, skip_brackets
from mt_core.spark.queries.relations import ParsedQuery, RelationName

LONGEST = 200_000
"""Characters of a text up to which it is written anew: WITH queries that read each other
several times multiply.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _WithQuery:
    """A query `text[begin:end]` with the name by which others read it, and its list of columns in brackets,
    if it has one.
    """

    name: str
    columns: str
    begin: int
    end: int


class _TooLong(Exception):
    """The text with its WITH queries in place of their names is longer than `LONGEST`."""


def inlined(parsed: ParsedQuery) -> str | None:
    """Return the text of a query with its WITH queries in place of their names;
    None unless it reads one several times.

    Of a query with WITH in another place than its beginning, the result is None too.
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
    """Yield the WITH queries at the beginning of a text, and the query that follows them;
    RECURSIVE ones are none.
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
    """Return the first token from *start* on, in a text that Spark has parsed."""
    return next(significant(text, start))


class _Inlining:
    """Writes parts of a text with the WITH queries in place of their names."""

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
        # On a line of its own: the text may end with a comment.
        text = f"({self.text(query.begin, query.end)}\n)"
        if query.columns:
            text = f"(SELECT * FROM {text} AS `_w`{query.columns})"
        word = "" if relation.table_word is None else "SELECT * FROM "
        return f"{word}{text}" if relation.aliased else f"{word}{text} AS {quote(name)}"
