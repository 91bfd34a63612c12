"""Rows that exist after planning, without a Spark job: SELECT 1, VALUES, and the results of commands."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mt_core.spark.driver.jvm_objects import static_member

# For more rows, a job is faster than a call.
MOST = 1000
COMMAND_RESULT = "CommandResult"
_CONVERTERS = "org.apache.spark.sql.execution.arrow.ArrowConverters$.MODULE$"
_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
_TO_LOCAL = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation$.MODULE$"
# The plan of one row without columns, for each JVM.
_one_rows: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def command_rows(frame: DataFrame) -> Any:
    """Return Spark's internal rows of an executed command, or None for a query."""
    jdf: Any = frame._jdf
    plan = jdf.logicalPlan()
    return plan.rows() if plan.nodeName() == COMMAND_RESULT else None


def local_batches(frame: DataFrame, schema: pa.Schema) -> Generator[pa.RecordBatch | None] | None:
    """Return the rows of *frame* if they need no Spark job, or None if they do."""
    jdf: Any = frame._jdf
    optimized = jdf.queryExecution().optimizedPlan()
    match optimized.nodeName():
        case "Project":
            rows = _row_of_constants(frame.sparkSession, optimized)
        case "LocalRelation":
            rows = optimized.data()
        case name:
            rows = optimized.rows() if name == COMMAND_RESULT else None
    return None if rows is None else row_batches(frame, rows, schema)


def row_batches(frame: DataFrame, rows: Any, schema: pa.Schema) -> Generator[pa.RecordBatch | None] | None:
    """Return Spark's internal *rows* as batches, or None for more than `MOST` rows, when a job is faster."""
    count = rows.size()
    return _batches(frame, rows if count else None, schema) if count <= MOST else None


def _row_of_constants(session: SparkSession, project: Any) -> Any:
    """Return the row of a SELECT without FROM, or None for other queries.

    Without this, Spark would run a job for it.
    """
    if project.child().nodeName() != "OneRowRelation" or not project.deterministic():
        return None
    jvm: Any = session._jvm
    if jvm not in _one_rows:
        rows = jvm.PythonUtils.toSeq([getattr(jvm, "org.apache.spark.sql.catalyst.InternalRow").empty()])
        nothing = getattr(jvm, "scala.Option").empty()
        relation = getattr(jvm, f"{_PLANS}.LocalRelation")
        _one_rows[jvm] = relation(jvm.PythonUtils.toSeq([]), rows, False, nothing)
    constant = static_member(session, f"{_PLANS}.Project")(project.projectList(), _one_rows[jvm])
    local = static_member(session, _TO_LOCAL).apply(constant)
    return local.data() if local.nodeName() == "LocalRelation" else None


def _batches(frame: DataFrame, rows: Any, schema: pa.Schema) -> Generator[pa.RecordBatch | None]:
    if rows is None:
        return
    converters = static_member(frame.sparkSession, _CONVERTERS)
    # The time zone affects only the schema, which the messages do not contain.
    messages = converters.toBatchIterator(
        rows.iterator(), frame._jdf.schema(), MOST, "UTC", True, False, None
    )
    yield pa.ipc.read_record_batch(pa.py_buffer(messages.next()), schema)
