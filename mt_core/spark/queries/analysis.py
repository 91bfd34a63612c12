"""Analysis of a query: its columns, its text with every relation qualified, and the relations it reads."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import SparkSession

from mt_core.errors import DefinitionInvalid, QueryFailed, Unsupported
from mt_core.identifiers import display_name, sql_name
from mt_core.model.table import Column
from mt_core.spark.catalogs.columns import columns_of
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.jvm_objects import active_session
from mt_core.spark.queries.contexts import QueryContexts
from mt_core.spark.queries.relations import ParsedQuery, base_relations, parse
from mt_core.spark.queries.stars import StarWriter
from mt_core.spark.queries.views import Names
from mt_core.tables.ports import AnalysedQuery, Query

_OWN_SESSION = (
    "Refreshes run in a session of their own and do not see temporary views, functions or variables; "
    "create permanent ones."
)
_SESSION_BOUND = frozenset({"TABLE_OR_VIEW_NOT_FOUND", "UNRESOLVED_ROUTINE", "UNRESOLVED_VARIABLE"})


class QueryAnalysis:
    """Understands queries in sessions of their own, without running them."""

    def __init__(self, driver: SparkDriver, contexts: QueryContexts) -> None:
        self._driver = driver
        self._contexts = contexts

    def analyse(self, query: Query) -> AnalysedQuery:
        """Understand *query*; raises QueryFailed with line and position, DefinitionInvalid for what cannot be refreshed."""
        try:
            with self._driver.translating():
                session = self._contexts.session(query)
                with active_session(session):
                    return _analysed(session, query)
        except QueryFailed as cause:
            if cause.error_class not in _SESSION_BOUND:
                raise
            raise QueryFailed(
                f"{cause.message} {_OWN_SESSION}",
                error_class=cause.error_class,
                line=cause.line,
                position=cause.position,
            ) from cause


def _analysed(session: SparkSession, query: Query) -> AnalysedQuery:
    names = Names(session)
    parsed = parse(session, query.text)
    _refuse_session_bound(parsed, names)
    analysed = session.sql(query.text)._jdf.queryExecution().analyzed()
    if analysed.isStreaming():
        raise Unsupported("The query reads a stream; a refresh in FULL mode reads tables: leave out STREAM.")
    columns = columns_of(analysed.schema())
    _refuse_duplicates(columns)
    known = frozenset(base.parts for base in base_relations(analysed) if base.parts is not None)
    text = _without_stars(session, query.text, columns)
    starless = parsed if text == query.text else parse(session, text)
    return AnalysedQuery(
        columns=columns,
        expanded_query="".join(_qualified(starless, names, known)),
        sources=tuple(sorted(map(display_name, known))),
        relations=frozenset(
            each.parts[0].lower() for each in parsed.relations if len(each.parts) == 1 and not each.cte
        ),
        functions=frozenset(parts[0].lower() for parts in parsed.functions if len(parts) == 1),
    )


def _without_stars(session: SparkSession, text: str, columns: tuple[Column, ...]) -> str:
    """Return *text* with its stars written out: as a source gets, loses or moves columns, the query goes on meaning the same."""
    starless = StarWriter(session, text).written_out()
    if starless == text:
        return text
    try:
        found = columns_of(session.sql(starless)._jdf.queryExecution().analyzed().schema())
    except SPARK_ERRORS as cause:
        raise _not_without_stars() from cause
    if found != columns:
        raise _not_without_stars()
    return starless


def _not_without_stars() -> DefinitionInvalid:
    return DefinitionInvalid(
        "The stars of the query cannot be written out as columns, and would mean others once a source changes its columns; "
        "name the columns in the place of each *."
    )


def _refuse_session_bound(parsed: ParsedQuery, names: Names) -> None:
    for relation in parsed.relations:
        if relation.streaming:
            raise Unsupported(
                f"STREAM {display_name(relation.parts)}: a refresh in FULL mode reads tables, not streams; leave out STREAM."
            )
        if names.is_global_temporary(relation.parts):
            raise DefinitionInvalid(f"{display_name(relation.parts)} is a temporary view. {_OWN_SESSION}")


def _refuse_duplicates(columns: tuple[Column, ...]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise DefinitionInvalid(
                f"The query gives two columns named {column.name}; give one of them another name with AS."
            )
        seen.add(column.name.lower())


def _qualified(parsed: ParsedQuery, names: Names, known: frozenset[tuple[str, ...]]) -> Iterator[str]:
    catalog, namespace = names.current()
    position = 0
    for relation in parsed.relations:
        parts = names.qualify(relation.parts, catalog, namespace)
        # A name that is neither (files by path) means the same everywhere and stays as it is.
        if relation.cte or not (parts in known or names.view(parts) is not None):
            continue
        yield parsed.text[position : relation.start]
        yield sql_name(parts)
        position = relation.stop
    yield parsed.text[position:]
