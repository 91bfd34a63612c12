"""Queries in stages: the sums of their aggregates, and the rest of the query over them.

The plans stay in the JVM (`freshtable.queries.StagedQuery`), which cuts them: an aggregate at a place of a
query gives partial sums over rows that stand for the relations below it, and the query itself is computed
from such sums.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mt_core.incremental.delta import numbered
from mt_core.incremental.reading_scopes import Conjunct
from mt_core.incremental.stages.blocks import Place
from mt_core.spark.driver.jvm_objects import active_session, own_class
from mt_core.spark.iceberg.jvm_rows import columns_of
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.queries.query_shapes import normal_form, pieces_of

Tree = list[dict[str, Any]]
_CLASS = "freshtable.queries.StagedQuery"
# The query of each lineage, with the identity of its session: the JVM of an earlier one may be gone.
_kept: WeakKeyDictionary[Lineage, tuple[str, StagedQuery]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedQuery:
    """A query whose aggregates are at places: a tree, and the path to an operator in it, as JSON.

    Partial sums have a row for each group: the grouping values `k0`, `k1` and so on, the number of `rows`,
    and for each aggregate function its sum and its number of values that are not NULL, such as `s0` and `n0`.
    """

    session: SparkSession
    _java: Any = field(repr=False)

    @classmethod
    def of(cls, session: SparkSession, text: str) -> StagedQuery:
        """Return the query with the *text*, which must have numbered readings."""
        with active_session(session):
            java = own_class(session, _CLASS).of(session._jsparkSession, normal_form(session.sql(text)))
        return cls(session=session, _java=java)

    @classmethod
    def of_lineage(cls, session: SparkSession, lineage: Lineage) -> StagedQuery:
        """Return the query of a lineage, from a cache."""
        identity = str(session._jsparkSession.sessionUUID())
        kept, query = _kept.get(lineage, ("", None))
        if query is None or kept != identity:
            query = cls.of(session, numbered(pieces_of(lineage)))
            _kept[lineage] = identity, query
        return query

    def trees(self) -> list[Tree]:
        """Return the plan of the query and those of the scalar subqueries in it, as JSON with more facts."""
        trees: list[Tree] = json.loads(self._java.json())
        return trees

    def filtered(self, number: int, conditions: Sequence[Conjunct], rows: DataFrame) -> DataFrame:
        """Return the *rows* of a reading that satisfy *conditions* of the query."""
        places = json.dumps([[[each.tree, each.path], each.number] for each in conditions])
        return self._frame(self._java.filtered(number, places, rows._jdf))

    def schema(self, place: Place) -> StructType:
        """Return the columns of the partial sums of an aggregate."""
        return columns_of(self._java.schema(place))

    def columns(self, place: Place) -> StructType:
        """Return the columns of the rows of an operator, which are `c0`, `c1` and so on.

        An operator without columns has `c`, because rows of no columns cannot be passed on.
        """
        return columns_of(self._java.columns(place))

    def rows(
        self, place: Place, leaves: Mapping[int, DataFrame], operators: Mapping[Place, DataFrame]
    ) -> DataFrame:
        """Return the rows of an operator over given rows of readings and operators below it.

        *leaves* are the rows by the numbers of the readings. They need only the columns that the query reads.
        *operators* are the rows of operators by place, with `columns` of these. Those of the columns that
        nothing above reads may be left out, here and in the result. Readings below an operator whose rows
        are given are not needed. The row of the root of another tree is the value of the scalar subquery.
        """
        return self._frame(self._java.rows(place, _java_rows(leaves), _java_rows(operators)))

    def groups(
        self,
        place: Place,
        leaves: Mapping[int, DataFrame],
        operators: Mapping[Place, DataFrame] | None = None,
    ) -> DataFrame:
        """Return the partial sums of an aggregate over given rows, as `rows` gets them."""
        return self._frame(self._java.groups(place, _java_rows(leaves), _java_rows(operators or {})))

    def folded(self, place: Place, partials: DataFrame) -> DataFrame:
        """Return partial sums of an aggregate, added up to one row for each group of which a row remains.

        This is a state, never a change: that may have other sums with as many rows.
        """
        return self._frame(self._java.folded(place, partials._jdf))

    def rest(
        self,
        states: Mapping[Place, DataFrame],
        leaves: Mapping[int, DataFrame],
        operators: Mapping[Place, DataFrame] | None = None,
        *,
        tree: int = 0,
    ) -> DataFrame:
        """Return what a tree returns: the query, or one of the scalar subqueries in it, in a column `c0`.

        *states* are the partial sums of aggregates, *leaves* the rows of the readings that are read elsewhere
        than below these, and *operators* rows as `rows` gets them.
        """
        given = _java_rows(operators or {})
        return self._frame(self._java.rest(tree, _java_rows(states), _java_rows(leaves), given))

    def _frame(self, java: Any) -> DataFrame:
        return DataFrame(java, self.session)


def _java_rows(frames: Mapping[Any, DataFrame]) -> dict[Any, Any]:
    return {key: frame._jdf for key, frame in frames.items()}
