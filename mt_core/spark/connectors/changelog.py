"""Changelogs: streams whose rows may update or delete earlier rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from mt_core.base.rowset import ROW_KIND as ROW_KIND
from mt_core.plans.operators import ADDS, Operator, RowKind

Unique = frozenset[frozenset[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changelog:
    """The analysed plan of a stream with Freshtable's operators. Its rows have the kinds in `changes`.

    `unique` are the unique keys of the result, as sets of expression ids.
    """

    plan: Any = field(repr=False)
    operator: Operator
    unique: Unique = frozenset()

    @property
    def changes(self) -> frozenset[RowKind]:
        return self.operator.changes

    @property
    def updates(self) -> bool:
        """True if the stream is not insert-only. If so, its last column is the row kind."""
        return self.changes != ADDS

    @property
    def kind(self) -> Any:
        """The row kind attribute, or None for an insert-only stream."""
        return self.plan.output().last() if self.updates else None


def is_changelog(rows: DataFrame) -> bool:
    """Return whether the rows of a stream or batch have a row kind column."""
    return rows.columns[-1:] == [ROW_KIND]
