"""Certainty of a query's result: which columns have the same values in every computation.

A verification compares a table with its query. Two correct computations over the same rows may still differ
where SQL does not define the result. A value may depend on the order of the rows, or on which of several tied
rows is chosen. Such a difference is not an error. This module walks the analysed plan bottom-up and records
why each uncertain column is uncertain. Reasons are an order-dependent function, row_number() among ties, a
LIMIT, and the rounding of a sum of doubles. An uncertain column in a filter, join or grouping key makes even
the set of rows uncertain.

The rules are conservative: only a column without a recorded reason is certain. An operator without a rule
makes everything above it uncertain if any of its inputs is uncertain. Sums of doubles are allowed, because
they are compared within a tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mt_core.incremental.plan import TRANSPARENT, Node, joined_columns, read_plan

OF_ORDER: Mapping[str, str] = {
    "AnyValue": "any_value()",
    "CollectList": "collect_list()",
    "CollectSet": "collect_set()",
    "First": "first()",
    "Last": "last()",
    "ListAgg": "listagg()",
}
"""Aggregates whose value depends on the order of the rows, by Spark class."""

_OF_TIES: Mapping[str, str] = {
    "ApproximatePercentile": "approx_percentile()",
    "HistogramNumeric": "histogram_numeric()",
    "MaxBy": "max_by()",
    "MinBy": "min_by()",
    "Mode": "mode()",
}
_OF_RANKS: Mapping[str, str] = {
    "Lag": "lag()",
    "Lead": "lead()",
    "NTile": "ntile()",
    "NthValue": "nth_value()",
    "RowNumber": "row_number()",
}
# Ranking functions that return equal values for equal rows.
_RANKS = frozenset({"Rank", "DenseRank", "PercentRank", "CumeDist"})
# Functions of a list whose result does not depend on the order of its elements.
_WITHOUT_ORDER = frozenset({"SortArray", "Size"})
_LISTS = frozenset({"CollectList", "CollectSet"})
_LIMITS = frozenset({"GlobalLimit", "LocalLimit", "Offset", "Tail"})
_FLOATS = frozenset({"float", "double"})
_SUMS = frozenset({"Sum", "Average"})
_MOMENTS = frozenset(
    {
        *("StddevPop", "StddevSamp", "VariancePop", "VarianceSamp", "Skewness", "Kurtosis"),
        *("Corr", "CovPopulation", "CovSample"),
    }
)
_ROUNDING = frozenset({"Round", "BRound", "Floor", "Ceil", "RoundFloor", "RoundCeil"})
_ROUNDED = "it rounds a sum of doubles, which depends on the order of the additions"
_TIES_OF_LIMIT = "LIMIT chooses among ties"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certainty:
    """Why each column of a result is uncertain (None if it is certain), and why the set of `rows` is."""

    columns: tuple[str | None, ...]
    rows: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Facts about the output of one operator, by column id.

    `sums` are sums of doubles, whose last digits depend on the order of the additions. `ranks` maps each
    row_number() column to the columns of its PARTITION BY and ORDER BY. `order` contains the ORDER BY columns
    of a Sort.
    """

    columns: tuple[int, ...] = ()
    doubts: Mapping[int, str] = field(default_factory=dict)
    sums: frozenset[int] = frozenset()
    ranks: Mapping[int, frozenset[int]] = field(default_factory=dict)
    order: frozenset[int] = frozenset()
    rows: str | None = None

    def doubt_of(self, expressions: Iterable[Node]) -> str | None:
        """Return why one of *expressions* is uncertain, or None if all are certain."""
        for each in expressions:
            if reason := self._doubt(each):
                return reason
        return None

    def _doubt(self, node: Node) -> str | None:
        if node.kind == "AttributeReference":
            return self.doubts.get(node.identity)
        if node.kind in _WITHOUT_ORDER and (inner := _list_below(node)) is not None:
            return self.doubt_of(inner.children)
        name = OF_ORDER.get(node.kind) or _OF_TIES.get(node.kind)
        if name is not None:
            return f"{name} depends on the order of rows or on ties"
        if node.kind in _ROUNDING and self.is_sum(node):
            return _ROUNDED
        return self.doubt_of(node.children)

    def is_sum(self, node: Node) -> bool:
        """Return whether the value of an expression depends on a sum of doubles."""
        if node.attributes() & self.sums or node.kind in _MOMENTS:
            return True
        if node.kind in _SUMS and any(each.data_type in _FLOATS for each in _all(node)):
            return True
        return any(map(self.is_sum, node.children))

    def with_items(self, items: Sequence[Node], *, keep: bool = False) -> _Part:
        """Return the facts of an operator with output *items*; *keep* puts its child's columns first."""
        doubts = {each.identity: reason for each in items if (reason := self.doubt_of([each.value()]))}
        sums = frozenset(each.identity for each in items if self.is_sum(each.value()))
        renamed = {each.identity: column.identity for each in items if (column := each.column()) is not None}
        return replace(
            self,
            columns=(*(self.columns if keep else ()), *(each.identity for each in items)),
            doubts={**self.doubts, **doubts},
            sums=self.sums | sums,
            ranks={
                **self.ranks,
                **{new: self.ranks[old] for new, old in renamed.items() if old in self.ranks},
            },
        )

    def certain_only(self, certain: frozenset[int], reason: str) -> _Part:
        """Return this part with every column outside *certain* marked uncertain."""
        return replace(
            self,
            doubts={**{column: reason for column in self.columns if column not in certain}, **self.doubts},
        )

    def uncertain(self, reason: str | None) -> _Part:
        return self if reason is None or self.rows is not None else replace(self, rows=reason)


def certainty_of(
    plan: Sequence[Mapping[str, Any]],
    subqueries: Iterable[Sequence[Mapping[str, Any]]],
    *,
    floats: Sequence[bool],
) -> Certainty:
    """Return the certainty of a query from the JSON of its analysed plan and remaining subqueries.

    *floats* tells for each column whether it contains floating-point numbers, which are compared within a
    tolerance.
    """
    part = _part(read_plan(plan))
    for each in subqueries:
        below = _part(read_plan(each))
        part = part.uncertain(
            below.rows or next((below.doubts[each] for each in below.columns if each in below.doubts), None)
        )
    columns = (
        part.doubts.get(column, _ROUNDED if column in part.sums and not floating else None)
        for column, floating in zip(part.columns, floats, strict=True)
    )
    return Certainty(columns=tuple(columns), rows=part.rows)


def _part(node: Node) -> _Part:
    below = [_part(child) for child in node.children]
    if node.kind == "Sort":
        order = (
            column.identity for each in node.expressions("order") if (column := _ordered(each)) is not None
        )
        return replace(below[0], order=frozenset(order))
    if node.kind in TRANSPARENT:
        return below[0]
    if node.kind in _LIMITS:
        return below[0].certain_only(below[0].order, _TIES_OF_LIMIT)
    rule = _RULES.get(node.kind)
    if rule is not None:
        return rule(node, below)
    if not below:
        return _Part(columns=node.identities("output"))
    part = _joined(below)
    return part.uncertain(
        next((f"{node.kind} is above a column that is not certain" for _ in part.doubts), None)
    )


def _project(node: Node, below: Sequence[_Part]) -> _Part:
    return below[0].with_items(node.expressions("projectList"))


def _aggregate(node: Node, below: Sequence[_Part]) -> _Part:
    part = below[0].uncertain(below[0].doubt_of(node.expressions("groupingExpressions")))
    return replace(part.with_items(node.expressions("aggregateExpressions")), order=frozenset())


def _window(node: Node, below: Sequence[_Part]) -> _Part:
    part, items = below[0], node.expressions("windowExpressions")
    spec = [*node.expressions("partitionSpec"), *node.expressions("orderSpec")]
    above = part.with_items(items, keep=True)
    agreed = frozenset(column.identity for each in spec if (column := _ordered(each)) is not None)
    doubts, ranks = dict(above.doubts), dict(above.ranks)
    reason = part.doubt_of(spec)
    for each in items:
        name = next((_OF_RANKS[inner.kind] for inner in _all(each) if inner.kind in _OF_RANKS), None)
        name = name or ("a window of ROWS" if _counts_rows(each) else None)
        if reason is not None or name is not None:
            doubts.setdefault(each.identity, reason or f"{name} depends on ties")
        if reason is None and name == "row_number()" and each.value().kind == "WindowExpression":
            ranks[each.identity] = agreed
    return replace(above, doubts=doubts, ranks=ranks, order=frozenset())


def _counts_rows(item: Node) -> bool:
    """Return whether a window frame counts ROWS, because SQL does not define the order of tied rows."""
    if any(each.kind in _RANKS for each in _all(item)):
        return False
    return any(
        "RowFrame" in str(each.fields.get("frameType"))
        and not all(bound.kind.startswith("Unbounded") for bound in each.children)
        for each in _all(item)
        if each.kind == "SpecifiedWindowFrame"
    )


def _filter(node: Node, below: Sequence[_Part]) -> _Part:
    part = below[0]
    conjuncts = [each for whole in node.expressions("condition") for each in whole.conjuncts()]
    others = []
    for each in conjuncts:
        ranks = each.attributes() & frozenset(part.ranks)
        if ranks and each.attributes() == ranks and len(ranks) == 1:
            [rank] = ranks
            part = part.certain_only(
                part.ranks[rank] - frozenset(part.doubts), "row_number() chooses among ties"
            )
        else:
            others.append(each)
    return part.uncertain(part.doubt_of(others))


def _join(node: Node, below: Sequence[_Part]) -> _Part:
    part = _joined(below)
    part = part.uncertain(part.doubt_of(node.expressions("condition")))
    return replace(part, columns=joined_columns(node, below[0].columns, below[1].columns))


def _union(node: Node, below: Sequence[_Part]) -> _Part:
    part = replace(_joined(below), columns=below[0].columns, ranks={})
    doubts, sums = dict(part.doubts), set(part.sums)
    for position, column in enumerate(part.columns):
        for each in below:
            if reason := each.doubts.get(each.columns[position]):
                doubts.setdefault(column, reason)
            if each.columns[position] in each.sums:
                sums.add(column)
    return replace(part, doubts=doubts, sums=frozenset(sums))


def _generate(node: Node, below: Sequence[_Part]) -> _Part:
    part = below[0].uncertain(below[0].doubt_of(node.expressions("generator")))
    return replace(part, columns=(*part.columns, *node.identities("generatorOutput")), order=frozenset())


def _expand(node: Node, below: Sequence[_Part]) -> _Part:
    part, columns = below[0], node.identities("output")
    rows = [tuple(map(read_plan, each)) for each in node.fields.get("projections") or ()]
    doubts = dict(part.doubts)
    for position, column in enumerate(columns):
        if reason := part.doubt_of(row[position] for row in rows if position < len(row)):
            doubts.setdefault(column, reason)
    return replace(part, columns=columns, doubts=doubts, order=frozenset())


_RULES: Mapping[str, Callable[[Node, Sequence[_Part]], _Part]] = {
    "Project": _project,
    "Aggregate": _aggregate,
    "Window": _window,
    "Filter": _filter,
    "Join": _join,
    "Union": _union,
    "Generate": _generate,
    "Expand": _expand,
}


def _joined(below: Sequence[_Part]) -> _Part:
    """Combine the facts of several operators, with the columns of all."""
    return _Part(
        columns=tuple(column for part in below for column in part.columns),
        doubts={column: reason for part in below for column, reason in part.doubts.items()},
        sums=frozenset[int]().union(*(part.sums for part in below)),
        ranks={column: agreed for part in below for column, agreed in part.ranks.items()},
        rows=next((part.rows for part in below if part.rows is not None), None),
    )


def _list_below(node: Node) -> Node | None:
    """Return the list aggregate that is the argument of *node*, or None if the argument is something else."""
    inner = node.children[0]
    if inner.kind == "AggregateExpression":
        inner = inner.children[0]
    return inner if inner.kind in _LISTS else None


def _ordered(node: Node) -> Node | None:
    """Return the column of a SortOrder or of a plain column expression, or None for another expression."""
    return (node.children[0] if node.kind == "SortOrder" else node).column()


def _all(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _all(child)
