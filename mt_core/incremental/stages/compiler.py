"""The compiler of stages: it cuts a query at its lowest aggregates, whose groups become states.

A refresh has the changed rows of the sources. Below an aggregate they pass through operators that are
*linear*: what comes out for added or removed rows does not depend on the other rows of their source. So the
groups of the added rows less those of the removed rows are the change of the state. All operators above the
lowest aggregates are the *rest*, which is computed over the states as over tables. Nothing has to be known of
the rest, which is why HAVING, ratios, windows and aggregates of aggregates have no rules.

The plan is read once, bottom-up. Each operator combines the parts of its children into one:

- a leaf and an operator with a rule form a linear part of linear parts;
- an aggregate over a linear part is a stage, if its functions have accumulators;
- every other operator belongs to the rest, with the readings of its linear parts and the stages below it.

A part without readings never changes, whatever its operators are. An operator without a rule ends a linear
part, so an operator of a future Spark leads to fewer stages and never to wrong rows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mt_core.incremental.plan import TRANSPARENT, Node, join_type, read_plan
from mt_core.incremental.stages.accumulators import obstacle_of, obstacle_of_key
from mt_core.incremental.stages.join_blocks import join_blocks
from mt_core.incremental.stages.query_blocks import words_of_aggregate
from mt_core.incremental.stages.stage_name import functions_in, stage_name
from mt_core.incremental.stages.stage_plan import Place, Stage, StagePlan

_RELATION = "DataSourceV2Relation"
_LINEAR = frozenset({"Project", "Filter", "Union", "Expand", "Generate", *TRANSPARENT})
# The sides in which joins are linear: the left and the right. The rows of another side must never change.
_LINEAR_SIDES = {
    "Inner": (True, True),
    "Cross": (True, True),
    "LeftOuter": (True, False),
    "LeftSemi": (True, False),
    "LeftAnti": (True, False),
    "ExistenceJoin": (True, False),
    "RightOuter": (False, True),
}
# Operators that treat each row alone.
_ROW_BY_ROW = frozenset({"Project", "Filter", *TRANSPARENT})
# SQL words, for reasons.
_IN_SQL = {
    "LocalLimit": "a LIMIT",
    "GlobalLimit": "a LIMIT",
    "Offset": "an OFFSET",
    "Window": "a window function",
    "LateralJoin": "LATERAL",
}
_ABOVE = "another aggregate is below it"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """An aggregate over a linear part, at its place, with the `readings` below it."""

    place: Place
    aggregate: Node
    readings: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What the compiler knows of the output of an operator.

    `cuts` are the stages below, and `readings` those that none of them contains, as often as the plan reads
    them. The part is linear unless it has an `obstacle`.
    """

    readings: tuple[int, ...] = ()
    cuts: tuple[_Cut, ...] = ()
    obstacle: str | None = None

    @property
    def is_constant(self) -> bool:
        return not self.readings and not self.cuts and self.obstacle is None


def compile_stages(
    trees: Sequence[Sequence[Mapping[str, Any]]], *, sources: Sequence[str], version: str
) -> StagePlan | str:
    """Return the stages of a query, or the reason why it has none.

    *trees* are the query and its scalar subqueries, as JSON with facts for the compiler. *sources* are the
    names of the readings by number, *version* is Spark's.
    """
    query = _Query(trees=tuple(map(read_plan, trees)), sources=sources)
    parts = [query.part_of(number) for number in range(len(trees))]
    cuts = [cut for part in parts for cut in part.cuts]
    rest = {number for part in parts for number in part.readings}
    in_rest = {sources[number] for number in rest}
    useful, useless = list[_Cut](), list[_Cut]()
    for cut in cuts:
        # A state spares reading its sources. If the rest reads all of them, it spares nothing.
        spares = {sources[number] for number in cut.readings} - in_rest
        (useful if spares else useless).append(cut)
    if not useful:
        rereads = (f"the rest of the query reads {sources[cut.readings[0]]} as well" for cut in useless)
        return "; ".join(dict.fromkeys([*rereads, *query.reasons])) or "it has no aggregate"
    return StagePlan(
        stages=_shared(useful, sources, version),
        rest=frozenset(rest.union(*(cut.readings for cut in useless))),
        row_keys=_row_keys(query.trees[0], useful[0]),
    )


def _shared(cuts: Iterable[_Cut], sources: Sequence[str], version: str) -> tuple[Stage, ...]:
    """Return the stages of *cuts*. Cuts that Spark found to compute the same share one."""
    same: dict[Place, list[_Cut]] = {}
    for cut in cuts:
        same.setdefault(cut.aggregate.fields["same"], []).append(cut)
    stages: dict[str, Stage] = {}
    for first, *others in same.values():
        names = (
            stage_name(first.aggregate, sources, version=version, distinguished=number)
            for number in range(len(same))
        )
        name = next(name for name in names if name not in stages)
        stages[name] = Stage(
            name=name,
            places=tuple(cut.place for cut in (first, *others)),
            readings=frozenset(first.readings),
            keys=len(first.aggregate.expressions("groupingExpressions")),
            words=words_of_aggregate(first.aggregate),
            blocks=join_blocks(first.aggregate),
        )
    return tuple(stages.values())


@dataclass(slots=True)
class _Query:
    """The trees of a query, their parts, and why lowest aggregates are no stages."""

    trees: Sequence[Node]
    sources: Sequence[str]
    parts: dict[int, _Part] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)

    def part_of(self, tree: int) -> _Part:
        """Return the part of a whole tree."""
        if tree not in self.parts:
            self.parts[tree] = self._part(self.trees[tree], tree, ())
        return self.parts[tree]

    def _part(self, node: Node, tree: int, path: tuple[int, ...]) -> _Part:
        if (reading := node.fields.get("reading")) is not None:
            return _Part(readings=(reading,))
        below = [self._part(child, tree, (*path, number)) for number, child in enumerate(node.children)]
        part = _Part(
            readings=tuple(number for each in below for number in each.readings),
            cuts=tuple(cut for each in below for cut in each.cuts),
            obstacle=next((each.obstacle for each in below if each.obstacle is not None), None),
        )
        is_constant = part.is_constant
        obstacle = part.obstacle or self._in_expressions(node)
        if is_constant or node.kind != "Aggregate":
            return replace(part, obstacle=obstacle or self._in_operator(node, below))
        obstacle = obstacle or self._in_aggregate(node, part)
        if obstacle is None:
            place = json.dumps([tree, path], separators=(",", ":"))
            cut = _Cut(place=place, aggregate=node, readings=part.readings)
            return _Part(cuts=(cut,), obstacle=_ABOVE)
        if obstacle != _ABOVE:
            self.reasons.append(obstacle)
        return replace(part, obstacle=obstacle)

    def _in_operator(self, node: Node, below: Sequence[_Part]) -> str | None:
        """Return why an operator is not linear in the parts below it, or None if it is."""
        if node.kind == _RELATION:
            return "a relation that names its version is below an aggregate"
        if all(each.is_constant for each in below) or node.kind in _LINEAR:
            return None
        if node.kind != "Join":
            return f"{_IN_SQL.get(node.kind, node.kind)} is below an aggregate"
        kind = join_type(node)
        others = [
            part
            for part, linear in zip(below, _LINEAR_SIDES.get(kind, (False, False)), strict=True)
            if not linear and not part.is_constant
        ]
        names = dict.fromkeys(self.sources[number] for part in others for number in part.readings)
        what = "an ExistenceJoin" if kind == "ExistenceJoin" else f"a {kind} join"
        return f"{what} with {', '.join(names)} is below an aggregate" if others else None

    def _in_aggregate(self, node: Node, part: _Part) -> str | None:
        """Return why an aggregate over a linear part is no stage, or None if it is one."""
        twice = [number for number, times in Counter(part.readings).items() if times > 1]
        if twice:
            return f"a view or a WITH query reads {self.sources[twice[0]]} in several places"
        obstacles = [
            *map(obstacle_of, node.fields["functions"]),
            *map(obstacle_of_key, node.fields["keyTypes"]),
        ]
        keys = frozenset(each.canonical() for each in node.expressions("groupingExpressions"))
        items = node.expressions("aggregateExpressions")
        # Spark may have rewritten the key within a column, as NOT (a > b) becomes a <= b.
        odd = [item for item in items if _reads_more(item.value(), keys)]
        if odd:
            obstacles.append(f"column {odd[0].fields['name']} has an expression of a grouping key")
        return next((each for each in obstacles if each is not None), None)

    def _in_expressions(self, node: Node) -> str | None:
        """Return why the expressions of an operator need more than its rows, or None if they do not."""
        if not node.fields["deterministic"]:
            return "an expression below an aggregate is not deterministic"
        fields: Any = node.fields
        if node.kind == "Aggregate":
            # A state has the keys and the functions. The rest evaluates the columns from these.
            kept = [*node.expressions("groupingExpressions"), *functions_in(node)]
            fields = [each.fields for expression in kept for each in expression.nodes()]
        if all(self.part_of(number).is_constant for number in _subqueries(fields)):
            return None
        return "a scalar subquery is below an aggregate"


def _reads_more(expression: Node, keys: frozenset[tuple[Any, ...]]) -> bool:
    """Return whether an expression of an aggregate reads anything but its *keys* and functions."""
    if expression.kind == "AggregateExpression" or expression.canonical() in keys:
        return False
    if expression.kind == "AttributeReference":
        return True
    return any(_reads_more(child, keys) for child in expression.children)


def _subqueries(value: Any) -> Iterator[int]:
    """Yield the numbers of the trees of scalar subqueries in JSON."""
    if isinstance(value, list):
        for each in value:
            yield from _subqueries(each)
    elif isinstance(value, Mapping):
        if "subquery" in value:
            yield value["subquery"]
        else:
            yield from _subqueries(list(value.values()))


def _row_keys(root: Node, stage: _Cut) -> tuple[int, ...] | None:
    """Return the positions of the columns of the result that have the keys of *stage*.

    The result has such columns if the operators above the stage treat each of its rows alone.
    """
    above, node = list[Node](), root
    while node is not stage.aggregate and node.kind in _ROW_BY_ROW:
        above.append(node)
        node = node.children[0]
    has_subqueries = any(True for _ in _subqueries([each.fields for each in (*above, node)]))
    if node is not stage.aggregate or has_subqueries:
        return None
    grouping = [each.canonical() for each in node.expressions("groupingExpressions")]
    items = node.expressions("aggregateExpressions")
    column_keys = [
        grouping.index(form) if (form := item.value().canonical()) in grouping else None for item in items
    ]
    ids = [item.identity for item in items]
    for project in reversed([each for each in above if each.kind == "Project"]):
        keys = dict(zip(ids, column_keys, strict=True))
        items = project.expressions("projectList")
        column_keys = [
            keys.get(value.identity) if (value := item.value()).kind == "AttributeReference" else None
            for item in items
        ]
        ids = [item.identity for item in items]
    if not grouping or not set(range(len(grouping))) <= set(column_keys):
        return None
    return tuple(column_keys.index(key) for key in range(len(grouping)))
