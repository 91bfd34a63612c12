"""The shape of a query: how its result depends on each relation, and which columns divide it.

A refresh should recompute only the part of the result that a change affects. Two properties make that
possible. A relation is LINEAR if the change of the result is the query over the changed rows. A column
*divides* the result by a relation if the result rows with a given value depend only on the relation's rows
with the same value. The lineage names the column of the relation that has this value. Then the rows with
changed values can be replaced.

Both properties are computed bottom-up over the analysed plan, by one rule for each operator. A rule may lose
a property but never adds one, and an operator without a rule loses all properties. Refreshes therefore stay
correct with operators of a future Spark, at the cost of recomputations. The rules are explained in
docs/design/small-changes.md#which-change-is-applied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

from mt_core.incremental.first_rows import FirstRows, first_rows, sort_of
from mt_core.incremental.merging import Merge, merge_of, row_count_of
from mt_core.incremental.plan import (
    LEFT_ONLY,
    TRANSPARENT,
    Node,
    all_values,
    attributes_of,
    join_type,
    joined_columns,
    occurrence_of,
    occurrences_below,
    read_plan,
)
from mt_core.incremental.reading_scopes import ReadingScope, columns_in_text
from mt_core.incremental.stages.blocks import Blocks
from mt_core.incremental.stages.first_rows import Limit
from mt_core.incremental.stages.stage_plan import StagePlan

Lineage = Mapping[int, str]
"""The relation columns that have the same values as a result column, by relation number."""

# The number of a relation whose numbered alias is still above it.
_UNNUMBERED = -1
_RELATION = "DataSourceV2Relation"
_CONSTANT = frozenset({"OneRowRelation", "LocalRelation", "Range"})
# Joins that are linear in one side: each row of that side contributes independently of its other rows.
_KEEPS_LEFT = frozenset({"Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti", "ExistenceJoin"})
_KEEPS_RIGHT = frozenset({"Inner", "Cross", "RightOuter"})
# SQL keywords, for messages, of operators that have no rule.
_IN_SQL = {"LocalLimit": "LIMIT", "GlobalLimit": "LIMIT", "Offset": "OFFSET", "LateralJoin": "LATERAL"}
# Types without usable equality: a collation makes different strings equal, and nested types are excluded.
_NO_KEY = ("collate", "map", "struct", "array", "variant")


class Reach(IntEnum):
    """How the result depends on the rows of a relation."""

    LINEAR = 0
    """The change of the result is the query over the changed rows."""
    GROUPED = 1
    """Groups or windows are above. The query over the changed rows returns the keys of affected rows."""
    NONE = 2
    """Neither of these. The change can be applied only by a column that divides the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """How the result depends on one relation in the text.

    `reason` says why it is not LINEAR. `siblings` are the relations in other branches of its UNIONs, which
    must be empty while the query runs over its changed rows.
    """

    reach: Reach = Reach.LINEAR
    reason: str = ""
    siblings: frozenset[int] = frozenset()

    def at_least(self, reach: Reach, reason: str) -> Occurrence:
        """Return this occurrence with *reach*, unless its own reach is the same or worse."""
        return self if self.reach >= reach else replace(self, reach=reach, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryShape:
    """The shape of a query. Columns are given by position, relations by their number in the text.

    `keys` are the columns that are grouping keys at every level, or all columns if the query has no groups.
    `merge` holds the aggregate of each column, or the reason why the aggregates do not combine. `row_count`
    is the position of a column that counts the rows of each group. `values` are the relations that only
    scalar subqueries read: their changes do not matter while the values of the subqueries stay the same.
    `first` describes a top-level ORDER BY and LIMIT. `scopes` has the columns and the rows that the query
    uses of each relation. `stages` says which aggregates can be kept as states, or why there are none. `rows`
    are the rows of the query as a block, or the reason why their change is not computed. `first_rows` are
    those below a LIMIT at the end of the query.
    """

    occurrences: Mapping[int, Occurrence]
    lineage: tuple[Lineage, ...]
    keys: tuple[int, ...]
    merge: Merge | str
    values: frozenset[int] = frozenset()
    row_count: int | None = None
    first: FirstRows | None = None
    scopes: Mapping[int, ReadingScope] = field(default_factory=dict)
    stages: StagePlan | str = "it has no aggregate"
    rows: Blocks | str = "its rows are not known as a block"
    first_rows: tuple[Blocks, Limit] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Facts about the output of one operator.

    `groups` are the attributes that are grouping keys at every level below, or None if there are no groups.
    `coalesced` is the lineage of COALESCE over the two keys of a full join.
    """

    columns: tuple[int, ...] = ()
    lineage: Mapping[int, Lineage] = field(default_factory=dict)
    groups: frozenset[int] | None = None
    occurrences: Mapping[int, Occurrence] = field(default_factory=dict)
    coalesced: Mapping[frozenset[int], Lineage] = field(default_factory=dict)

    def worsened(self, reach: Reach, reason: str, *, above: Reach = Reach.LINEAR) -> dict[int, Occurrence]:
        """Return the occurrences. Each whose reach is *above* or worse now has *reach*, or its worse one."""
        return {
            number: each.at_least(reach, reason) if each.reach >= above else each
            for number, each in self.occurrences.items()
        }

    def hides(self, expressions: Iterable[Node]) -> bool:
        """Return whether *expressions* read aggregated values, and not only grouping keys."""
        read = attributes_of(expressions) & frozenset(self.columns)
        return self.groups is not None and not read <= self.groups

    def lineage_of(self, expression: Node) -> Lineage:
        """Return the lineage of a column or of COALESCE over the keys of a full join, or an empty one."""
        column, value = expression.column(), expression.value()
        if column is not None:
            return self.lineage.get(column.identity, {})
        if value.kind == "Coalesce" and all(child.kind == "AttributeReference" for child in value.children):
            return self.coalesced.get(value.attributes(), {})
        return {}


def read_shape(
    plan: Sequence[Mapping[str, Any]], subqueries: Iterable[Sequence[Mapping[str, Any]]]
) -> QueryShape:
    """Return the shape of a query from the JSON of its analysed plan and remaining subqueries."""
    root, subqueries = read_plan(plan), list(subqueries)
    part, below = _part(root), Counter(occurrences_below(root))
    # A relation that the plan reads several times has no lineage, which may differ between the places.
    unclear = dict.fromkeys(
        (number for number, times in below.items() if times > 1),
        Occurrence(reach=Reach.NONE, reason="a view or a WITH query reads it in several places"),
    )
    hidden = frozenset(number for each in subqueries for number in occurrences_below(read_plan(each)))
    only_hidden = hidden - below.keys()
    unclear |= dict.fromkeys(hidden, Occurrence(reach=Reach.NONE, reason="a scalar subquery reads it"))
    keyed = frozenset(part.columns) if part.groups is None else part.groups
    keys = tuple(position for position, column in enumerate(part.columns) if column in keyed)
    return QueryShape(
        occurrences={**part.occurrences, **unclear},
        lineage=tuple(
            {number: name for number, name in part.lineage.get(column, {}).items() if number not in unclear}
            for column in part.columns
        ),
        keys=keys,
        merge=merge_of(root),
        values=only_hidden if only_hidden and all_values(plan) else frozenset(),
        row_count=row_count_of(root),
        first=_first_rows(root, unclear),
        scopes=columns_in_text([plan, *subqueries]),
    )


def _first_rows(root: Node, unclear: Iterable[int]) -> FirstRows | None:
    if (limit_and_sort := sort_of(root)) is None:
        return None
    part = _part(limit_and_sort[1].children[0])
    linear = frozenset(number for number, each in part.occurrences.items() if each.reach is Reach.LINEAR)
    return first_rows(*limit_and_sort, part.columns, reads=linear.difference(unclear))


def _part(node: Node) -> _Part:
    below = [_part(child) for child in node.children]
    if node.kind in TRANSPARENT:
        return _numbered(node, below[0])
    rule = _RULES.get(node.kind)
    if rule is not None:
        return rule(node, below)
    if not below and node.kind in _CONSTANT:
        return _Part(columns=node.identities("output"))
    # An operator without a rule loses all properties.
    return _Part(
        columns=tuple(column for part in below for column in part.columns),
        groups=frozenset(),
        occurrences=_together(
            [part.worsened(Reach.NONE, f"{_IN_SQL.get(node.kind, node.kind)} is above it") for part in below]
        ),
    )


def _numbered(node: Node, part: _Part) -> _Part:
    """Return *part* with the number of its relation filled in if *node* is the numbered alias."""
    number = occurrence_of(node)
    if number is None or _UNNUMBERED not in part.occurrences:
        return part
    lineage = {column: {number: names[_UNNUMBERED]} for column, names in part.lineage.items() if names}
    return replace(part, occurrences={number: part.occurrences[_UNNUMBERED]}, lineage=lineage)


def _relation(node: Node, _below: Sequence[_Part]) -> _Part:
    columns = node.expressions("output")
    keys = [
        each
        for each in columns
        if each.data_type and not each.data_type.startswith(_NO_KEY) and "collate" not in each.data_type
    ]
    return _Part(
        columns=tuple(each.identity for each in columns),
        lineage={each.identity: {_UNNUMBERED: str(each.fields["name"])} for each in keys},
        occurrences={_UNNUMBERED: Occurrence()},
    )


def _project(node: Node, below: Sequence[_Part]) -> _Part:
    part, items = below[0], node.expressions("projectList")
    groups = part.groups
    if groups is not None:
        keys = (each for each in items if each.value().attributes() and each.value().attributes() <= groups)
        groups = frozenset(each.identity for each in keys)
    return replace(
        part,
        columns=tuple(each.identity for each in items),
        lineage={each.identity: part.lineage_of(each) for each in items},
        groups=groups,
    )


def _aggregate(node: Node, below: Sequence[_Part]) -> _Part:
    part, items = below[0], node.expressions("aggregateExpressions")
    grouping = {each.canonical() for each in node.expressions("groupingExpressions")}
    keys = [each for each in items if each.value().canonical() in grouping]
    known = (each for each in keys if part.groups is None or each.value().attributes() <= part.groups)
    return _Part(
        columns=tuple(each.identity for each in items),
        lineage={each.identity: part.lineage_of(each) for each in keys},
        groups=frozenset(each.identity for each in known),
        occurrences=part.worsened(Reach.GROUPED, "an aggregate is above it"),
    )


def _window(node: Node, below: Sequence[_Part]) -> _Part:
    part = below[0]
    partition = [
        column.identity for each in node.expressions("partitionSpec") if (column := each.column()) is not None
    ]
    # A column and its alias below the window are different attributes, but equal lineage means equal values.
    lineages = [part.lineage[column] for column in partition if part.lineage.get(column)]
    partition += [
        column for column in part.columns if part.lineage.get(column) in lineages and column not in partition
    ]
    return _Part(
        columns=(*part.columns, *node.identities("windowExpressions")),
        lineage={column: part.lineage.get(column, {}) for column in partition},
        groups=frozenset(column for column in partition if part.groups is None or column in part.groups),
        occurrences=part.worsened(Reach.GROUPED, "a window function is above it"),
    )


def _filter(node: Node, below: Sequence[_Part]) -> _Part:
    part, conditions = below[0], node.expressions("condition")
    lineage = dict(part.lineage)
    for left, right in _equal_columns(conditions):
        lineage[left] = lineage[right] = {**lineage.get(left, {}), **lineage.get(right, {})}
    occurrences = part.occurrences
    if part.hides(conditions):
        occurrences = part.worsened(
            Reach.NONE, "a condition on aggregated values is above it", above=Reach.GROUPED
        )
    return replace(part, lineage=lineage, occurrences=occurrences)


def _join(node: Node, below: Sequence[_Part]) -> _Part:
    left, right = below
    kind, conditions = join_type(node), node.expressions("condition")
    equal = [
        (a, b) if a in left.columns else (b, a)
        for a, b in _equal_columns(conditions)
        if (a in left.columns) != (b in left.columns)
    ]
    both = {(a, b): {**left.lineage.get(a, {}), **right.lineage.get(b, {})} for a, b in equal}
    lineage: dict[int, Lineage] = {}
    if kind in _KEEPS_LEFT:
        lineage |= left.lineage
    if kind in _KEEPS_RIGHT:
        lineage |= right.lineage
    for (a, b), merged in both.items():
        if kind in _KEEPS_LEFT:
            lineage[a] = {**lineage.get(a, {}), **merged}
        if kind in _KEEPS_RIGHT:
            lineage[b] = {**lineage.get(b, {}), **merged}
    return _Part(
        columns=joined_columns(node, left.columns, right.columns),
        lineage=lineage,
        groups=_joined_groups(kind, left, right, equal),
        occurrences=_together(
            [
                _side(left, kind in _KEEPS_LEFT, kind, conditions),
                _side(right, kind in _KEEPS_RIGHT, kind, conditions),
            ]
        ),
        coalesced={frozenset(pair): merged for pair, merged in both.items()} if kind == "FullOuter" else {},
    )


def _side(part: _Part, keeps: bool, kind: str, conditions: Sequence[Node]) -> dict[int, Occurrence]:
    if not keeps:
        return part.worsened(Reach.NONE, f"it is on the optional side of a {kind} join")
    if part.hides(conditions):
        return part.worsened(Reach.NONE, "a join compares aggregated values of it", above=Reach.GROUPED)
    return dict(part.occurrences)


def _joined_groups(
    kind: str, left: _Part, right: _Part, equal: Sequence[tuple[int, int]]
) -> frozenset[int] | None:
    """Return the grouping keys above a join: those of a grouped side, and the columns joined to them."""
    if kind in LEFT_ONLY or kind == "ExistenceJoin":
        return left.groups
    match [part.groups for part in (left, right) if part.groups is not None]:
        case [groups]:
            return groups | {each for pair in equal if groups & set(pair) for each in pair}
        case [lefts, rights]:
            return frozenset(each for a, b in equal if a in lefts and b in rights for each in (a, b))
        case _:
            return None


def _union(node: Node, below: Sequence[_Part]) -> _Part:
    columns = below[0].columns
    occurrences: dict[int, Occurrence] = {}
    for part in below:
        others = [(child, each) for child, each in zip(node.children, below, strict=True) if each is not part]
        emptied = frozenset(number for _, each in others for number in each.occurrences)
        stays = any(_gives_rows_from_nothing(child) for child, _ in others)
        for number, each in part.occurrences.items():
            sibling = replace(each, siblings=each.siblings | emptied)
            reason = "another branch of a UNION returns rows without its tables"
            occurrences[number] = sibling.at_least(Reach.NONE, reason) if stays else sibling
    lineages: dict[int, Lineage] = {}
    for position, column in enumerate(columns):
        merged: dict[int, str] = {}
        for part in below:
            merged |= part.lineage.get(part.columns[position], {})
        lineages[column] = merged
    groups = None
    if any(part.groups is not None for part in below):
        groups = frozenset(
            column
            for position, column in enumerate(columns)
            if all(part.groups is None or part.columns[position] in part.groups for part in below)
        )
    return _Part(columns=columns, lineage=lineages, groups=groups, occurrences=occurrences)


def _gives_rows_from_nothing(node: Node) -> bool:
    """Return whether an operator outputs rows even if all its tables are empty."""
    if node.kind == "Aggregate" and not node.fields.get("groupingExpressions"):
        return True
    if not node.children:
        return node.kind != _RELATION
    below = [_gives_rows_from_nothing(child) for child in node.children]
    if node.kind == "Union":
        return any(below)
    if node.kind != "Join":
        return all(below)
    match join_type(node):
        case "Inner" | "Cross" | "LeftSemi":
            return all(below)
        case "LeftOuter" | "LeftAnti" | "ExistenceJoin":
            return below[0]
        case "RightOuter":
            return below[1]
        case _:
            return any(below)


def _generate(node: Node, below: Sequence[_Part]) -> _Part:
    part = below[0]
    occurrences = part.occurrences
    if part.hides(node.expressions("generator")):
        occurrences = part.worsened(
            Reach.NONE, "rows are generated from aggregated values of it", above=Reach.GROUPED
        )
    return replace(
        part,
        columns=(*part.columns, *node.identities("generatorOutput")),
        occurrences=occurrences,
        coalesced={},
    )


def _expand(node: Node, below: Sequence[_Part]) -> _Part:
    part = below[0]
    groups = None if part.groups is None else frozenset[int]()
    return _Part(columns=node.identities("output"), groups=groups, occurrences=part.occurrences)


_RULES: Mapping[str, Callable[[Node, Sequence[_Part]], _Part]] = {
    _RELATION: _relation,
    "Project": _project,
    "Aggregate": _aggregate,
    "Window": _window,
    "Filter": _filter,
    "Join": _join,
    "Union": _union,
    "Generate": _generate,
    "Expand": _expand,
}


def _together(parts: Iterable[Mapping[int, Occurrence]]) -> dict[int, Occurrence]:
    return {number: each for part in parts for number, each in part.items()}


def _equal_columns(conditions: Iterable[Node]) -> list[tuple[int, int]]:
    """Return the pairs of columns for which *conditions* require equal values."""
    pairs = []
    for condition in (each for whole in conditions for each in whole.conjuncts()):
        if condition.kind in ("EqualTo", "EqualNullSafe"):
            left, right = (side.column() for side in condition.children)
            if left is not None and right is not None:
                pairs.append((left.identity, right.identity))
    return pairs
