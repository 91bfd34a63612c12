"""Inline plans: queries over the rows of a change that run in the calling thread, each planned once.

A Spark job costs 100 to 300 ms whatever it reads. A query over rows in the JVM is planned for the first
change of a table, and the plan runs for each later change without a job (`freshtable.inline.InlinePlan` says
why the results are the same). Some queries cannot run without a job. That is known when the query is planned,
before any row is read, and is remembered as a plan is. A run stops if it gives more rows than this process
holds; nothing has been written by then, a job computes the same rows, and later changes go to a job at once.
If it gets no memory or no turn, a job computes them this time.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol
from weakref import ReferenceType, ref

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mt_core.spark.driver.failures import Thrown, thrown_by
from mt_core.spark.driver.jvm_objects import own_class, static_member
from mt_core.spark.iceberg.computed_rows import MOST_LOCAL, Computed
from mt_core.spark.iceberg.jvm_rows import columns_of, java_type
from mt_core.spark.iceberg.temporary_views import temporary_view

PACKAGE = "freshtable.inline"
MOST_BYTES = 64 * 1024 * 1024
"""Bytes of the rows that a run gives."""
MOST_KEPT = 256 * 1024 * 1024
"""Bytes of all plans that are kept: one of a few columns takes some 100 KB, one of a hundred columns 2 MB."""
log = logging.getLogger(__name__)
_REFUSED, _TOO_MUCH, _NOT_NOW = (f"{PACKAGE}.InlinePlan${name}" for name in ("Refused", "TooMuch", "NotNow"))
_REFUSAL_SIZE = 10_000

Make = Callable[[Mapping[str, str]], DataFrame]
"""Makes a query from the names, in SQL, of the relations that it reads."""
Text = Callable[[Mapping[str, str]], str]
"""Gives the text of a query from the names, in SQL, of the relations that it reads."""
_Key = tuple[ReferenceType[Any] | None, str, str, tuple[tuple[str, str], ...]]
"""What a plan is kept for, the session that planned it, its purpose, and the columns of the relations
that it reads.
"""


class Given(Protocol):
    """Rows of a relation that a run reads: their columns, and what gives them in the JVM, an Iterable;
    None if they are many.
    """

    @property
    def schema(self) -> StructType: ...
    @property
    def java(self) -> Any | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InlinePlan:
    """A plan of the JVM, about how many bytes it takes there, its leaves by their names,
    and the columns that it gives.
    """

    plan: Any
    size: int
    leaves: Mapping[str, Any]
    columns: StructType

    def run(self, session: SparkSession, given: Mapping[str, Given]) -> Computed:
        """Return what the plan gives over rows of its leaves."""
        rows = static_member(session, "java.util.HashMap")()
        for name, leaf in self.leaves.items():
            rows.put(leaf, given[name].java)
        result = self.plan.run(rows, MOST_LOCAL, MOST_BYTES)
        return Computed.of_java(session, self.columns, result)


class InlinePlans:
    """The plans of queries, None for one that takes a job: the most recently used ones,
    of at most `MOST_KEPT`. Thread-safe.

    A plan lasts no longer than its owner: that of the query of a materialized table no longer than what
    was read of the query, until columns, a view or a function of it change.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[_Key, InlinePlan | None] = OrderedDict()

    def run(
        self,
        session: SparkSession,
        owner: object | None,
        purpose: str,
        make: Make,
        given: Mapping[str, Given],
    ) -> Computed | None:
        """Return what a query gives over rows of the relations *given*; None if a job is to compute it.

        What *make* makes depends on *purpose* alone, and on *owner* if there is one.
        """
        if any(rows.java is None for rows in given.values()):
            return None
        columns = tuple((name, rows.schema.json()) for name, rows in given.items())
        # Each batch of a stream has another wrapper of the same session.
        key = (
            None if owner is None else ref(owner),
            str(session._jsparkSession.sessionUUID()),
            purpose,
            columns,
        )
        known, plan = self._last(key)
        if not known:
            plan = self._keep(
                key, planned(session, {name: rows.schema for name, rows in given.items()}, make)
            )
        if plan is None:
            return None
        start = time.monotonic()
        try:
            found = plan.run(session, given)
        except Py4JJavaError as error:
            stopped = _thrown(error, _TOO_MUCH, _NOT_NOW)
            log.info(
                "a job computes a small change: %s", stopped.message, extra={"action": "inline_plan_stopped"}
            )
            if stopped.java_class == _TOO_MUCH:
                self._keep(key, None)
            return None
        rows, seconds = found.count(), round(time.monotonic() - start, 3)
        log.info(
            "computed %d rows inline", rows, extra={"action": "inline_plan", "rows": rows, "seconds": seconds}
        )
        return found

    def sql(
        self, session: SparkSession, owner: object | None, text: Text, given: Mapping[str, Given]
    ) -> Computed | None:
        """Return what `run` does of the query that *text* gives."""
        purpose = text({name: name for name in given})
        return self.run(session, owner, purpose, lambda names: session.sql(text(names)), given)

    def _last(self, key: _Key) -> tuple[bool, InlinePlan | None]:
        with self._lock:
            if key not in self._kept:
                return False, None
            self._kept.move_to_end(key)
            return True, self._kept[key]

    def _keep(self, key: _Key, plan: InlinePlan | None) -> InlinePlan | None:
        with self._lock:
            for gone in [each for each in self._kept if each[0] is not None and each[0]() is None]:
                del self._kept[gone]
            self._kept[key] = plan
            self._kept.move_to_end(key)
            size = sum(map(_size, self._kept.values()))
            while size > MOST_KEPT and len(self._kept) > 1:
                size -= _size(self._kept.popitem(last=False)[1])
        return plan


def _thrown(error: Py4JJavaError, *classes: str) -> Thrown:
    """Return the exception of one of our *classes* that *error* is; raise *error* if it is another one."""
    thrown = thrown_by(error)
    if thrown and thrown[0].java_class in classes:
        return thrown[0]
    raise error


def _size(plan: InlinePlan | None) -> int:
    return _REFUSAL_SIZE if plan is None else plan.size


PLANS = InlinePlans()
"""The plans of this process."""


def planned(session: SparkSession, relations: Mapping[str, StructType], make: Make) -> InlinePlan | None:
    """Return the plan of a query over *relations* with these columns; None if it takes a job."""
    leaf = own_class(session, f"{PACKAGE}.InlineLeaf")
    made = {
        name: leaf.relation(session._jsparkSession, java_type(session, each))
        for name, each in relations.items()
    }
    with ExitStack() as stack:
        views = {
            name: stack.enter_context(temporary_view(DataFrame(each, session))) for name, each in made.items()
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
    leaves = {name: leaf.of(each) for name, each in made.items()}
    return InlinePlan(plan=plan, size=int(plan.size()), leaves=leaves, columns=columns_of(plan.columns()))
