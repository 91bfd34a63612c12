"""LIMIT and OFFSET at the top of a query, which the reader applies so that not all partitions must run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from mt_core.spark.driver.jvm_objects import active_session, java_dataset, scala_sequence, static_member

_LOGICAL = frozenset({"GlobalLimit", "LocalLimit", "Offset"})
_PHYSICAL = "CollectLimit"
_ADAPTIVE = "AdaptiveSparkPlan"


@dataclass(slots=True, kw_only=True)
class Window:
    """The part of a query's rows that belongs to its result: *left* rows after the first *skip* rows.

    *left* is None if there is no limit. The window advances as rows are received.
    """

    skip: int = 0
    left: int | None = None

    @property
    def full(self) -> bool:
        """True if all rows of the result have been received."""
        return self.left is not None and self.left <= 0

    def cut(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of the next batch that belong to the result."""
        skipped = min(self.skip, batch.num_rows)
        rows = batch.slice(skipped, self.left)
        self.skip -= skipped
        if self.left is not None:
            self.left -= rows.num_rows
        return rows


def below_limit(frame: DataFrame, change: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Return *frame* with the row-wise *change* applied below its top-level limit."""
    session = frame.sparkSession
    plan: Any = frame._jdf.queryExecution().analyzed()
    limits = []
    while plan.nodeName() in _LOGICAL:
        limits.append(plan)
        plan = plan.child()
    if not limits:
        return change(frame)
    changed: Any = change(DataFrame(java_dataset(session, plan), session))._jdf.queryExecution().analyzed()
    for limit in reversed(limits):
        changed = limit.withNewChildren(scala_sequence(session, [changed]))
    return DataFrame(java_dataset(session, changed), session)


def limited_rows(frame: DataFrame) -> tuple[Any, Any, Window]:
    """Return an RDD of Arrow messages with the rows of *frame*, its physical plan, and the window.

    Except in collect(), Spark reads all partitions before it applies a limit. The returned RDD does not.
    With adaptive execution, all stages before the last one run in this call.
    """
    jdf: Any = frame._jdf
    plan = jdf.queryExecution().executedPlan()
    name = plan.nodeName()
    if name == _ADAPTIVE and plan.inputPlan().nodeName() == _PHYSICAL:
        plan = plan.finalPhysicalPlan()
        name = plan.nodeName()
    if name != _PHYSICAL or plan.limit() < 0:
        return jdf.toArrowBatchRdd(), plan, Window()
    local_limit = static_member(frame.sparkSession, "org.apache.spark.sql.execution.LocalLimitExec")
    with active_session(frame.sparkSession):
        firsts = local_limit(plan.limit(), plan.child())
        window = Window(skip=plan.offset(), left=plan.limit() - plan.offset())
        return jdf.toArrowBatchRdd(firsts), firsts, window
