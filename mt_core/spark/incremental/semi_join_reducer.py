"""The semi-join reducer: the rows that the terms of a block join, by the look-ups of its plan.

The rule, and why the rows are enough, are in `mt_core.incremental.stages.look_ups`. All rows are local. A
look-up that finds too many is refused, and so are those that take their keys from it. The terms that need a
refused one read the whole relation instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

from mt_core.incremental.stages.look_ups import LookUp, LookUpPlan, Match


class Counted(Protocol):
    """Rows that can be counted."""

    def count(self) -> int: ...


R = TypeVar("R", bound=Counted)


class Relations(Protocol[R]):
    """The rows of the readings of a query, by their numbers."""

    def whole(self, number: int) -> R | None:
        """Return all rows of a reading at the new version, or None if these are too many."""
        ...

    def matching(self, number: int, keys: R, matches: Sequence[Match]) -> R | None:
        """Return at least the rows of a reading at the new version that match *keys*.

        None if these are too many.
        """
        ...

    def before(self, number: int, rows: R) -> R:
        """Return *rows* of the new version as they were in the old one."""
        ...

    def semi_join(self, rows: R, others: R, matches: Sequence[Match]) -> R:
        """Return the *rows* that match some of *others*, whose columns are `Match.to`."""
        ...

    def together(self, number: int, parts: Sequence[R]) -> R:
        """Return all rows of *parts*, which are rows of a reading."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SemiJoinReducer(Generic[R]):
    """The rows of the readings of a block, after the look-ups of a *plan*.

    `changes` are the added and the removed rows of each changed reading that can join rows of the whole
    readings. `found` has the rows of each look-up that was not refused.
    """

    plan: LookUpPlan
    readings: frozenset[int]
    relations: Relations[R]
    whole: dict[int, R]
    changes: dict[int, tuple[R, R]] = field(default_factory=dict)
    found: dict[tuple[int, int], R] = field(default_factory=dict)
    _before: dict[tuple[int | None, int], R] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        plan: LookUpPlan,
        readings: frozenset[int],
        changes: Mapping[int, tuple[R, R]],
        relations: Relations[R],
    ) -> Self:
        """Look up the rows that the terms of changed readings need, among the *readings* of a block.

        *changes* are the rows that were added to each of them, and those that were removed.
        """
        whole = {number: relations.whole(number) for number in plan.whole}
        reducer = cls(
            plan=plan,
            readings=readings,
            relations=relations,
            whole={number: rows for number, rows in whole.items() if rows is not None},
        )
        for each in plan.reductions:
            if each.of in reducer.whole and each.by in reducer.whole:
                reducer.whole[each.of] = relations.semi_join(
                    reducer.whole[each.of], reducer.whole[each.by], each.matches
                )
        for number, (added, removed) in changes.items():
            reducer.changes[number] = reducer._reduced(number, added), reducer._reduced(number, removed)
        for look_up in plan.look_ups:
            rows = reducer._looked_up(look_up)
            if rows is not None:
                reducer.found[look_up.of, look_up.to] = rows
        return reducer

    def leaves(self, term: int) -> dict[int, R]:
        """Return the rows of the other readings in the term of a changed one.

        The changed readings before it have their new rows, and those after it their old ones. Readings are
        missing of which too many rows match.
        """
        leaves, steps = dict[int, R](), self.plan.before(term)
        for number in self.readings - {term}:
            step = steps.get(number)
            rows = None if step is None else self.found.get((step, number))
            if rows is None:
                # No look-up leads to it, or a refused one.
                step, rows = None, self.whole.get(number)
                rows = self.relations.whole(number) if rows is None else rows
            if rows is not None and number > term and number in self.changes:
                rows = self._old(step, number, rows)
            if rows is not None:
                leaves[number] = rows
        return leaves

    def _old(self, step: int | None, number: int, rows: R) -> R:
        if (step, number) not in self._before:
            self._before[step, number] = self.relations.before(number, rows)
        return self._before[step, number]

    def _looked_up(self, look_up: LookUp) -> R | None:
        """Return the rows of a look-up, or None if it is refused or takes keys from a refused one."""
        of, to, relations = look_up.of, look_up.to, self.relations
        steps = sorted(self.plan.sources(look_up))
        if not self.found.keys() >= set(steps):
            return None
        rows = relations.together(of, [*self.changes.get(of, ()), *(self.found[step] for step in steps)])
        for beyond in look_up.reduced_by:
            if (partners := self.found.get((of, beyond))) is not None:
                rows = relations.semi_join(rows, partners, self._matches(of, beyond))
        if not rows.count():
            return relations.together(to, [])
        if to in self.whole:
            inverse = [Match(of=each.to, to=each.of, null_safe=each.null_safe) for each in look_up.matches]
            return relations.semi_join(self.whole[to], rows, inverse)
        found = relations.matching(to, rows, look_up.matches)
        return None if found is None else self._reduced(to, found)

    def _reduced(self, number: int, rows: R) -> R:
        """Return the rows of a reading that match rows of each whole reading with a common key."""
        for each in self.plan.reductions:
            if each.of == number and each.by in self.whole and rows.count():
                rows = self.relations.semi_join(rows, self.whole[each.by], each.matches)
        return rows

    def _matches(self, of: int, to: int) -> Sequence[Match]:
        return next(each.matches for each in self.plan.look_ups if (each.of, each.to) == (of, to))
