"""Selects the ranking operator that suits the input, and derives the row kinds of its output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import Unsupported
from mt_core.plans.operators import ADDS, ALL, OperatorState, RowKind
from mt_core.spark.connectors.changelog import Changelog
from mt_core.spark.driver.jvm_objects import class_name, scala_items, scala_sequence, static_member
from mt_core.spark.streams.operators.java_operators import java_operator
from mt_core.spark.streams.operators.java_states import java_state
from mt_core.spark.streams.operators.stateless import expression_id

REPLACES = ADDS | {RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER}
"""The row kinds of an operator that adds and replaces rows but does not delete any."""
_CATALYST = "org.apache.spark.sql.catalyst"
_NEED = "A query that ranks the rows of a stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The rows numbered `first` to `last` for each value of `keys`, or among all rows without keys.

    `keys` are expressions over the rows. The rows are numbered by `order`, which are attributes with a
    direction. Ties are broken by arrival: the earliest row comes first or, with `latest`, the latest one.
    """

    keys: Sequence[Any] = field(repr=False)
    order: Sequence[Any] = field(default=(), repr=False)
    latest: bool = False
    first: int = 1
    last: int = 1
    state: OperatorState

    def changes_of(self, rows: Changelog) -> frozenset[RowKind]:
        """Return the row kinds of the ranked *rows*."""
        return ALL if rows.updates else REPLACES

    def plan_of(self, session: SparkSession, rows: Changelog, number: Any = None) -> Any:
        """Return the plan of the ranked *rows*, with their numbers in the attribute *number* if given."""
        orders = as_java_list(session, self.order)
        ranking = java_operator(session, "Ranking")(orders, self.latest, self.first, self.last)
        keys, state = java_keys(session, self.keys), java_state(session, self.state, rows.plan, _NEED)
        if rows.updates:
            return java_operator(session, "ChangedRanks").of(rows.plan, keys, ranking, number, state)
        if self.last == 1:
            return java_operator(session, "SingleRows").of(rows.plan, keys, ranking, state)
        return java_operator(session, "AddedRanks").of(rows.plan, keys, ranking, number, state)


def java_keys(session: SparkSession, keys: Sequence[Any]) -> Any:
    """Return *keys* as a Java list. If there are none, it contains a constant that is equal for all rows."""
    one = literal(session, 0)
    return as_java_list(session, keys or [one])


def literal(session: SparkSession, value: int) -> Any:
    integer = static_member(session, "org.apache.spark.sql.types.DataTypes.IntegerType")
    return static_member(session, f"{_CATALYST}.expressions.Literal.create")(value, integer)


def as_java_list(session: SparkSession, items: Sequence[Any]) -> Any:
    return static_member(session, "scala.jdk.javaapi.CollectionConverters.asJava")(
        scala_sequence(session, items)
    )


def with_column(session: SparkSession, plan: Any, column: Any, *, updates: bool) -> Any:
    """Return *plan* with another column at the end, but before the row kind if its rows have one."""
    columns = list(scala_items(plan.output()))
    columns.insert(len(columns) - (1 if updates else 0), column)
    return static_member(session, f"{_CATALYST}.plans.logical.Project")(
        scala_sequence(session, columns), plan
    )


def column_set(expressions: Iterable[Any]) -> frozenset[frozenset[int]]:
    """Return the set of columns that identifies a row; empty if one of *expressions* is not a column."""
    columns = list(expressions)
    if any(class_name(each) != "AttributeReference" for each in columns):
        return frozenset()
    return frozenset({frozenset(map(expression_id, columns))})


def check_keys(session: SparkSession, keys: Sequence[Any], what: str) -> None:
    """Raise Unsupported if values of the keys can be equal but not identical.

    *what* describes the keys in the error message.
    """
    is_stable = static_member(session, f"{_CATALYST}.util.UnsafeRowUtils.isBinaryStable")
    if not all(is_stable(key.dataType()) for key in keys):
        raise Unsupported(
            f"{what}: a stream cannot have keys that are equal under a collation; "
            "normalize each column with a COLLATION, for example lower(c) COLLATE UTF8_BINARY."
        )
