"""Bags: what the rule of changes (`block_rows`, `computed_reading`) needs of rows.

The rule decides which rows are looked up, in which order and by which keys, and which operator is computed
over them. How rows are represented, where they are computed, and how rows of tables are found is decided
here, so tests check the rule over rows in Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

from mt_core.incremental.stages.blocks import Place
from mt_core.incremental.stages.look_ups import Match, SourceFacts
from mt_core.spark.incremental.semi_join_reducer import R, Relations


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[R]):
    """The rows that were added and those that were removed; no row is among both."""

    added: R
    removed: R

    def signed(self) -> list[tuple[int, R]]:
        """Return those of both that have rows, with the sign of their copies."""
        return [(sign, rows) for sign, rows in ((1, self.added), (-1, self.removed)) if rows.count()]

    def count(self) -> int:
        return self.added.count() + self.removed.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted(Generic[R]):
    """A condition on rows: their columns `Match.to` have the values of `Match.of` in one of the *keys*.

    The columns are compared together.
    """

    keys: R
    matches: tuple[Match, ...]


class Bags(Protocol[R]):
    """Bags of rows: the operators of a query over them, and sums, differences and semi joins of them.

    The columns of an operator's output are `c0`, `c1` and so on, by position.
    """

    def rows(self, place: Place, leaves: Mapping[int, R], operators: Mapping[Place, R]) -> R:
        """Return the output of the operator at a place.

        It is computed over rows of the readings *leaves* and of the *operators* below it.
        """
        ...

    def together(self, place: Place, parts: Sequence[R]) -> R:
        """Return all rows of *parts*, which have the columns of the operator at a place."""
        ...

    def net(self, place: Place, signed: Sequence[tuple[int, R]]) -> Change[R]:
        """Return the sum of rows of the operator at a place, each with the sign of its copies."""
        ...

    def before(self, rows: R, change: Change[R], *, complete: bool) -> R:
        """Return *rows* of the new version as they were before a *change*.

        Added rows that are not among *rows* are ignored. If the rows are *complete*, there are none, or
        CountsDiffer is raised.
        """
        ...

    def among(self, rows: R, wanted: Wanted[R]) -> R:
        """Return exactly the *rows* that are wanted."""
        ...

    def keys(self, parts: Sequence[tuple[R, Sequence[str]]], null_safe: Sequence[bool]) -> R:
        """Return the different values of the columns of all parts, as columns `k0`, `k1` and so on.

        Tuples with a NULL where this is not a value, according to *null_safe*, are left out.
        """
        ...

    def have_null(self, rows: R, columns: Sequence[str]) -> bool:
        """Return whether one of the *columns* has a NULL."""
        ...


class Tables(Relations[R], Protocol[R]):
    """The readings of tables of a query. The rows of one have the same columns wherever they come from."""

    @property
    def changed_readings(self) -> frozenset[int]:
        """The readings that have changed."""
        ...

    @property
    def filtered(self) -> frozenset[int]:
        """The readings of which a condition of the query rejects rows."""
        ...

    def facts(self, number: int) -> SourceFacts: ...

    def change(self, number: int) -> tuple[R, R] | None:
        """Return the rows that were added to a changed reading and those removed, or None if too many."""
        ...


class Computed(Protocol[R]):
    """A computed reading of a run."""

    @property
    def place(self) -> Place: ...

    @property
    def facts(self) -> SourceFacts: ...

    @property
    def key_columns(self) -> Mapping[str, str]:
        """Those of its columns that are keys, with the columns of its `touched` keys."""
        ...

    def touched(self) -> R | None:
        """Return the keys at which it may have changed. Nothing is looked up for them.

        None if its change costs nothing more.
        """
        ...

    def change(self, within: R | None) -> Change[R]:
        """Return its net change, or all of it at some keys *within* those touched, and nothing elsewhere."""
        ...

    def matching(self, wanted: Sequence[Wanted[R]]) -> R:
        """Return exactly the rows of the new version that meet all conditions *wanted*."""
        ...
