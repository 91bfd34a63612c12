"""First rows: the query of a stream that keeps the first row of each key, with our operator in the place of its ROW_NUMBER.

The statement is Flink's deduplication: `rn = 1` over `ROW_NUMBER() OVER (PARTITION BY … ORDER BY <processing time>) AS rn`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import Unsupported
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jvm_objects import java_class, scala_items, scala_sequence, static_member
from mt_core.spark.streams.operators.state_ttls import StateTtls

_CATALYST = "org.apache.spark.sql.catalyst"
_EXPRESSIONS, _LOGICAL = f"{_CATALYST}.expressions", f"{_CATALYST}.plans.logical"
_OPERATOR = "freshtable.operators.FirstRows"
_NOW = frozenset({"CurrentTimestamp", "Now", "LocalTimestamp"})
_LESS = frozenset({"LessThan", "LessThanOrEqual", "EqualTo"})
_MIRRORED = {"GreaterThan": "LessThan", "GreaterThanOrEqual": "LessThanOrEqual", "EqualTo": "EqualTo"}
_MILLISECOND = timedelta(milliseconds=1)
_WAY_OUT = (
    "Keep the rows in a table, and the result as a materialized table over it, or run the statement in batch mode: "
    "SET 'execution.runtime-mode' = 'batch'."
)
_ORDER = "order by the time at which rows are read, a column AS PROCTIME() or current_timestamp()"


def with_first_rows(session: SparkSession, analysed: Any, ttls: StateTtls) -> Any:
    """Return the plan of a stream with our operator in the place of each ROW_NUMBER that is filtered by = 1.

    It is *analysed* itself if there is none. Raises Unsupported for one whose rows would change once they are given.
    """
    if not analysed.isStreaming() or not _contains(session, analysed, "WINDOW"):
        return analysed
    inlined = static_member(session, f"{_CATALYST}.optimizer.InlineCTE")(True, False)
    plan = inlined.apply(analysed) if _contains(session, analysed, "CTE") else analysed
    rewritten = _Rewriting(session, ttls).plan(plan)
    return analysed if rewritten is plan else rewritten


class _Rewriting:
    def __init__(self, session: SparkSession, ttls: StateTtls) -> None:
        self._session, self._ttls = session, ttls

    def plan(self, plan: Any) -> Any:
        """Return *plan* with operators in all its parts, the ones below first."""
        if not plan.isStreaming() or not _contains(self._session, plan, "WINDOW"):
            return plan
        children = list(scala_items(plan.children()))
        rewritten = [self.plan(child) for child in children]
        if any(new is not old for new, old in zip(rewritten, children, strict=True)):
            plan = plan.withNewChildren(scala_sequence(self._session, rewritten))
        return self._filter(plan) if _kind(plan) == "Filter" else plan

    def _filter(self, plan: Any) -> Any:
        """Return a filter without its condition on a row number, above the first rows; any other one as it is."""
        conditions = list(_conjuncts(plan.condition()))
        for condition in conditions:
            numbered = _bounded(condition)
            window = None if numbered is None else self._window(plan.child(), numbered[0])
            if numbered is None or window is None:
                continue
            self._check(window, numbered[1])
            child = self._replaced(plan.child(), window)
            others = [each for each in conditions if each is not condition]
            return self._static(f"{_LOGICAL}.Filter")(self._all(others), child) if others else child
        return plan

    def _window(self, plan: Any, number: Any) -> Any:
        """Return the node that computes the attribute *number* below, if that is a row number; else None."""
        match _kind(plan):
            case "SubqueryAlias":
                return self._window(plan.child(), number)
            case "Project":
                found = _definition(plan.projectList(), number)
                if _kind(found) == "Alias":
                    found = found.child()
                return self._window(plan.child(), found) if _kind(found) == "AttributeReference" else None
            case "Window":
                expressions = list(scala_items(plan.windowExpressions()))
                found = _definition(plan.windowExpressions(), number)
                is_number = found is not None and _kind(found.child().windowFunction()) == "RowNumber"
                return plan if is_number and len(expressions) == 1 else None
            case _:
                return None

    def _check(self, window: Any, bound: int) -> None:
        """Raise Unsupported for what takes rows back that it has given."""
        name = str(window.windowExpressions().apply(0).name())
        if bound != 1:
            raise Unsupported(
                f"{name} <= {bound}: of each key a stream keeps the first row alone; write {name} = 1. {_WAY_OUT}"
            )
        if window.partitionSpec().isEmpty():
            raise Unsupported(
                f"{name} = 1: a stream keeps the first row of each key; name its columns in PARTITION BY."
            )
        is_stable = self._static(f"{_CATALYST}.util.UnsafeRowUtils.isBinaryStable")
        if not all(is_stable(key.dataType()) for key in scala_items(window.partitionSpec())):
            raise Unsupported(
                f"{name} = 1: a stream cannot keep keys of which several texts are equal; give each column with a COLLATION in "
                "PARTITION BY one form, such as lower(c) COLLATE UTF8_BINARY."
            )
        orders = list(scala_items(window.orderSpec()))
        if any(str(order.direction().sql()) == "DESC" for order in orders):
            raise Unsupported(
                f"{name} = 1 with ORDER BY … DESC: each row of a key would replace the one before, and a stream only adds rows; "
                f"write ASC for the first row. {_WAY_OUT}"
            )
        if not all(self._is_now(order.child(), window.child()) for order in orders):
            raise Unsupported(
                f"{name} = 1: in that ORDER BY a row that comes later may be the first one, and would replace one that the stream "
                f"has given; {_ORDER}. {_WAY_OUT}"
            )

    def _is_now(self, expression: Any, plan: Any) -> bool:
        """Return whether *expression*, over the rows of *plan*, is the time at which a row is read."""
        kind = _kind(expression)
        if kind in _NOW:
            return True
        if kind in {"Alias", "Cast"}:
            return self._is_now(expression.child(), plan)
        if kind != "AttributeReference":
            return False
        match _kind(plan):
            case "Project":
                found = _definition(plan.projectList(), expression)
                return found is not None and self._is_now(found, plan.child())
            case "SubqueryAlias" | "Filter" | "View" | "EventTimeWatermark":
                return self._is_now(expression, plan.child())
            case _:
                return False

    def _replaced(self, plan: Any, window: Any) -> Any:
        """Return *plan* with the first rows, numbered 1, in the place of *window*."""
        if _kind(plan) != "Window":
            return plan.withNewChildren(scala_sequence(self._session, [self._replaced(plan.child(), window)]))
        number = window.windowExpressions().apply(0)
        origin = number.origin().startIndex()
        ttl = self._ttls.of(int(origin.get()) if origin.isDefined() else None)
        keys = self._static("scala.jdk.javaapi.CollectionConverters.asJava")(window.partitionSpec())
        first = _operator(self._session).of(window.child(), keys, ttl // _MILLISECOND)
        one = self._static(f"{_EXPRESSIONS}.Literal.create")(1, number.dataType())
        numbered = number.withNewChildren(scala_sequence(self._session, [one]))
        columns = scala_sequence(self._session, [*scala_items(window.child().output()), numbered])
        return self._static(f"{_LOGICAL}.Project")(columns, first)

    def _all(self, conditions: list[Any]) -> Any:
        whole = conditions[0]
        for condition in conditions[1:]:
            whole = self._static(f"{_EXPRESSIONS}.And")(whole, condition)
        return whole

    def _static(self, path: str) -> Any:
        return static_member(self._session, path)


def _operator(session: SparkSession) -> Any:
    """Return our operator; raises Unsupported if Spark was started without it."""
    try:
        java_class(session, _OPERATOR)
    except SPARK_ERRORS as cause:
        raise Unsupported(
            "The first row of each key needs the operators of freshtable, which this installation has not compiled: install the "
            "wheel, or a JDK for a checkout, and start the gateway again."
        ) from cause
    return static_member(session, _OPERATOR)


def _contains(session: SparkSession, plan: Any, pattern: str) -> bool:
    return bool(plan.containsPattern(static_member(session, f"{_CATALYST}.trees.TreePattern.{pattern}")()))


def _conjuncts(condition: Any) -> Iterator[Any]:
    if _kind(condition) == "And":
        yield from _conjuncts(condition.left())
        yield from _conjuncts(condition.right())
    else:
        yield condition


def _bounded(condition: Any) -> tuple[Any, int] | None:
    """Return the attribute, and the number up to which *condition* lets it be, if that is what it says."""
    kind = _kind(condition)
    if kind not in {*_LESS, *_MIRRORED}:
        return None
    number, bound = condition.left(), condition.right()
    if _kind(number) == "Literal":
        kind, number, bound = _MIRRORED.get(kind, ""), bound, number
    number = number.child() if _kind(number) == "Cast" else number
    value = bound.value() if _kind(bound) == "Literal" else None
    if kind not in _LESS or _kind(number) != "AttributeReference" or not isinstance(value, int):
        return None
    most = value - 1 if kind == "LessThan" else value
    return (number, most) if most == 1 or (most > 1 and kind != "EqualTo") else None


def _definition(items: Any, attribute: Any) -> Any:
    """Return the one of the named expressions *items* that gives *attribute*; None without one."""
    found = (item for item in scala_items(items) if item.exprId().equals(attribute.exprId()))
    return next(found, None)


def _kind(node: Any) -> str:
    return "" if node is None else str(node.getClass().getSimpleName())
