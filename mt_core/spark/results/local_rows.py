"""Local rows: those that a statement has once it is planned, such as SELECT 1, VALUES and what commands show."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame

# More would take longer through a call than through a job.
MOST = 1000
COMMAND_RESULT = "CommandResult"
_LOCAL = frozenset({COMMAND_RESULT, "LocalTableScan"})
_CONVERTERS = "org.apache.spark.sql.execution.arrow.ArrowConverters$"
_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
_TO_LOCAL = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation$"
# The plan of one row without columns, of each JVM.
_one_rows: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def local_batches(frame: DataFrame, schema: pa.Schema) -> Generator[pa.RecordBatch | None] | None:
    """Return the rows of *frame*, which need no Spark job; None for a query that does."""
    rows = _rows(frame)
    count = MOST + 1 if rows is None else rows.size()
    return _batches(frame, rows if count else None, schema) if count <= MOST else None


def _rows(frame: DataFrame) -> Any:
    """Return Spark's own rows, None if a job has to make them."""
    execution: Any = frame._jdf.queryExecution()
    optimized = execution.optimizedPlan()
    name = optimized.nodeName()
    if name == "Project":
        return _row_of_constants(frame, optimized)
    if name != "LocalRelation" and name != COMMAND_RESULT:
        return None
    plan = execution.executedPlan()
    return plan.rows() if plan.nodeName() in _LOCAL else None


def _row_of_constants(frame: DataFrame, project: Any) -> Any:
    """Return the row of a SELECT without FROM, which Spark's optimiser leaves to a job."""
    if project.child().nodeName() != "OneRowRelation" or not project.deterministic():
        return None
    jvm: Any = frame.sparkSession._jvm
    constant = getattr(jvm, f"{_PLANS}.Project")(project.projectList(), _one_row(jvm))
    found = getattr(getattr(jvm, _TO_LOCAL), "MODULE$").apply(constant)
    return found.data() if found.nodeName() == "LocalRelation" else None


def _one_row(jvm: Any) -> Any:
    if jvm not in _one_rows:
        rows = jvm.PythonUtils.toSeq([getattr(jvm, "org.apache.spark.sql.catalyst.InternalRow").empty()])
        nothing = getattr(jvm, "scala.Option").empty()
        relation = getattr(jvm, f"{_PLANS}.LocalRelation")
        _one_rows[jvm] = relation(jvm.PythonUtils.toSeq([]), rows, False, nothing)
    return _one_rows[jvm]


def _batches(frame: DataFrame, rows: Any, schema: pa.Schema) -> Generator[pa.RecordBatch | None]:
    if rows is None:
        return
    jvm: Any = frame.sparkSession._jvm
    converters = getattr(getattr(jvm, _CONVERTERS), "MODULE$")
    # The zone is part of the schema only, of which Spark's messages say nothing.
    found = converters.toBatchIterator(rows.iterator(), frame._jdf.schema(), MOST, "UTC", True, False, None)
    yield pa.ipc.read_record_batch(pa.py_buffer(found.next()), schema)
