"""The lineage of a query: its sources, and its text prepared for reading them at pinned versions.

A refresh must read all sources at pinned versions, but the user's text names tables and views whose
definitions may change. `LineageReader` therefore parses the text and expands its views into subqueries,
with the columns and types that the views had when they were created. It cuts the text into `pieces` at each
table, where `VERSION AS OF` can be inserted. The rewritten text is then analysed and compared with the
original. If relations or columns differ, or if the text does not show all relations (IDENTIFIER(), unknown
relations, views with other settings), the query is `unpinnable`. The refresh then runs the user's text,
which is correct but not repeatable. A lineage depends only on definitions and schemas, not on data. It is
therefore cached until one of them changes, which is detected by the recorded shapes and hashes.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from mt_core.base.identifiers import display_name, quote, sql_name
from mt_core.incremental.read_columns import read_attributes
from mt_core.model.function import CreatedFunction, FunctionLanguage
from mt_core.model.table import Column
from mt_core.sessions.catalog.created_functions import calls
from mt_core.spark.catalogs.columns import columns_of, iceberg_fields
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.functions.function_sync import deterministic_functions, functions_of
from mt_core.spark.queries.determinism import unstable_literal, unstable_reason
from mt_core.spark.queries.plan_json import json_of
from mt_core.spark.queries.relations import BaseRelation, ParsedQuery, RelationName, base_relations, parse
from mt_core.spark.queries.views import Names, View
from mt_core.spark.queries.with_queries import inline_with_queries
from mt_core.tables.engine import Query

MAX_VIEW_DEPTH = 50
_PLAIN_TABLE = "org.apache.iceberg.BaseTable"
ViewPath = tuple[tuple[str, ...], ...]
"""The names of the views that enclose a part of the query, outermost first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A table that the query reads, at its current version or at the version `travel`.

    `views` are the views that enclose its first occurrence.
    """

    parts: tuple[str, ...]
    table: Any = field(default=None, repr=False, compare=False)
    travel: str | None = None
    views: ViewPath = ()

    @property
    def name(self) -> str:
        name = display_name(self.parts)
        if self.travel is None:
            return name
        return f"{name} AS OF {self.travel if self.travel.isdigit() else display_name([self.travel])}"

    @property
    def path(self) -> tuple[str, ...]:
        """The full names of the enclosing views, outermost first, and of the table."""
        return tuple(map(display_name, (*self.views, self.parts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A place in the text that reads a source; `aliased` means that an alias follows in the text."""

    source: Source
    aliased: bool


Piece = str | Reading
Shape = tuple[str, int]
"""The UUID of an Iceberg table and the id of its schema."""


def shape_of(table: Any) -> Shape:
    """Return the shape of an Iceberg table, from its loaded metadata."""
    return str(table.uuid().toString()), int(table.schema().schemaId())


def is_plain(source: Source) -> bool:
    """Return whether a source can be pinned: it is not a metadata table, branch, tag or time travel."""
    # The name of the source may be that of a metadata table, or end with a branch.
    is_table = str(source.table.getClass().getName()) == _PLAIN_TABLE
    return (
        source.travel is None and is_table and str(source.table.name()).endswith(".".join(source.parts[1:]))
    )


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True, eq=False)
class Lineage:
    """Facts about a query that remain valid until a source's shape, a view or a function changes.

    - `pieces` is the text of the query, split where versions can be inserted. Views and repeated WITH
      queries are expanded.
    - `unnamed` are relations in the text that are not tables of a catalog. They have no version.
    - `shapes` and `functions` (hashes) are those at the time of analysis.
    - `columns` has, for each table, a hash of the columns that the query reads: ids, names and types.
    - `moving` are the names of tables that are not plain.
    - `unstable` and `unpinnable` are reasons, or None.
    - `lock` guards the tables of the sources and `plain`, a set of table names and snapshots whose columns
      are known to be the current ones.
    """

    sources: tuple[Source, ...]
    unnamed: tuple[str, ...]
    views: tuple[View, ...]
    functions: Mapping[tuple[str, ...], str]
    pieces: tuple[Piece, ...]
    unstable: str | None
    unpinnable: str | None
    shapes: Mapping[str, Shape]
    columns: Mapping[str, str]
    moving: frozenset[str] = frozenset()
    lock: threading.Lock = field(default_factory=threading.Lock)
    plain: set[tuple[str, str]] = field(default_factory=set)


def text_of(pieces: Iterable[Piece], relations: Mapping[str, str]) -> str:
    """Return the text of *pieces*.

    *relations* maps source names to the SQL relations that replace them.
    """
    texts = []
    for piece in pieces:
        if isinstance(piece, str):
            texts.append(piece)
        else:
            relation = relations.get(piece.source.name, sql_name(piece.source.parts))
            named = piece.aliased or not relation.startswith("(")
            texts.append(relation if named else f"{relation} AS {quote(piece.source.parts[-1])}")
    return "".join(texts)


def _digest(fields: Iterable[Mapping[str, Any]], names: Iterable[str]) -> str:
    types = {each["name"]: [each["id"], each["type"]] for each in fields}
    read = {name: types.get(name) for name in names}
    return hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()[:16]


class LineageReader:
    """Reads the lineage of one query, in the session of its context."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._names = Names(session)
        self._bases: dict[tuple[str, ...], BaseRelation] = {}
        self._sources: dict[str, Source] = {}
        self._views: dict[tuple[str, ...], View] = {}
        self._functions: dict[tuple[str, ...], None] = {}
        self._unresolved: list[str] = []
        self._unpinnable: str | None = None

    def read(self, query: Query) -> Lineage:
        """Return the lineage. Raises Spark's errors of parsing and analysis."""
        parsed, analysed = parse(self._session, query.text), self._analysed(query.text)
        once = inline_with_queries(parsed)
        if once is not None and self._gives(once, columns_of(analysed.schema())):
            parsed = parse(self._session, once)
        bases = base_relations(self._session, analysed)
        self._bases = {base.parts: base for base in bases if base.parts is not None}
        pieces = tuple(self._pieces(parsed, *self._names.current(), ()))
        in_text = {source.parts for source in self._sources.values()}
        hidden = [
            Source(parts=parts, table=base.table)
            for parts, base in self._bases.items()
            if parts not in in_text
        ]
        if hidden or bool(self._unresolved) != any(base.parts is None for base in bases):
            self._refuse_pins("the query reads relations that its text does not show")
        sources = (*self._sources.values(), *hidden)
        plan = json_of(self._session, analysed)
        return Lineage(
            sources=sources,
            unnamed=tuple(dict.fromkeys(self._unresolved)),
            views=tuple(self._views.values()),
            functions={parts: self._names.function_digest(parts) for parts in self._functions},
            pieces=pieces,
            unstable=unstable_reason(plan, deterministic=deterministic_functions(self._session))
            or self._unstable_text(query, parsed),
            unpinnable=self._unpinnable or self._rewriting_fault(text_of(pieces, {}), analysed),
            shapes={source.name: shape_of(source.table) for source in sources if source.table is not None},
            columns=self._columns(sources, bases, plan),
            moving=frozenset(
                source.name for source in sources if source.table is not None and not is_plain(source)
            ),
        )

    def _columns(self, sources: Iterable[Source], bases: Iterable[BaseRelation], plan: str) -> dict[str, str]:
        """Return a hash of the columns that the query reads of each table, by table name."""
        read, names = read_attributes(json.loads(plan)), defaultdict[tuple[str, ...], set[str]](set)
        for base in bases:
            if base.parts is not None:
                names[base.parts] |= {name for attribute, name in base.columns.items() if attribute in read}
        tables = ((source, source.table) for source in sources if source.table is not None)
        return {
            source.name: _digest(iceberg_fields(self._session, table.schema()), names[source.parts])
            for source, table in tables
        }

    def _analysed(self, text: str) -> Any:
        return self._session.sql(text)._jdf.queryExecution().analyzed()

    def _gives(self, text: str, columns: Sequence[Column]) -> bool:
        try:
            return columns_of(self._analysed(text).schema()) == columns
        except SPARK_ERRORS:
            return False

    def _refuse_pins(self, reason: str) -> None:
        """Record why the sources cannot be pinned. The first reason is retained."""
        self._unpinnable = self._unpinnable or reason

    # ------------------------------------------------------------------------------------------------- pieces

    def _pieces(
        self, parsed: ParsedQuery, catalog: str, namespace: tuple[str, ...], path: ViewPath
    ) -> Iterator[Piece]:
        """Yield the text of the query, or of the innermost view in *path*, split at its readings."""
        self._collect_functions(parsed, path)
        position = 0
        for relation in parsed.relations:
            if relation.cte:
                continue
            yield parsed.text[position : relation.begin]
            parts = self._names.qualify(relation.parts, catalog, namespace)
            view = self._names.view(parts)
            if view is not None:
                yield from self._expanded(view, relation, path)
            elif parts not in self._bases:
                self._unresolved.append(parsed.text[relation.start : relation.stop])
                yield parsed.text[relation.begin : relation.stop]
            else:
                source = Source(
                    parts=parts, table=self._bases[parts].table, travel=relation.travel, views=path
                )
                # A version cannot follow `TABLE t`.
                yield "SELECT * FROM " if relation.table_word is not None else ""
                yield Reading(source=self._sources.setdefault(source.name, source), aliased=relation.aliased)
            position = relation.stop
        yield parsed.text[position:]

    def _collect_functions(self, parsed: ParsedQuery, path: ViewPath) -> None:
        if parsed.identifier_clause:
            self._refuse_pins("IDENTIFIER() names what it reads only when it runs")
        for parts in parsed.functions:
            function = self._names.function(parts)
            if function is not None:
                self._collect_function(function)
                # The name of a function that all sessions share has one part. It means the same inside and
                # outside a view.
                if path and len(function) > 1:
                    self._refuse_pins(f"view {display_name(path[-1])} uses function {display_name(function)}")

    def _collect_function(self, function: tuple[str, ...]) -> None:
        """Record a function. For an SQL function of all sessions, also record the functions that it calls."""
        self._functions[function] = None
        functions = functions_of(self._session)
        created = functions.get(function[0]) if len(function) == 1 else None
        if created is None or created.language is not FunctionLanguage.SQL:
            return
        for name in functions:
            if (name,) not in self._functions and calls(created.body, name):
                self._collect_function((name,))

    def _expanded(self, view: View, relation: RelationName, path: ViewPath) -> Iterator[Piece]:
        """Yield a subquery that replaces a view, with the columns and types that are stored for the view."""
        self._views[view.parts] = view
        if view.parts in path or len(path) >= MAX_VIEW_DEPTH:
            self._refuse_pins(f"view {display_name(view.parts)} reads itself")
            return
        for key, value in view.settings:
            if self._setting(key) != value:
                self._refuse_pins(f"view {display_name(view.parts)} was created with {key} = {value}")
        body = list(
            self._pieces(parse(self._session, view.text), view.catalog, view.namespace, (*path, view.parts))
        )
        names = [column.name.lower() for column in columns_of(self._analysed(text_of(body, {})).schema())]
        aliases = [f"_{index}" for index in range(len(names))]
        # Spark resolves a view's columns by the stored names of its query's columns, or by position if there
        # are none.
        by_name = [aliases[names.index(name.lower())] for name in view.query_columns]
        columns = ", ".join(
            f"CAST({quote(alias)} AS {column.type}) AS {quote(column.name)}"
            for alias, column in zip(by_name or aliases[: len(view.columns)], view.columns, strict=True)
        )
        yield "SELECT * FROM " if relation.table_word is not None else ""
        yield f"(SELECT {columns} FROM ("
        yield from body
        # Start a new line, because the view's text may end with a comment.
        yield f"\n) AS `_v`({', '.join(map(quote, aliases))}))"
        if not relation.aliased:
            yield f" AS {quote(view.parts[-1])}"

    def _setting(self, key: str) -> str | None:
        try:
            return self._session.conf.get(key)
        except SPARK_ERRORS:
            return None

    # ------------------------------------------------------------------------------------------------ reasons

    def _unstable_text(self, query: Query, parsed: ParsedQuery) -> str | None:
        """Return what makes the SQL of the query, its views or its functions nondeterministic, or None."""
        functions = functions_of(self._session)
        for parts in self._functions:
            created = functions.get(parts[0]) if len(parts) == 1 else None
            if created is None or _is_unstable(created):
                return f"the function {display_name(parts)}"
            if (
                literal := unstable_literal(created.body)
                if created.language is FunctionLanguage.SQL
                else None
            ):
                return f"{literal} in the function {display_name(parts)}"
        if parsed.identifier_clause:
            return "IDENTIFIER()"
        if any(source.travel == "timestamp" for source in self._sources.values()):
            return "TIMESTAMP AS OF"
        texts = [query.text, *(view.text for view in self._views.values())]
        return next(filter(None, map(unstable_literal, texts)), None)

    def _rewriting_fault(self, text: str, analysed: Any) -> str | None:
        """Return why *text*, which a refresh would run, is not equivalent to the user's query, or None.

        The relations and columns of both are compared.
        """
        try:
            rewritten = self._analysed(text)
        except SPARK_ERRORS:
            return "its relations cannot be replaced in the text"
        relations = {base.parts for base in base_relations(self._session, rewritten)} - {None}
        if columns_of(rewritten.schema()) != columns_of(analysed.schema()) or relations != set(self._bases):
            return "with its views expanded the query has other columns"
        return None


def _is_unstable(function: CreatedFunction) -> bool:
    """Return whether a function may be nondeterministic. SQL functions are checked by their plan as well."""
    if function.language is FunctionLanguage.SQL:
        return function.deterministic is False
    return function.deterministic is not True
