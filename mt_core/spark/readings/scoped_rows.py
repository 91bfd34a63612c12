"""Scoped rows: rows of a source, restricted to what a query reads of them in one place.

The scope of a reading (`mt_core.incremental.reading_scopes`) has columns and conditions. Changed rows and
rows of a version are restricted in the same way, by an inline plan that starts no job.

A condition is not applied if that needs a job or fails, for example because it raises an error for a row
that the query itself would not evaluate. The rows are then more than necessary, which is exact in a sum of
terms. A version of rows that is computed as another one less the change needs the same rows of both, so its
conditions are `required`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mt_core.base.identifiers import quote
from mt_core.errors import MtError
from mt_core.incremental.reading_scopes import ReadingScope
from mt_core.incremental.strategy import NotApplied
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.iceberg.computed_rows import ComputedRows
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.queries.staged_query import StagedQuery
from mt_core.spark.readings.row_images import COPIES, net_rows

log = logging.getLogger(__name__)


def scope_of(scopes: Mapping[int, ReadingScope], number: int, stored: StructType) -> ReadingScope:
    """Return the scope of a reading of a table with the columns *stored*: all of these if it is not known."""
    everything = frozenset(stored.names)
    scope = scopes.get(number, ReadingScope(columns=everything))
    return scope if scope.columns <= everything else ReadingScope(columns=everything)


class ScopeNotApplied(NotApplied):
    """A required condition raises an error for a row that the query itself might not evaluate."""

    what = "scope"


def in_scope(
    session: SparkSession,
    lineage: Lineage,
    number: int,
    scope: ReadingScope,
    rows: ComputedRows,
    *,
    required: bool = False,
) -> ComputedRows:
    """Return the rows of a reading within its *scope*: only its columns, and the rows that it accepts.

    If *rows* have column COPIES, they are a net change, and the result is one too. Other rows retain their
    first column if the scope has none. Distributed rows are returned as they are. Raises ScopeNotApplied if
    the conditions are *required*, and one cannot be evaluated.
    """
    if not rows.few:
        return rows
    names = _names(scope, rows)
    if not rows.count():
        return rows.select(names)
    if scope.filters:
        try:
            filtered = _within(session, lineage, number, scope, rows, by_job=required)
        except (MtError, *SPARK_ERRORS) as error:
            if required:
                raise ScopeNotApplied(f"a condition of the query is not applied: {error}") from error
            log.info("a filter is not applied: %s", error, extra={"action": "scope_not_applied"})
            filtered = None
        if filtered is not None:
            return filtered
    if names == rows.columns:
        return rows
    if COPIES not in names:
        return rows.select(names)
    return _within(session, lineage, number, ReadingScope(columns=scope.columns), rows) or rows


def _names(scope: ReadingScope, rows: ComputedRows) -> list[str]:
    """Return the columns of *rows* within a scope, and COPIES."""
    names = [name for name in rows.columns if name in scope.columns or name == COPIES]
    return names or rows.columns[:1]


def _within(
    session: SparkSession,
    lineage: Lineage,
    number: int,
    scope: ReadingScope,
    rows: ComputedRows,
    *,
    by_job: bool = False,
) -> ComputedRows | None:
    names = _names(scope, rows)

    def within(at: Mapping[str, str]) -> DataFrame:
        frame = session.table(at["rows"])
        if scope.filters:
            frame = StagedQuery.of_lineage(session, lineage).filtered(number, scope.filters, frame)
        frame = frame.select(*map(quote, names))
        return net_rows(frame) if COPIES in names else frame

    purpose = repr(("reading", number, names, scope.filters))
    computed = PLANS.computed if by_job else PLANS.run
    return computed(session, lineage, purpose, within, {"rows": rows})
