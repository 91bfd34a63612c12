"""Changelogs: streams whose rows may take back what earlier rows have said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from mt_core.base.rowset import ROW_KIND as ROW_KIND
from mt_core.plans.operators import ADDS, Operator, RowKind

Unique = frozenset[frozenset[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changelog:
    """An analysed *plan* of a stream, with our operators in it, whose rows make the `changes`.

    `unique` are the sets of columns, by the numbers of their expression ids,
    of which each identifies a row of the result.
    """

    plan: Any = field(repr=False)
    operator: Operator
    unique: Unique = frozenset()

    @property
    def changes(self) -> frozenset[RowKind]:
        return self.operator.changes

    @property
    def updates(self) -> bool:
        """Whether rows are not only added; the last column is their kind then."""
        return self.changes != ADDS

    @property
    def kind(self) -> Any:
        """The attribute with the kind of each row; None if rows are only added."""
        return self.plan.output().last() if self.updates else None


def is_changelog(rows: DataFrame) -> bool:
    """Return whether the rows of a stream, or of one of its batches, have a kind each."""
    return rows.columns[-1:] == [ROW_KIND]
