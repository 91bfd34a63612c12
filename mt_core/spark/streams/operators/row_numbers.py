"""Filters with an upper bound on a row number: `rn <= n` over `ROW_NUMBER() OVER (…) AS rn`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.connectors.changelog import Changelog
from mt_core.spark.driver.jvm_objects import class_name, scala_items, static_member
from mt_core.spark.streams.operators.state_ttls import position_of
from mt_core.spark.streams.operators.stateless import carried, expression_id

MOST = 2**31 - 1
"""The highest row number: the maximum of a Java int."""
_CATALYST = "org.apache.spark.sql.catalyst"
_MIRRORED = {
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "EqualTo": "EqualTo",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
}
_FUNCTIONS = frozenset({"RowNumber", "Rank", "DenseRank"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedRows:
    """A filter that selects the numbers from *first* to *last* of *window*.

    *others* are the other conditions of the filter. `as_filtered` is the attribute of the number below the
    filter.
    """

    filter: Any = field(repr=False)
    window: Any = field(repr=False)
    first: int
    last: int
    as_filtered: Any = field(repr=False)
    others: tuple[Any, ...] = field(repr=False)

    @property
    def number(self) -> Any:
        """The named expression that computes the number."""
        return self.window.windowExpressions().apply(0)

    @property
    def function(self) -> str:
        """The class name of the window function that assigns the number."""
        return class_name(self.number.child().windowFunction())

    @property
    def position(self) -> int | None:
        """The position of the number in the text of the query or view, or None if it is unknown."""
        return position_of(self.number)

    def is_read_by(self, expressions: Iterable[Any]) -> bool:
        """Return whether *expressions* above the filter, or its other conditions, use the number."""
        wanted = expression_id(self.as_filtered)
        references = (each.references().toSeq() for each in (*expressions, *self.others))
        return any(
            wanted == expression_id(attribute) for each in references for attribute in scala_items(each)
        )

    def over(self, session: SparkSession, numbered: Changelog) -> Changelog:
        """Return the changelog of the filter after the window is replaced by *numbered*.

        *numbered* has only the rows within the bounds.
        """
        found = _above(session, self.filter.child(), numbered)
        if not self.others:
            return found
        condition = _all(session, self.others)
        above = static_member(session, f"{_CATALYST}.plans.logical.Filter")(condition, self.filter.child())
        return carried(session, above, [found])


def numbered_rows(plan: Any) -> NumberedRows | None:
    """Return the bounds that the filter *plan* sets for a row number, or None if there is no upper bound."""
    conditions = [(condition, _bounds(condition)) for condition in _conjuncts(plan.condition())]
    for number in (bounds[0] for _, bounds in conditions if bounds is not None):
        mine = [
            (condition, bounds) for condition, bounds in conditions if bounds and bounds[0].equals(number)
        ]
        first = max(1, *(bounds[1] for _, bounds in mine))
        last = min(MOST, *(bounds[2] for _, bounds in mine))
        window = _window(plan.child(), number) if first <= last < MOST else None
        if window is not None:
            used = [condition for condition, _ in mine]
            others = tuple(condition for condition, _ in conditions if condition not in used)
            return NumberedRows(
                filter=plan, window=window, first=first, last=last, as_filtered=number, others=others
            )
    return None


def definition(items: Any, attribute: Any) -> Any:
    """Return the expression among *items* that defines *attribute*, or None if there is none."""
    found = (item for item in scala_items(items) if item.exprId().equals(attribute.exprId()))
    return next(found, None)


def _above(session: SparkSession, plan: Any, numbered: Changelog) -> Changelog:
    """Return the nodes from *plan* down to the window, with *numbered* in place of the window."""
    if class_name(plan) == "Window":
        return numbered
    return carried(session, plan, [_above(session, plan.child(), numbered)])


def _window(plan: Any, number: Any) -> Any:
    """Return the window node in or below *plan* that computes the row number *number*, or None."""
    match class_name(plan):
        case "SubqueryAlias" | "View":
            return _window(plan.child(), number)
        case "Project":
            found = definition(plan.projectList(), number)
            # A view casts each column to the type that it had when the view was created.
            column = (
                None if found is None else _uncast(found.child() if class_name(found) == "Alias" else found)
            )
            return None if column is None else _window(plan.child(), column)
        case "Window":
            expressions = list(scala_items(plan.windowExpressions()))
            found = definition(plan.windowExpressions(), number)
            is_number = found is not None and class_name(found.child().windowFunction()) in _FUNCTIONS
            return plan if is_number and len(expressions) == 1 else None
        case _:
            return None


def _bounds(condition: Any) -> tuple[Any, int, int] | None:
    """Return the attribute that *condition* restricts and its inclusive bounds.

    The result is None unless *condition* compares an attribute, possibly cast, with integer literals.
    """
    kind = class_name(condition)
    if kind == "Between":
        lower, upper = _value(condition.lower()), _value(condition.upper())
        number = _uncast(condition.input())
        return None if number is None or lower is None or upper is None else (number, lower, upper)
    if kind not in _MIRRORED:
        return None
    left, right = condition.left(), condition.right()
    if class_name(left) == "Literal":
        kind, left, right = _MIRRORED[kind], right, left
    number, bound = _uncast(left), _value(right)
    if number is None or bound is None:
        return None
    lower, upper = {
        "LessThan": (1, bound - 1),
        "LessThanOrEqual": (1, bound),
        "EqualTo": (bound, bound),
        "GreaterThan": (bound + 1, MOST),
        "GreaterThanOrEqual": (bound, MOST),
    }[kind]
    return number, lower, upper


def _uncast(expression: Any) -> Any:
    found = expression.child() if class_name(expression) == "Cast" else expression
    return found if class_name(found) == "AttributeReference" else None


def _value(expression: Any) -> int | None:
    value = expression.value() if class_name(expression) == "Literal" else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _conjuncts(condition: Any) -> Iterator[Any]:
    if class_name(condition) == "And":
        yield from _conjuncts(condition.left())
        yield from _conjuncts(condition.right())
    else:
        yield condition


def _all(session: SparkSession, conditions: Sequence[Any]) -> Any:
    both: Callable[[Any, Any], Any] = static_member(session, f"{_CATALYST}.expressions.And")
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = both(whole, condition)
    return whole
