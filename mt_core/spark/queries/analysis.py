"""The analysis of a query: its columns, its fully qualified text, and the relations that it reads."""

from __future__ import annotations

from pyspark.sql import SparkSession

from mt_core.base.identifiers import display_name, sql_name
from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.model.table import Column
from mt_core.spark.catalogs.columns import columns_of
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.queries.relations import ParsedQuery, base_relations, parse
from mt_core.spark.queries.stars import StarWriter
from mt_core.spark.queries.views import Names
from mt_core.tables.engine import AnalysedQuery

OWN_SESSION = (
    "Refreshes run in a session of their own and do not see temporary views, functions or variables; "
    "create permanent ones. To read a temporary table that is a stream, write its rows into a table "
    "with a streaming INSERT, and read that table."
)
_GLOBAL_TEMPORARY = "global_temp"


def analysis_of(session: SparkSession, text: str) -> AnalysedQuery:
    """Return the analysis of a query in *session*, which the caller must have made active.

    Raises DefinitionInvalid or Unsupported for a query that a refresh cannot run, and Spark's errors.
    """
    names, parsed = Names(session), parse(session, text)
    for relation in parsed.relations:
        if len(relation.parts) == 2 and relation.parts[0].lower() == _GLOBAL_TEMPORARY:
            raise DefinitionInvalid(f"{display_name(relation.parts)} is a temporary view. {OWN_SESSION}")
    analysed = session.sql(text)._jdf.queryExecution().analyzed()
    if analysed.isStreaming():
        raise Unsupported("The query reads a stream; a refresh in FULL mode reads tables: leave out STREAM.")
    columns = columns_of(analysed.schema())
    names_before: set[str] = set()
    for column in columns:
        if column.name.lower() in names_before:
            raise DefinitionInvalid(
                f"The query has two columns named {column.name}; give one of them another name with AS."
            )
        names_before.add(column.name.lower())
    sources = frozenset(base.parts for base in base_relations(session, analysed) if base.parts is not None)
    starless = _without_stars(session, text, columns)
    return AnalysedQuery(
        columns=columns,
        expanded_query=_qualified(parsed if starless == text else parse(session, starless), names, sources),
        sources=tuple(sorted(map(display_name, sources))),
        relations=frozenset(
            relation.parts[0].lower()
            for relation in parsed.relations
            if len(relation.parts) == 1 and not relation.cte
        ),
        functions=frozenset(parts[0].lower() for parts in parsed.functions if len(parts) == 1),
    )


def _without_stars(session: SparkSession, text: str, columns: tuple[Column, ...]) -> str:
    """Return *text* with its stars expanded, so that later changes of source columns do not affect it."""
    starless = StarWriter(session, text).expanded_text()
    if starless == text:
        return text
    refusal = DefinitionInvalid(
        "The stars of the query cannot be expanded to columns, and would mean other columns after a source "
        "changes its columns; name the columns in place of each *."
    )
    try:
        starless_columns = columns_of(session.sql(starless)._jdf.queryExecution().analyzed().schema())
    except SPARK_ERRORS as cause:
        raise refusal from cause
    if starless_columns != columns:
        raise refusal
    return starless


def _qualified(parsed: ParsedQuery, names: Names, sources: frozenset[tuple[str, ...]]) -> str:
    """Return the text of the query with the names of all tables and views fully qualified."""
    catalog, namespace = names.current()
    pieces, position = [], 0
    for relation in parsed.relations:
        parts = names.qualify(relation.parts, catalog, namespace)
        # A name that is neither a table nor a view, such as a path to files, means the same everywhere.
        if not relation.cte and (parts in sources or names.view(parts) is not None):
            pieces += [parsed.text[position : relation.start], sql_name(parts)]
            position = relation.stop
    return "".join([*pieces, parsed.text[position:]])
