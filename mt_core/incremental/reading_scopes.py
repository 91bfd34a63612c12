"""Reading scopes: the columns and the rows of each relation on which the result of a query depends.

Most changes of a source do not concern every query that reads it: they update columns that the query does
not read, or rows that its WHERE clause rejects. The scope of a reading says which ones do. A query returns
the same rows if a relation lacks its unread columns (they may be NULL), and if it lacks the rows that a
filter of the scope rejects. So changed rows are first restricted to the scope, where many of them cancel out.

A condition becomes a filter of a reading if each row that fails it is irrelevant, whatever the other rows
are: nothing between them keeps or counts such rows. Operators without a rule pass no condition down, so a
scope may be too large, but never too small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mt_core.incremental.plan import (
    TRANSPARENT,
    Node,
    join_type,
    occurrence_of,
    read_plan,
    reading_of,
    readings_below,
)
from mt_core.incremental.read_columns import all_attributes, read_attributes

# The joins that pass a condition from above, or conjuncts of their own condition, to one side: a row of this
# side that fails it changes nothing in what the join returns, or in what the condition above accepts.
_ABOVE_TO_LEFT = frozenset({"Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti", "ExistenceJoin"})
_ABOVE_TO_RIGHT = frozenset({"Inner", "Cross", "RightOuter"})
_OWN_TO_LEFT = frozenset({"Inner", "Cross", "RightOuter", "LeftSemi"})
_OWN_TO_RIGHT = frozenset({"Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti", "ExistenceJoin"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Conjunct:
    """A place of a condition in a plan.

    `tree` is 0 for the query, and n for the n-th subquery in its expressions. `path` leads from the root to
    the operator, by positions of children. `number` is the position of the condition among those that AND
    combines in the operator.
    """

    tree: int
    path: tuple[int, ...]
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingScope:
    """The `columns` that a query reads of a relation, and the conditions on the rows that it uses."""

    columns: frozenset[str]
    filters: tuple[Conjunct, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Condition:
    """A condition that applies to the rows of an operator, with the attributes of that operator it reads."""

    place: Conjunct
    attributes: frozenset[int]


def read_scopes(plans: Sequence[Sequence[Mapping[str, Any]]]) -> dict[int, ReadingScope]:
    """Return the scope of each numbered relation, from the trees of a query in stages."""
    trees = [*map(read_plan, plans)]
    walk = _Walk(read=frozenset[int]().union(*map(read_attributes, plans)))
    for number, tree in enumerate(trees):
        walk.visit(tree, Conjunct(tree=number, path=(), number=0), ())
    times = Counter(number for tree in trees for number in readings_below(tree))
    # A relation that the plan reads in several places is filtered differently in each.
    return {
        number: scope if times[number] == 1 else replace(scope, filters=())
        for number, scope in walk.scopes.items()
    }


def combined_scopes(
    in_text: Mapping[int, ReadingScope], in_trees: Mapping[int, ReadingScope]
) -> dict[int, ReadingScope]:
    """Return scopes with all columns that the text or the trees of a query read, and the trees' filters.

    *in_text* is the result of `columns_in_text`, *in_trees* that of `read_scopes`.
    """
    return {
        number: replace(tree, columns=tree.columns | text.columns)
        if (tree := in_trees.get(number)) is not None
        else text
        for number, text in in_text.items()
    }


def columns_in_text(plans: Iterable[Sequence[Mapping[str, Any]]]) -> dict[int, ReadingScope]:
    """Return the scope of each numbered relation without filters, from a normal form and its subqueries.

    The trees of a query in stages may read fewer columns than its text: Spark removes expressions that cannot
    matter, such as `x IS NOT NULL` for a column that is never NULL. SQL over changed rows needs all columns
    of the text.
    """
    columns: dict[int, frozenset[str]] = {}
    for plan in plans:
        read = read_attributes(plan)
        for node in read_plan(plan).nodes():
            number = occurrence_of(node)
            if number is not None:
                leaves = (below for below in node.nodes() if not below.children)
                given = (column for leaf in leaves for column in leaf.expressions("output"))
                names = frozenset(str(each.fields["name"]) for each in given if each.identity in read)
                columns[number] = columns.get(number, frozenset()) | names
    return {number: ReadingScope(columns=names) for number, names in columns.items()}


@dataclass(slots=True)
class _Walk:
    """Carries conditions down a plan, and collects the scopes of its numbered relations."""

    read: frozenset[int]
    scopes: dict[int, ReadingScope] = field(default_factory=dict)

    def visit(self, node: Node, at: Conjunct, above: Sequence[_Condition]) -> None:
        """Visit an operator, whose rows matter only if they satisfy the conditions *above*."""
        number = reading_of(node)
        if number is not None:
            self._reading(number, node, above)
            return
        for position, child in enumerate(node.children):
            below = replace(at, path=(*at.path, position))
            self.visit(child, below, tuple(_passed(node, position, at, above)))

    def _reading(self, number: int, node: Node, conditions: Iterable[_Condition]) -> None:
        names = dict[int, str]()
        for column in node.expressions("output"):
            names[column.identity] = str(column.fields["name"])
        columns = frozenset(name for attribute, name in names.items() if attribute in self.read)
        filters = tuple(each.place for each in conditions if each.attributes <= names.keys())
        before = self.scopes.get(number, ReadingScope(columns=frozenset()))
        self.scopes[number] = ReadingScope(columns=before.columns | columns, filters=filters)


def _passed(node: Node, child: int, at: Conjunct, above: Iterable[_Condition]) -> Iterator[_Condition]:
    """Yield the conditions that apply to the rows of a child of an operator."""
    if node.kind in TRANSPARENT:
        yield from above
    elif node.kind == "Filter":
        # The lower condition first: it may exclude rows for which the upper one would raise an error.
        yield from _own(node, at)
        yield from above
    elif node.kind == "Project":
        yield from _through(node, above)
    elif node.kind == "Join":
        kind = join_type(node)
        if kind in (_OWN_TO_RIGHT if child else _OWN_TO_LEFT):
            yield from _own(node, at)
        if kind in (_ABOVE_TO_RIGHT if child else _ABOVE_TO_LEFT):
            yield from above


def _own(node: Node, at: Conjunct) -> Iterator[_Condition]:
    conjuncts = (each for whole in node.expressions("condition") for each in whole.conjuncts())
    for number, each in enumerate(conjuncts):
        attributes = _attributes(each)
        if attributes:
            yield _Condition(place=replace(at, number=number), attributes=attributes)


def _through(node: Node, above: Iterable[_Condition]) -> Iterator[_Condition]:
    """Yield conditions on the columns of a projection as conditions on those of its child."""
    columns = {
        item.identity: _attributes(item.value())
        for item in node.expressions("projectList")
        if item.kind in ("AttributeReference", "Alias")
    }
    for each in above:
        values = [columns.get(attribute) for attribute in each.attributes]
        attributes = frozenset(attribute for value in values for attribute in value or ())
        if attributes and None not in values:
            yield replace(each, attributes=attributes)


def _attributes(expression: Node) -> frozenset[int] | None:
    """Return the attributes that an expression reads, or None if it contains a subquery."""
    if "outerAttrs" in expression.fields:
        return None
    attributes = set(all_attributes(expression.fields))
    for child in expression.children:
        below = _attributes(child)
        if below is None:
            return None
        attributes |= below
    return frozenset(attributes)
