"""Upsert sources: rows that set or delete the row of a key, converted to a changelog of complete rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from mt_core.plans.operators import ALL, OperatorState, RowKind
from mt_core.plans.policies import TtlPolicy
from mt_core.spark.connectors.changelog import Changelog
from mt_core.spark.connectors.kafka.source import UPSERT_KEYS
from mt_core.spark.driver.jvm_objects import scala_items
from mt_core.spark.streams.operators.java_operators import java_operator
from mt_core.spark.streams.operators.java_states import java_state
from mt_core.spark.streams.operators.operator_nodes import operator_of
from mt_core.spark.streams.operators.rankings import (
    check_keys,
    column_set,
    java_keys,
)
from mt_core.spark.streams.operators.stateless import carried
from mt_core.spark.streams.operators.walk import Walk

_NEED = "A source of upserts"
_UPSERTS = frozenset({RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE})


def upserted(walk: Walk, plan: Any) -> Changelog | None:
    """Return the changelog of the projection *plan* if it marks its rows as upserts, or None."""
    last = plan.output().lastOption()
    if not last.isDefined() or not last.get().metadata().contains(UPSERT_KEYS):
        return None
    [rows] = [carried(walk.session, plan, [walk.changelog(each)]) for each in scala_items(plan.children())]
    names = {str(each.name()): place for place, each in enumerate(scala_items(rows.plan.output()))}
    key = [names[str(each)] for each in last.get().metadata().getStringArray(UPSERT_KEYS)]
    upserts = replace(rows, operator=replace(rows.operator, changes=_UPSERTS))
    return normalized(walk.session, upserts, key, walk.ttls.of())


def normalized(session: SparkSession, upserts: Changelog, key: Sequence[int], policy: TtlPolicy) -> Changelog:
    """Return the changelog of complete rows for *upserts*, whose key columns are at the positions *key*.

    The last column of *upserts* is the row kind: +I and +U set the row of a key, and -D deletes it. A -D
    row may have values only in the key columns. Raises Unsupported for a key that cannot be compared by its
    bytes.
    """
    columns = list(scala_items(upserts.plan.output()))
    keys = [columns[place] for place in key]
    check_keys(session, keys, "PRIMARY KEY")
    state = OperatorState.of(0, "changelogNormalizeState", policy)
    operator = java_operator(session, "SingleRows")
    return Changelog(
        plan=operator.normalized(
            upserts.plan, java_keys(session, keys), java_state(session, state, upserts.plan, _NEED)
        ),
        operator=operator_of(
            upserts.plan, "changelog-normalize", [upserts.operator], changes=ALL, states=[state]
        ),
        unique=column_set(keys),
    )
