"""Limits: the LIMIT and OFFSET at the top of a query, kept where the first partitions can bring all of its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mt_core.spark.driver.jvm_objects import active_session, java_dataset, static_member

_LOGICAL = frozenset({"GlobalLimit", "LocalLimit", "Offset"})
_PHYSICAL = "CollectLimit"
_ADAPTIVE = "AdaptiveSparkPlan"


@dataclass(slots=True, kw_only=True)
class Window:
    """Which rows are wanted of those that come: *left* rows (None: all) after *skip*; changes as rows come."""

    skip: int = 0
    left: int | None = None

    @property
    def full(self) -> bool:
        """Whether all wanted rows have come."""
        return self.left is not None and self.left <= 0

    def cut(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of the next batch that are wanted."""
        skipped = min(self.skip, batch.num_rows)
        wanted = batch.slice(skipped, self.left)
        self.skip -= skipped
        if self.left is not None:
            self.left -= wanted.num_rows
        return wanted


def below_limit(frame: DataFrame, change: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Return what *change*, which goes row by row, makes of *frame*, with a limit at its top still at the top."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    if plan.nodeName() not in _LOGICAL:
        return change(frame)
    return _frame_of(frame.sparkSession, _changed(frame.sparkSession, plan, change))


def limited_rows(frame: DataFrame) -> tuple[Any, Window]:
    """Return the rows of *frame* as Spark's RDD of Arrow messages, and which of them are wanted.

    Spark's own way to run a limit without collecting reads every partition first. Stages before the last one run here.
    """
    jdf: Any = frame._jdf
    plan = jdf.queryExecution().executedPlan()
    name = plan.nodeName()
    if name == _ADAPTIVE and plan.inputPlan().nodeName() == _PHYSICAL:
        plan = plan.finalPhysicalPlan()
        name = plan.nodeName()
    if name != _PHYSICAL or plan.limit() < 0:
        return jdf.toArrowBatchRdd(), Window()
    local_limit = static_member(frame.sparkSession, "org.apache.spark.sql.execution.LocalLimitExec")
    with active_session(frame.sparkSession):
        firsts = local_limit(plan.limit(), plan.child())
        return jdf.toArrowBatchRdd(firsts), Window(skip=plan.offset(), left=plan.limit() - plan.offset())


def _changed(session: SparkSession, plan: Any, change: Callable[[DataFrame], DataFrame]) -> Any:
    if plan.nodeName() not in _LOGICAL:
        return change(_frame_of(session, plan))._jdf.queryExecution().analyzed()
    jvm: Any = session._jvm
    child = _changed(session, plan.child(), change)
    return plan.withNewChildren(jvm.scala.jdk.javaapi.CollectionConverters.asScala([child]).toSeq())


def _frame_of(session: SparkSession, plan: Any) -> DataFrame:
    return DataFrame(java_dataset(session, plan), session)
