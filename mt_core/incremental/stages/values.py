"""Values: the scalar subqueries below states.

The rows below an aggregate may depend on the value of a scalar subquery, as in `WHERE a > (SELECT avg(a) FROM
t)`. While the value stays the same, it is a constant, and the state changes by the changed rows. A change of
the value may concern any row, so the state is computed anew from its sources.

The value is kept beside the states. It is computed again only if something changed that the subquery reads,
and compared with the kept one. So it is always the value with which the state was computed, even if the
subquery could return several ones, such as the first of tied rows or a sum of doubles.

The tree of a subquery may contain states of its own, of which the value is computed as the rows of the query
are, and subqueries of which the values are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from mt_core.incremental.plan import Node, reading_of
from mt_core.incremental.stages.blocks import Place, place_of
from mt_core.incremental.stages.query_blocks import never_changes, subqueries_in
from mt_core.incremental.stages.reproducible import obstacle_of_values
from mt_core.incremental.stages.stage_name import functions_in, value_name
from mt_core.incremental.stages.stage_plan import Value


@dataclass(slots=True)
class _Read:
    """What is read to compute the rows of a tree over states: readings, states and kept values.

    `is_reproducible` says whether the operators over these return the same rows again.
    """

    readings: set[int] = field(default_factory=set)
    states: set[Place] = field(default_factory=set)
    values: set[int] = field(default_factory=set)
    is_reproducible: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Subqueries:
    """The scalar subqueries in the *trees* of a query, by number."""

    trees: Sequence[Node]

    def below(self, aggregate: Node) -> tuple[int, ...]:
        """Return the subqueries on which the rows and the expressions of a state depend, in order."""
        # A state has the keys and the functions. The rest evaluates the columns from these.
        kept = [*aggregate.expressions("groupingExpressions"), *functions_in(aggregate)]
        nodes = (node for each in (*kept, *aggregate.children) for node in each.nodes())
        return self._in([node.fields for node in nodes])

    def in_tree(self, number: int) -> tuple[int, ...]:
        """Return the subqueries in the expressions of a tree of which the values may change, in order."""
        return self._in([node.fields for node in self.trees[number].nodes()])

    def _in(self, fields: Any) -> tuple[int, ...]:
        """Return the subqueries in JSON of which the values may change, in order."""
        found = dict.fromkeys(subqueries_in(fields))
        return tuple(number for number in found if not never_changes(self.trees, number))

    def names(self, sources: Sequence[str], version: str) -> dict[int, str]:
        """Return different names for the values of the subqueries.

        *sources* are the names of the readings by number, *version* is Spark's.
        """
        names = dict[int, str]()

        def name(number: int) -> str:
            if number not in names:
                tree = self.trees[number]
                values = [name(each) for each in self.in_tree(number)]
                candidates = (
                    value_name(tree, sources, version=version, values=values, distinguished=each)
                    for each in range(len(self.trees))
                )
                names[number] = next(each for each in candidates if each not in names.values())
            return names[number]

        for number in range(1, len(self.trees)):
            name(number)
        return names

    def value(self, tree: int, name: str, states: Mapping[Place, str], kept: frozenset[int]) -> Value:
        """Return what the value of a subquery is computed from, as `read` gets it."""
        found, whole = self._read(tree, states.keys(), kept), self._read(tree, frozenset(), kept)
        return Value(
            tree=tree,
            name=name,
            stages=frozenset(states[place] for place in found.states),
            rest=frozenset(found.readings),
            values=frozenset(found.values),
            readings=frozenset(whole.readings),
            is_reproducible=whole.is_reproducible,
        )

    def read(
        self, states: Mapping[Place, str], kept: frozenset[int]
    ) -> tuple[frozenset[int], frozenset[str]]:
        """Return the readings and the stages that the query reads, but for those below *kept* values.

        *states* are the names of stages by their places.
        """
        found = self._read(0, states.keys(), kept)
        return frozenset(found.readings), frozenset(states[place] for place in found.states)

    def _read(self, tree: int, states: Set[Place], kept: frozenset[int]) -> _Read:
        found = _Read()
        self._visit(self.trees[tree], tree, (), states, kept, found)
        return found

    def _visit(
        self,
        node: Node,
        tree: int,
        path: tuple[int, ...],
        states: Set[Place],
        kept: frozenset[int],
        found: _Read,
    ) -> None:
        if (number := reading_of(node)) is not None:
            found.readings.add(number)
            return
        if (place := place_of(tree, path)) in states:
            found.states.add(place)
            inner = self._in([{"subquery": each} for each in _outside(node)])
        else:
            inner = self._in(node.fields)
            found.is_reproducible &= obstacle_of_values(node) is None
            for position, child in enumerate(node.children):
                self._visit(child, tree, (*path, position), states, kept, found)
        for each in inner:
            if each in kept:
                found.values.add(each)
            else:
                self._visit(self.trees[each], each, (), states, kept, found)


def _outside(aggregate: Node) -> Iterator[int]:
    """Yield the subqueries in the columns of an aggregate, but for those in its keys and functions."""
    keys = frozenset(each.canonical() for each in aggregate.expressions("groupingExpressions"))
    waiting = [*aggregate.expressions("aggregateExpressions")]
    while waiting:
        expression = waiting.pop()
        if expression.kind == "AggregateExpression" or expression.canonical() in keys:
            continue
        if "subquery" in expression.fields:
            yield expression.fields["subquery"]
        waiting += expression.children
