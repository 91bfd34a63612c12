"""Analysis of a query: its columns, its text with every relation qualified, and the relations it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

from pyspark.sql import SparkSession

from mt_core.errors import DefinitionInvalid, QueryFailed, Unsupported
from mt_core.identifiers import display_name, quote, sql_name
from mt_core.model.table import Column, TableIdentifier
from mt_core.spark.catalogs.columns import check_assignable, columns_of, stored_type
from mt_core.spark.driver.conf import REFRESH_POOL
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.engine_role import EngineRole
from mt_core.spark.jvm_objects import active_session
from mt_core.spark.queries.relations import ParsedQuery, base_relations, parse
from mt_core.spark.queries.stars import StarWriter
from mt_core.spark.queries.views import Names
from mt_core.tables.engine import AnalysedQuery, Query, SourceVector

_OWN_SESSION = (
    "Refreshes run in a session of their own and do not see temporary views, functions or variables; "
    "create permanent ones."
)
_GLOBAL_TEMPORARY = "global_temp"
_SESSION_BOUND = frozenset({"TABLE_OR_VIEW_NOT_FOUND", "UNRESOLVED_ROUTINE", "UNRESOLVED_VARIABLE"})


class QueryAnalysis(EngineRole):
    """What queries give, found in sessions of the engine's own."""

    def analyse(self, query: Query) -> AnalysedQuery:
        """Return what the manager needs of *query*.

        Raises QueryFailed with line and position, DefinitionInvalid or Unsupported for a query that no refresh can run.
        """
        try:
            with self._driver.translating():
                session = self._contexts.session(query)
                with active_session(session):
                    return _analysed(session, query.text)
        except QueryFailed as cause:
            if cause.error_class not in _SESSION_BOUND:
                raise
            raise cause.reworded(f"{cause.message} {_OWN_SESSION}", line=cause.line, position=cause.position) from cause

    def check_columns(self, identifier: TableIdentifier, columns: Sequence[Column]) -> tuple[Column, ...]:
        with self._working() as session:
            return tuple(replace(column, type=stored_type(session, column)) for column in columns)

    def check_assignable(self, produced: Sequence[Column], declared: Sequence[Column]) -> None:
        with self._working() as session:
            for source, target in zip(produced, declared, strict=True):
                check_assignable(session, source, target)

    def read_vector(self, query: Query) -> SourceVector:
        with self._working():
            return self._versions.vector(query)

    def partition_values(self, query: Query, identifier: TableIdentifier, column: str) -> frozenset[str | None]:
        with self._driver.run_tagged(uuid4().hex, REFRESH_POOL, f"partitions of {identifier}"):
            session = self._contexts.session(query)
            with active_session(session):
                name = quote(column)
                produced = session.sql(query.text).select(name)
                values = produced.union(session.table(identifier.sql).select(name)).distinct()
                return frozenset(row[0] for row in values.collect())


def _analysed(session: SparkSession, text: str) -> AnalysedQuery:
    names, parsed = Names(session), parse(session, text)
    for relation in parsed.relations:
        if len(relation.parts) == 2 and relation.parts[0].lower() == _GLOBAL_TEMPORARY:
            raise DefinitionInvalid(f"{display_name(relation.parts)} is a temporary view. {_OWN_SESSION}")
    analysed = session.sql(text)._jdf.queryExecution().analyzed()
    if analysed.isStreaming():
        raise Unsupported("The query reads a stream; a refresh in FULL mode reads tables: leave out STREAM.")
    columns = columns_of(analysed.schema())
    names_before: set[str] = set()
    for column in columns:
        if column.name.lower() in names_before:
            raise DefinitionInvalid(
                f"The query gives two columns named {column.name}; give one of them another name with AS."
            )
        names_before.add(column.name.lower())
    sources = frozenset(base.parts for base in base_relations(analysed) if base.parts is not None)
    starless = _without_stars(session, text, columns)
    return AnalysedQuery(
        columns=columns,
        expanded_query=_qualified(parsed if starless == text else parse(session, starless), names, sources),
        sources=tuple(sorted(map(display_name, sources))),
        relations=frozenset(
            relation.parts[0].lower() for relation in parsed.relations if len(relation.parts) == 1 and not relation.cte
        ),
        functions=frozenset(parts[0].lower() for parts in parsed.functions if len(parts) == 1),
    )


def _without_stars(session: SparkSession, text: str, columns: tuple[Column, ...]) -> str:
    """Return *text* with its stars written out: it keeps its meaning when a source gets, loses or moves columns."""
    starless = StarWriter(session, text).written_out()
    if starless == text:
        return text
    refusal = DefinitionInvalid(
        "The stars of the query cannot be written out as columns, and would mean others once a source changes its columns; "
        "name the columns in the place of each *."
    )
    try:
        starless_columns = columns_of(session.sql(starless)._jdf.queryExecution().analyzed().schema())
    except SPARK_ERRORS as cause:
        raise refusal from cause
    if starless_columns != columns:
        raise refusal
    return starless


def _qualified(parsed: ParsedQuery, names: Names, sources: frozenset[tuple[str, ...]]) -> str:
    """Return the text with the full name of each table and view."""
    catalog, namespace = names.current()
    pieces, position = [], 0
    for relation in parsed.relations:
        parts = names.qualify(relation.parts, catalog, namespace)
        # A name of neither a table nor a view (files by path) means the same everywhere.
        if not relation.cte and (parts in sources or names.view(parts) is not None):
            pieces += [parsed.text[position : relation.start], sql_name(parts)]
            position = relation.stop
    return "".join([*pieces, parsed.text[position:]])
