"""Row numbers that a query bounds: `rn <= n` over `ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) AS rn`, as a plan has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import class_name, scala_items, static_member
from mt_core.spark.streams.operators.changelog import Changelog
from mt_core.spark.streams.operators.state_ttls import position_of
from mt_core.spark.streams.operators.stateless import carried

_CATALYST = "org.apache.spark.sql.catalyst"
_LESS = frozenset({"LessThan", "LessThanOrEqual", "EqualTo"})
_MIRRORED = {"GreaterThan": "LessThan", "GreaterThanOrEqual": "LessThanOrEqual", "EqualTo": "EqualTo"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedRows:
    """A filter that lets the row numbers of *window* be *bound* at most, besides the conditions *others*."""

    filter: Any = field(repr=False)
    window: Any = field(repr=False)
    bound: int
    others: tuple[Any, ...] = field(repr=False)

    @property
    def number(self) -> Any:
        """The named expression of the row number."""
        return self.window.windowExpressions().apply(0)

    @property
    def position(self) -> int | None:
        """The position of the row number in the text of the query, or of a view, if that is known."""
        return position_of(self.number)

    def over(self, session: SparkSession, numbered: Changelog) -> Changelog:
        """Return the changelog of the filter with *numbered*, whose rows are those up to the bound, in the window's place."""
        found = _above(session, self.filter.child(), numbered)
        if not self.others:
            return found
        condition = _all(session, self.others)
        above = static_member(session, f"{_CATALYST}.plans.logical.Filter")(condition, self.filter.child())
        return carried(session, above, [found])


def numbered_rows(plan: Any) -> NumberedRows | None:
    """Return what the filter *plan* says of a row number, None if it says nothing."""
    conditions = list(_conjuncts(plan.condition()))
    for condition in conditions:
        numbered = _bounded(condition)
        window = None if numbered is None else _window(plan.child(), numbered[0])
        if numbered is not None and window is not None:
            others = tuple(each for each in conditions if each is not condition)
            return NumberedRows(filter=plan, window=window, bound=numbered[1], others=others)
    return None


def definition(items: Any, attribute: Any) -> Any:
    """Return the one of the named expressions *items* that gives *attribute*; None without one."""
    found = (item for item in scala_items(items) if item.exprId().equals(attribute.exprId()))
    return next(found, None)


def _above(session: SparkSession, plan: Any, numbered: Changelog) -> Changelog:
    """Return the nodes from *plan* down to the window, above *numbered*."""
    if class_name(plan) == "Window":
        return numbered
    return carried(session, plan, [_above(session, plan.child(), numbered)])


def _window(plan: Any, number: Any) -> Any:
    """Return the node that computes the attribute *number* below, if that is a row number; else None."""
    match class_name(plan):
        case "SubqueryAlias":
            return _window(plan.child(), number)
        case "Project":
            found = definition(plan.projectList(), number)
            if class_name(found) == "Alias":
                found = found.child()
            return _window(plan.child(), found) if class_name(found) == "AttributeReference" else None
        case "Window":
            expressions = list(scala_items(plan.windowExpressions()))
            found = definition(plan.windowExpressions(), number)
            is_number = found is not None and class_name(found.child().windowFunction()) == "RowNumber"
            return plan if is_number and len(expressions) == 1 else None
        case _:
            return None


def _bounded(condition: Any) -> tuple[Any, int] | None:
    """Return the attribute, and the number up to which *condition* lets it be, if that is what it says."""
    kind = class_name(condition)
    if kind not in {*_LESS, *_MIRRORED}:
        return None
    number, bound = condition.left(), condition.right()
    if class_name(number) == "Literal":
        kind, number, bound = _MIRRORED.get(kind, ""), bound, number
    number = number.child() if class_name(number) == "Cast" else number
    value = bound.value() if class_name(bound) == "Literal" else None
    if kind not in _LESS or class_name(number) != "AttributeReference" or not isinstance(value, int):
        return None
    most = value - 1 if kind == "LessThan" else value
    return (number, most) if most == 1 or (most > 1 and kind != "EqualTo") else None


def _conjuncts(condition: Any) -> Iterator[Any]:
    if class_name(condition) == "And":
        yield from _conjuncts(condition.left())
        yield from _conjuncts(condition.right())
    else:
        yield condition


def _all(session: SparkSession, conditions: tuple[Any, ...]) -> Any:
    both: Callable[[Any, Any], Any] = static_member(session, f"{_CATALYST}.expressions.And")
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = both(whole, condition)
    return whole
