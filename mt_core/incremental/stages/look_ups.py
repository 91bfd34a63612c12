"""Look-ups: which rows of the other readings of a join block a change needs, and the keys that find them.

This is the semi-join reduction of Yannakakis, started from the changed rows. A term joins the changed rows of
one reading with all rows of the others. Almost none of these match, so each reading is first restricted to
the rows whose keys occur in rows that were found before. The term is then computed over what remains, by the
same plan. *Any superset of the rows that match gives the same result*, which permits to compare the columns
of a key one by one, to leave out an equality, and to read a whole reading where a look-up is refused.

Look-ups follow the edges of a tree of equalities, in one or both directions. All terms share the result of
an edge: its keys are those of all changed rows on its side, added and removed ones. So k changed readings
among n need at most 2 (n - 1) look-ups, where a chain for each term would need k (n - 1).

- *Versions.* The rows that are looked up are those of the new version. A term that needs the old one
  subtracts the change: since the removed rows give keys as well, the remaining rows have their old number.
- *Whole readings.* A small reading that has not changed is taken whole, from memory. It is not only a node of
  the tree: it *reduces* every reading that shares a key with it, before keys are taken from these.
- *The tree* consists of the edges along which rows multiply least. How many rows of a reading have one key is
  estimated from the number of its values; a wrong estimate costs time. Edges into whole readings come
  last, so that none of them becomes the bridge between two large readings: customers and suppliers of the
  same nation are far more than those of the same order.
- *Parts without a common key* (a cross join, or conditions that are no equalities) have no edge. The readings
  beyond are read whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from math import prod

from mt_core.incremental.local_limits import MOST_BYTES, MOST_FILES, MOST_ROWS
from mt_core.incremental.stages.join_blocks import JoinBlock, KeyClass, KeyColumn

# An edge whose fan-out is a guess is preferred only to edges that are known to be this many times as bad.
_DOUBT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """The number of rows, bytes, files and columns of a source, from its metadata.

    `values` has upper limits for the number of different values of columns for which the metadata gives one.
    `rows_below` is the number of rows of the largest source from which a computed reading is computed.
    """

    rows: int
    size: int
    files: int
    columns: int
    values: Mapping[str, int] = field(default_factory=dict)
    rows_below: int = 0

    @property
    def is_small(self) -> bool:
        """Whether the source is read faster as a whole, and kept, than by keys."""
        rows = max(self.rows, self.rows_below)
        return rows <= MOST_ROWS and self.size <= MOST_BYTES and self.files <= MOST_FILES

    def values_of(self, column: KeyColumn) -> int:
        """Return an estimate of how many values a column has: without facts, as many as rows."""
        known = self.values.get(column.column, 2 if column.type == "boolean" else self.rows)
        return max(1, min(self.rows, known))


NO_FACTS = SourceFacts(rows=0, size=0, files=0, columns=1)
"""Those of a source without rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A column of each of two readings that have the same value; NULL matches NULL if it is `null_safe`."""

    of: str
    to: str
    null_safe: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUp:
    """The rows of the reading `to` whose keys occur in rows of the reading `of`.

    The keys are the values of the columns `matches`, each by itself, in the changed rows of `of` and in the
    rows that the look-ups before found of it from other readings than `to`. Of these rows, those without a
    match in the results of the look-ups from `of` to the readings `reduced_by` are left out. `expected` is
    an estimate of how many rows are found.
    """

    of: int
    to: int
    matches: tuple[Match, ...]
    expected: int
    reduced_by: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """Only rows of the reading `of` that match rows of the whole reading `by` can join.

    In its matches, the column `of` is that of the reading `of`.
    """

    by: int
    of: int
    matches: tuple[Match, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUpPlan:
    """How the rows that the terms of a block need are found.

    The readings `whole` are taken whole. The `reductions` apply in their order, first among the whole
    readings, then to changed rows and to rows that are looked up. The `look_ups` follow in their order.
    """

    whole: frozenset[int]
    reductions: tuple[Reduction, ...]
    look_ups: tuple[LookUp, ...]

    def sources(self, look_up: LookUp) -> frozenset[tuple[int, int]]:
        """Return the look-ups whose rows give keys to another one, by the readings `of` and `to`."""
        return frozenset(
            (each.of, each.to) for each in self.look_ups if each.to == look_up.of and each.of != look_up.to
        )

    def expected(self, step: tuple[int, int]) -> int:
        """Return how many rows a look-up is expected to find, by the readings `of` and `to`."""
        return next(each.expected for each in self.look_ups if (each.of, each.to) == step)

    def before(self, term: int) -> Mapping[int, int]:
        """Return the last step of the path from the changed reading *term* to each other reading.

        The rows of a reading in this term are those of the look-up from the reading that the map gives for
        it. A reading without one is not connected to the changed rows.
        """
        steps: dict[int, int] = {}
        reached = [term]
        for reading in reached:
            for each in self.look_ups:
                if each.of == reading and each.to != term and each.to not in steps:
                    steps[each.to] = reading
                    reached.append(each.to)
        return steps


def look_up_plan(
    block: JoinBlock,
    *,
    changed: frozenset[int],
    facts: Mapping[int, SourceFacts],
    rows: Mapping[int, int],
    filtered: frozenset[int],
) -> LookUpPlan:
    """Return how the rows are found that the terms of a block need.

    *changed* are the readings that have changed, with the numbers of their changed *rows*. *facts* are those
    of the readings of the block, and *filtered* the readings of which a condition of the query rejects rows.
    """
    changed &= block.readings
    joins = _Joins(block=block, facts=facts)
    whole = frozenset(number for number in block.readings - changed if facts[number].is_small)
    order = _Order(
        joins=joins, tree=_tree(joins, whole), changed=changed, rows=rows, whole=whole, filtered=filtered
    )
    return LookUpPlan(
        whole=whole, reductions=tuple(_reductions(joins, whole)), look_ups=tuple(order.look_ups())
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joins:
    """The equalities between two readings of a block, and how they multiply rows."""

    block: JoinBlock
    facts: Mapping[int, SourceFacts]

    def matches(self, of: int, to: int) -> tuple[Match, ...]:
        """Return the pairs of columns that are equal. They are none if the readings share no key."""
        return tuple(
            Match(of=left.column, to=right.column, null_safe=each.null_safe)
            for each, left, right in self._keys(of, to)
        )

    def fan_out(self, of: int, to: int) -> float:
        """Return an estimate of how many rows of a reading match one row of another."""
        rows = self.facts[to].rows
        values = prod(self._values(each, column) for each, _, column in self._keys(of, to))
        return rows / max(1, min(rows, values))

    def guesses(self, of: int, to: int) -> bool:
        """Return whether the fan-out of an edge depends on numbers of values that are not known."""
        return any(
            column.column not in self.facts[column.reading].values
            for _, *columns in self._keys(of, to)
            for column in columns
        )

    def _values(self, key: KeyClass, column: KeyColumn) -> int:
        """Return an estimate of how many values of a column occur in its whole class."""
        facts = self.facts[column.reading]
        if column.column in facts.values:
            return facts.values_of(column)
        # A foreign key has no more values than there are rows of the reading that it refers to.
        others = (self.facts[each.reading].rows for each in key.columns)
        return max(1, min(facts.values_of(column), *others))

    def _keys(self, of: int, to: int) -> Iterator[tuple[KeyClass, KeyColumn, KeyColumn]]:
        for each in self.block.keys:
            left, right = each.of(of), each.of(to)
            if left is not None and right is not None:
                yield each, left, right


def _reductions(joins: _Joins, whole: frozenset[int]) -> Iterator[Reduction]:
    """Yield what each whole reading reduces: the smaller of two whole ones reduces the larger one."""
    rows = {number: joins.facts[number].rows for number in whole}
    for by in sorted(whole, key=lambda number: (rows[number], number)):
        for of in sorted(joins.block.readings - {by}):
            matches = joins.matches(of, by)
            if matches and rows.get(of, rows[by]) >= rows[by]:
                yield Reduction(by=by, of=of, matches=matches)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tree:
    """A tree of readings, or several if no key connects all of them: the neighbours of each."""

    neighbours: Mapping[int, frozenset[int]]

    def side(self, of: int, to: int) -> frozenset[int]:
        """Return the readings that are connected with *of* without the edge between *of* and *to*."""
        reached = [of]
        for number in reached:
            reached += self.neighbours[number] - {*reached, *((to,) if number == of else ())}
        return frozenset(reached)


def _tree(joins: _Joins, whole: frozenset[int]) -> _Tree:
    """Return the spanning tree of the edges with the least fan-out, by Kruskal's algorithm."""
    edges = list[tuple[bool, float, float, int, int]]()
    for one, other in combinations(sorted(joins.block.readings), 2):
        if not joins.matches(one, other):
            continue
        into = {other: joins.fan_out(one, other), one: joins.fan_out(other, one)}
        into_whole = [fan_out for number, fan_out in into.items() if number in whole]
        worst = min(into_whole) if into_whole else max(into.values())
        worst *= _DOUBT if joins.guesses(one, other) else 1
        edges.append((bool(into_whole), worst, sum(into.values()), one, other))
    component = {number: number for number in joins.block.readings}
    neighbours: dict[int, set[int]] = {number: set() for number in joins.block.readings}
    for *_, one, other in sorted(edges):
        if (merged := component[other]) == component[one]:
            continue
        neighbours[one].add(other)
        neighbours[other].add(one)
        component = {number: component[one] if each == merged else each for number, each in component.items()}
    return _Tree(neighbours={number: frozenset(each) for number, each in neighbours.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """Puts the look-ups along a tree in order: what costs nothing or finds little first."""

    joins: _Joins
    tree: _Tree
    changed: frozenset[int]
    rows: Mapping[int, int]
    whole: frozenset[int]
    filtered: frozenset[int]

    def look_ups(self) -> Iterator[LookUp]:
        """Yield the look-ups of all edges that lead away from the changed reading of a term."""
        terms, neighbours = self.changed, self.tree.neighbours
        found: dict[tuple[int, int], float] = {}
        edges = {(of, to) for of in neighbours for to in neighbours[of] if terms & self.tree.side(of, to)}
        while waiting := edges - found.keys():
            ready = [edge for edge in waiting if not self._sources(*edge) & waiting]
            expected = {edge: self._expected(*edge, found) for edge in ready}
            of, to = min(
                ready,
                key=lambda edge: (
                    edge[1] not in self.whole,
                    edge[1] not in self.filtered,
                    expected[edge],
                    *reversed(edge),
                ),
            )
            # Whole readings have reduced these rows before.
            reduced_by = sorted(
                each
                for each in neighbours[of] - {to} - self.whole
                if (of, each) in found and not self.tree.side(each, of) & self.changed
            )
            found[of, to] = min(expected[of, to], self.joins.facts[to].rows)
            yield LookUp(
                of=of,
                to=to,
                matches=self.joins.matches(of, to),
                expected=round(found[of, to]),
                reduced_by=tuple(reduced_by),
            )

    def _sources(self, of: int, to: int) -> set[tuple[int, int]]:
        """Return the edges whose rows give the keys of an edge."""
        return {(each, of) for each in self.tree.neighbours[of] - {to}}

    def _expected(self, of: int, to: int, found: Mapping[tuple[int, int], float]) -> float:
        """Return how many rows an edge is expected to find, which may be more than its reading has."""
        keys = sum(found.get(edge, 0) for edge in self._sources(of, to))
        keys += self.rows.get(of, 0) if of in self.changed else 0
        return keys * self.joins.fan_out(of, to)
