"""Inline plans: queries over the rows of a change, planned once and executed in the calling thread.

A Spark job takes 100 to 300 ms, even for a single row. A query over local rows is therefore planned at the
first change of a table, and the cached plan is executed for each later change without a job. The Java class
`freshtable.inline.InlinePlan` explains why the results are the same.

A job can always be used instead, because an inline plan only computes rows and writes nothing. If a query
needs a job, this is detected when it is planned, before any row is read, and the refusal is cached like a
plan. A run that exceeds `MOST_LOCAL` rows or `MOST_BYTES` is aborted, and jobs compute the query for later
runs with more than half as many input rows. If there is not enough memory for a run, or the plan is already
running, only this run uses a job.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Protocol
from weakref import ReferenceType, ref

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mt_core.incremental.local_limits import MOST_LOCAL
from mt_core.spark.driver.failures import Thrown, thrown_by
from mt_core.spark.driver.jvm_objects import own_class, static_member
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint
from mt_core.spark.iceberg.jvm_rows import columns_of, java_type
from mt_core.spark.iceberg.temporary_views import temporary_view

PACKAGE = "freshtable.inline"
MOST_BYTES = 64 * 1024 * 1024
"""The maximum size, in bytes, of the result of a run."""
MOST_KEPT = 256 * 1024 * 1024
"""The maximum size of the plan cache, in bytes. A plan with few columns takes 100 KB, with 100 it takes 2
MB.
"""
log = logging.getLogger(__name__)
_REFUSED, _TOO_MUCH, _NOT_NOW = (f"{PACKAGE}.InlinePlan${name}" for name in ("Refused", "TooMuch", "NotNow"))
_REFUSAL_SIZE = 10_000

Make = Callable[[Mapping[str, str]], DataFrame]
"""Returns a query, given the SQL names of the relations that it reads."""
Text = Callable[[Mapping[str, str]], str]
"""Returns the text of a query, given the SQL names of the relations that it reads."""
_Key = tuple[ReferenceType[Any] | None, str, str, tuple[tuple[str, str], ...]]
"""The key of a cached plan: its owner, session and purpose, and the columns of its input relations."""


class Given(Protocol):
    """An input relation of a run; `java` is a Java Iterable of its rows, or None if they are not local."""

    @property
    def schema(self) -> StructType: ...
    @property
    def java(self) -> Any | None: ...
    def count(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InlinePlan:
    """A plan in the JVM, with its approximate size in bytes, its leaves by name, and its result columns.

    `most_rows` is the number of input rows above which a job computes the query, because a run with twice as
    many exceeded the limits. It is None if no run did.
    """

    plan: Any
    size: int
    leaves: Mapping[str, Any]
    columns: StructType
    most_rows: int | None = None

    def run(self, session: SparkSession, inputs: Mapping[str, Given]) -> ComputedRows:
        """Execute the plan over *inputs*, with up to `MOST_LOCAL` rows or `MOST_BYTES` bytes."""
        rows = static_member(session, "java.util.HashMap")()
        for name, leaf in self.leaves.items():
            rows.put(leaf, inputs[name].java)
        result = self.plan.run(rows, MOST_LOCAL, MOST_BYTES)
        return ComputedRows.of_java(session, self.columns, result)


class InlinePlans:
    """An LRU cache of plans of up to `MOST_KEPT` bytes, with None for queries that need a job. Thread-safe.

    An entry is deleted when its owner is garbage-collected. For the query of a materialized table, the
    owner is the analysed query, which is replaced when its columns, a view or a function changes.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._plans: OrderedDict[_Key, InlinePlan | None] = OrderedDict()

    def run(
        self,
        session: SparkSession,
        owner: object | None,
        purpose: str,
        make: Make,
        inputs: Mapping[str, Given],
    ) -> ComputedRows | None:
        """Return the result of a query over the relations *inputs*, or None if a job must compute it.

        The query that *make* returns must depend only on *purpose* and on *owner*, if there is one.
        """
        if any(rows.java is None for rows in inputs.values()):
            return None
        columns = tuple((name, rows.schema.json()) for name, rows in inputs.items())
        # The key has the session's UUID, because each batch of a stream wraps the same Java session in a new
        # object.
        key = (
            None if owner is None else ref(owner),
            str(session._jsparkSession.sessionUUID()),
            purpose,
            columns,
        )
        is_cached, plan = self._get(key)
        if not is_cached:
            plan = self._put(
                key, plan_inline(session, {name: rows.schema for name, rows in inputs.items()}, make)
            )
        if plan is None or (plan.most_rows is not None and _count(inputs) > plan.most_rows):
            return None
        start = time.monotonic()
        try:
            result = plan.run(session, inputs)
        except Py4JJavaError as error:
            stopped = _thrown(error, _TOO_MUCH, _NOT_NOW)
            log.info(
                "a job computes a small change: %s", stopped.message, extra={"action": "inline_plan_stopped"}
            )
            if stopped.java_class == _TOO_MUCH:
                self._put(key, replace(plan, most_rows=_count(inputs) // 2))
            return None
        rows, seconds = result.count(), round(time.monotonic() - start, 3)
        log.info(
            "computed %d rows inline", rows, extra={"action": "inline_plan", "rows": rows, "seconds": seconds}
        )
        return result

    def computed(
        self,
        session: SparkSession,
        owner: object | None,
        purpose: str,
        make: Make,
        inputs: Mapping[str, ComputedRows],
    ) -> ComputedRows:
        """Return the result of `run`, or compute it by a job."""
        few = self.run(session, owner, purpose, make, inputs)
        if few is not None:
            return few
        with ExitStack() as stack:
            views = {name: stack.enter_context(temporary_view(rows.frame)) for name, rows in inputs.items()}
            return collect_or_checkpoint(make(views))

    def sql(
        self, session: SparkSession, owner: object | None, text: Text, inputs: Mapping[str, Given]
    ) -> ComputedRows | None:
        """Return the result of the query whose SQL *text* returns, or None if a job must compute it.

        *text* gets the name of a relation for each name in *inputs*. The query must depend only on its SQL
        and *owner*.
        """
        purpose = text({name: name for name in inputs})
        return self.run(session, owner, purpose, lambda names: session.sql(text(names)), inputs)

    def _get(self, key: _Key) -> tuple[bool, InlinePlan | None]:
        with self._lock:
            if key not in self._plans:
                return False, None
            self._plans.move_to_end(key)
            return True, self._plans[key]

    def _put(self, key: _Key, plan: InlinePlan | None) -> InlinePlan | None:
        with self._lock:
            for gone in [each for each in self._plans if each[0] is not None and each[0]() is None]:
                del self._plans[gone]
            self._plans[key] = plan
            self._plans.move_to_end(key)
            size = sum(map(_size, self._plans.values()))
            while size > MOST_KEPT and len(self._plans) > 1:
                size -= _size(self._plans.popitem(last=False)[1])
        return plan


def _thrown(error: Py4JJavaError, *classes: str) -> Thrown:
    """Return the Java exception of *error* if it is one of *classes*; raise *error* if it is not."""
    thrown = thrown_by(error)
    if thrown and thrown[0].java_class in classes:
        return thrown[0]
    raise error


def _count(inputs: Mapping[str, Given]) -> int:
    return sum(rows.count() for rows in inputs.values())


def _size(plan: InlinePlan | None) -> int:
    return _REFUSAL_SIZE if plan is None else plan.size


PLANS = InlinePlans()
"""The plan cache of this process."""


def plan_inline(session: SparkSession, relations: Mapping[str, StructType], make: Make) -> InlinePlan | None:
    """Return the plan of a query over *relations*, given by their columns; None if it needs a job."""
    leaf = own_class(session, f"{PACKAGE}.InlineLeaf")
    leaf_relations = {
        name: leaf.relation(session._jsparkSession, java_type(session, each))
        for name, each in relations.items()
    }
    with ExitStack() as stack:
        views = {
            name: stack.enter_context(temporary_view(DataFrame(each, session)))
            for name, each in leaf_relations.items()
        }
        query = make(views)
        try:
            plan = own_class(session, f"{PACKAGE}.InlinePlan").of(query._jdf)
        except Py4JJavaError as error:
            refused = _thrown(error, _REFUSED)
            log.info(
                "jobs compute small changes: %s", refused.message, extra={"action": "inline_plan_refused"}
            )
            return None
    leaves = {name: leaf.of(each) for name, each in leaf_relations.items()}
    return InlinePlan(plan=plan, size=int(plan.size()), leaves=leaves, columns=columns_of(plan.columns()))
