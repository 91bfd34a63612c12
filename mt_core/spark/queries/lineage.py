"""Lineage of a query: what it reads, by what text those versions can be pinned, and what stands against skipping it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import Unsupported
from mt_core.identifiers import display_name, quote, sql_name
from mt_core.spark.catalogs.columns import columns_of
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.queries.determinism import unstable_literal, unstable_reason
from mt_core.spark.queries.relations import BaseRelation, ParsedQuery, RelationName, base_relations, parse
from mt_core.spark.queries.views import Names, View
from mt_core.tables.ports import Query

MOST_VIEWS_DEEP = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A table the query reads, at its current version or at the one the user wrote (`travel`)."""

    parts: tuple[str, ...]
    table: Any = field(default=None, repr=False, compare=False)
    travel: str | None = None

    @property
    def name(self) -> str:
        shown = display_name(self.parts)
        return shown if self.travel is None else f"{shown} AS OF {self.travel}"


Piece = str | Source
Shape = tuple[str, int]


@dataclass(slots=True, kw_only=True)
class Lineage:
    """What is known of a query until a source's uuid, its schema or a view changes.

    `pieces` is the query's text, cut where versions go; `unnamed` are sources without versions or catalog;
    `shapes` are the uuid and schema id of each table when the query was analysed.
    """

    sources: tuple[Source, ...]
    unnamed: tuple[str, ...]
    views: tuple[View, ...]
    functions: tuple[tuple[str, ...], ...]
    pieces: tuple[Piece, ...]
    unstable: str | None
    unpinnable: str | None
    shapes: Mapping[str, Shape]
    lock: threading.Lock = field(default_factory=threading.Lock)

    def text(self, pins: Mapping[str, str]) -> str:
        """Return the query with a version after the name of every source in *pins*."""
        return rendered(self.pieces, pins)


def rendered(pieces: Iterable[Piece], pins: Mapping[str, str]) -> str:
    """Return the text of *pieces*."""
    return "".join(piece if isinstance(piece, str) else _pinned(piece, pins) for piece in pieces)


def _pinned(source: Source, pins: Mapping[str, str]) -> str:
    pin = pins.get(source.name)
    return sql_name(source.parts) if pin is None else f"{sql_name(source.parts)} VERSION AS OF {pin}"


def shape_of(table: Any) -> Shape:
    """Return uuid and schema id of an Iceberg table as it was last read."""
    return str(table.uuid().toString()), int(table.schema().schemaId())


class LineageReader:
    """Reads the lineage of one query, in the session of its context."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._names = Names(session)
        self._views: dict[tuple[str, ...], View] = {}
        self._used: dict[str, Source] = {}
        self._unresolved: list[str] = []
        self._functions: dict[tuple[str, ...], None] = {}
        self._obstacle: str | None = None
        self._known: dict[tuple[str, ...], BaseRelation] = {}

    def read(self, query: Query) -> Lineage:
        """Return the lineage; errors of Spark's analysis are raised as they are."""
        parsed = parse(self._session, query.text)
        analysed = self._analysed(query.text)
        bases = base_relations(analysed)
        self._known = {base.parts: base for base in bases if base.parts is not None}
        pieces = tuple(self._pieces(parsed, *self._names.current(), ()))
        self._compare_with(bases)
        unstable = unstable_reason(analysed.toJSON()) or self._unstable_names(parsed) or self._unstable_literals(query)
        sources = (*self._used.values(), *self._overlooked())
        lineage = Lineage(
            sources=sources,
            unnamed=tuple(dict.fromkeys(self._unresolved)),
            views=tuple(self._views.values()),
            functions=tuple(self._functions),
            pieces=pieces,
            unstable=unstable,
            unpinnable=self._obstacle,
            shapes={source.name: shape_of(source.table) for source in sources if source.table is not None},
        )
        self._check_rewritten(lineage, analysed)
        return lineage

    def _analysed(self, text: str) -> Any:
        return self._session.sql(text)._jdf.queryExecution().analyzed()

    def _pieces(
        self, parsed: ParsedQuery, catalog: str, namespace: tuple[str, ...], inside: tuple[tuple[str, ...], ...]
    ) -> Iterator[Piece]:
        self._note_functions(parsed, inside)
        position = 0
        for relation in parsed.relations:
            if relation.streaming:
                raise Unsupported(
                    f"STREAM {display_name(relation.parts)}: a refresh in FULL mode reads tables, not streams; leave out STREAM."
                )
            if relation.cte:
                continue
            yield parsed.text[position : relation.begin]
            yield from self._relation(
                parsed.text, relation, self._names.qualify(relation.parts, catalog, namespace), inside
            )
            position = relation.stop
        yield parsed.text[position:]

    def _relation(
        self, text: str, relation: RelationName, parts: tuple[str, ...], inside: tuple[tuple[str, ...], ...]
    ) -> Iterator[Piece]:
        view = self._names.view(parts)
        if view is not None:
            yield from self._expanded(view, relation, inside)
            return
        base = self._known.get(parts)
        if base is None:
            self._unresolved.append(text[relation.start : relation.stop])
            yield text[relation.begin : relation.stop]
            return
        source = self._source(Source(parts=parts, table=base.table, travel=relation.travel))
        # A version cannot follow `TABLE t`.
        yield "SELECT * FROM " if relation.table_word is not None else ""
        yield source

    def _source(self, source: Source) -> Source:
        return self._used.setdefault(source.name, source)

    def _expanded(self, view: View, relation: RelationName, inside: tuple[tuple[str, ...], ...]) -> Iterator[Piece]:
        self._views[view.parts] = view
        if view.parts in inside or len(inside) >= MOST_VIEWS_DEEP:
            self._object(f"view {display_name(view.parts)} reads itself")
            return
        for key, value in view.settings:
            if self._setting(key) != value:
                self._object(f"view {display_name(view.parts)} was created with {key} = {value}")
        body = list(self._pieces(parse(self._session, view.text), view.catalog, view.namespace, (*inside, view.parts)))
        yield "SELECT * FROM " if relation.table_word is not None else ""
        yield from self._as_subquery(view, body)
        if not relation.aliased:
            yield f" AS {quote(view.parts[-1])}"

    def _setting(self, key: str) -> str | None:
        try:
            return self._session.conf.get(key)
        except SPARK_ERRORS:
            return None

    def _as_subquery(self, view: View, body: list[Piece]) -> Iterator[Piece]:
        """A view keeps the columns and types it was created with, whatever its query would give today."""
        given = [column.name for column in columns_of(self._analysed(rendered(body, {})).schema())]
        aliases = [f"_{index}" for index in range(len(given))]
        wanted = [aliases[index] for index in _positions(view, given)]
        columns = ", ".join(
            f"CAST({quote(alias)} AS {column.type}) AS {quote(column.name)}"
            for alias, column in zip(wanted, view.columns, strict=True)
        )
        yield f"(SELECT {columns} FROM ("
        yield from body
        # On a line of its own: the view's text may end with a comment.
        yield f"\n) AS `_v`({', '.join(map(quote, aliases))}))"

    def _note_functions(self, parsed: ParsedQuery, inside: tuple[tuple[str, ...], ...]) -> None:
        if parsed.identifier_clause:
            self._object("IDENTIFIER() names what it reads only when it runs")
        for parts in parsed.functions:
            function = self._names.function(parts)
            if function is not None:
                self._functions[function] = None
                if inside:
                    self._object(f"view {display_name(inside[-1])} uses function {display_name(function)}")

    def _unstable_names(self, parsed: ParsedQuery) -> str | None:
        if self._functions:
            return f"the function {display_name(next(iter(self._functions)))}"
        if parsed.identifier_clause:
            return "IDENTIFIER()"
        if any(source.travel == "timestamp" for source in self._used.values()):
            return "TIMESTAMP AS OF"
        return None

    def _unstable_literals(self, query: Query) -> str | None:
        texts = [query.text, *(view.text for view in self._views.values())]
        return next((found for found in map(unstable_literal, texts) if found), None)

    def _compare_with(self, bases: tuple[BaseRelation, ...]) -> None:
        """Names found in texts must be what the plan reads: otherwise something is hidden from the texts."""
        unnamed = sum(base.parts is None for base in bases)
        if self._overlooked() or (len(self._unresolved) == 0) != (unnamed == 0):
            self._object("the query reads relations that its text does not show")

    def _overlooked(self) -> tuple[Source, ...]:
        seen = {source.parts for source in self._used.values()}
        return tuple(Source(parts=parts, table=base.table) for parts, base in self._known.items() if parts not in seen)

    def _check_rewritten(self, lineage: Lineage, analysed: Any) -> None:
        """The text we would run must read the same and give the same columns as the one the user wrote."""
        if lineage.unpinnable is not None:
            return
        try:
            rewritten = self._analysed(lineage.text({}))
        except SPARK_ERRORS:
            lineage.unpinnable = "its relations cannot be replaced in the text"
            return
        read = {base.parts for base in base_relations(rewritten)}
        if columns_of(rewritten.schema()) != columns_of(analysed.schema()) or read - {None} != set(self._known):
            lineage.unpinnable = "with its views expanded the query gives other columns"

    def _object(self, obstacle: str) -> None:
        self._obstacle = self._obstacle or obstacle


def _positions(view: View, given: list[str]) -> list[int]:
    """Return where in the columns of its query a view finds its own: by name if it keeps their names, else by position."""
    if not view.query_columns:
        return list(range(len(view.columns)))
    lowered = [name.lower() for name in given]
    return [lowered.index(name.lower()) for name in view.query_columns]
