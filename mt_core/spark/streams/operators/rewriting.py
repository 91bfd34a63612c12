"""Rewrites the analysed plan of a stream: inserts our operators and derives the row kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.connectors.changelog import Changelog
from mt_core.spark.driver.jvm_objects import class_name, scala_items, static_member
from mt_core.spark.streams.operators.aggregates import aggregated, distinct
from mt_core.spark.streams.operators.joins import joined, with_conditions
from mt_core.spark.streams.operators.limits import limited, sorted_without_limit
from mt_core.spark.streams.operators.operator_nodes import scan_of
from mt_core.spark.streams.operators.ranks import ranked, ranked_without_number
from mt_core.spark.streams.operators.state_ttls import StateTtls
from mt_core.spark.streams.operators.stateless import carried
from mt_core.spark.streams.operators.upsert_sources import upserted
from mt_core.spark.streams.operators.walk import Walk

_CATALYST = "org.apache.spark.sql.catalyst"


def with_operators(session: SparkSession, analysed: Any, ttls: StateTtls) -> Changelog:
    """Return the changelog of the stream *analysed*.

    If the changelog does not need any of our operators, its plan is *analysed* itself. Raises Unsupported
    for a statement that no operator supports.
    """
    has_common = bool(
        analysed.containsPattern(static_member(session, f"{_CATALYST}.trees.TreePattern.CTE")())
    )
    plan = (
        static_member(session, f"{_CATALYST}.optimizer.InlineCTE")(True, False).apply(analysed)
        if has_common
        else analysed
    )
    walk = Walk(session, ttls, lambda below: _changelog(walk, below))
    changelog = walk.changelog(with_conditions(session, plan))
    if any(operator.states for operator in changelog.operator.all()):
        return changelog
    return Changelog(plan=analysed, operator=changelog.operator, unique=changelog.unique)


def _changelog(walk: Walk, plan: Any) -> Changelog:
    if not plan.isStreaming() or not (children := list(scala_items(plan.children()))):
        return Changelog(plan=plan, operator=scan_of(plan))
    operator = _OPERATORS.get(class_name(plan))
    changelog = None if operator is None else operator(walk, plan)
    return changelog or carried(walk.session, plan, [walk.changelog(child) for child in children])


def _projected(walk: Walk, plan: Any) -> Changelog | None:
    return upserted(walk, plan) or ranked_without_number(walk, plan)


_OPERATORS: Mapping[str, Callable[[Walk, Any], Changelog | None]] = {
    "Aggregate": aggregated,
    "Distinct": distinct,
    "Filter": ranked,
    "GlobalLimit": limited,
    "Join": joined,
    "Offset": limited,
    "Project": _projected,
    "Sort": sorted_without_limit,
}
"""For each node class, the function that replaces a node with one of our operators or returns None."""
