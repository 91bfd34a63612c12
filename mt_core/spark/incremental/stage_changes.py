"""Stage changes: the partial sums of a stage over the rows of its block.

The change of a state (`block_changes`) consists of partial sums over rows that came and over rows that went.
They are added up by group, and those over rows that went are subtracted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mt_core.base.identifiers import quote
from mt_core.incremental.stages.blocks import Place
from mt_core.incremental.stages.stage_plan import Stage
from mt_core.spark.catalogs.columns import sql_type
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.queries.staged_query import StagedQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsOutput:
    """The partial sums of a *stage*, which have *columns*."""

    session: SparkSession
    query: StagedQuery
    stage: Stage
    columns: StructType

    @property
    def purpose(self) -> str:
        return f"groups {self.stage.name}"

    def over(self, leaves: Mapping[int, DataFrame], operators: Mapping[Place, DataFrame]) -> DataFrame:
        return self.query.groups(self.stage.places[0], leaves, operators)

    def sum(self, signed: Iterable[tuple[int, DataFrame]]) -> DataFrame:
        with ExitStack() as stack:
            terms = [
                _signed(self.columns, sign, stack.enter_context(temporary_view(groups)))
                for sign, groups in signed
            ]
            return self.session.sql(_added_up(self.columns, self.stage.keys, terms))


def _signed(columns: StructType, sign: int, relation: str) -> str:
    """Return a query for the partial sums in a relation, negated if *sign* is negative."""
    items = (
        name if sign > 0 or name.startswith("`k") else f"-{name} AS {name}"
        for name in map(quote, columns.names)
    )
    return f"SELECT {', '.join(items)} FROM {relation}"


def _added_up(columns: StructType, keys: int, terms: Iterable[str]) -> str:
    """Return a query for the sums of partial sums by group, without the groups in which nothing changed.

    A group of which as many rows came as went may have other sums.
    """
    fields = [(quote(each.name), sql_type(each.dataType)) for each in columns.fields]
    by = [name for name, _ in fields[:keys]]
    sums = [f"CAST(sum({name}) AS {type_}) AS {name}" for name, type_ in fields[keys:]]
    unchanged = " AND ".join(f"coalesce(sum({name}), 0) = 0" for name, _ in fields[keys:])
    text = f"SELECT {', '.join([*by, *sums])} FROM ({' UNION ALL '.join(terms)})"
    return f"{text}{' GROUP BY ' + ', '.join(by) if by else ''} HAVING NOT ({unchanged})"
