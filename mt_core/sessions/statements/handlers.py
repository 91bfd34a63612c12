"""Statement handlers: one for each class of parsed statements, and one for completed statement sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mt_core.sessions.operations.operation import DONE
from mt_core.sessions.statements.refresh_wait import PendingRefresh
from mt_core.sessions.statements.spark_work import Task
from mt_core.sessions.statements.statement_sets import collect
from mt_core.sql.hints import check_hints
from mt_core.sql.parser import ReadStatement

Handler = Callable[[Task, Any], PendingRefresh | None]
"""Performs a task's parsed statement. It finishes the operation or returns the run to wait for."""
Handlers = Mapping[type, Handler]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementHandlers:
    """Looks up the handler of a statement by its class.

    The class is NoneType for a statement that only Spark parses.
    """

    of_fact: Handlers
    run_set: Callable[[Task, Sequence[ReadStatement]], None]

    def perform(self, task: Task) -> PendingRefresh | None:
        """Perform the statement of *task*, or add it to the open statement set.

        Return the refresh run that the operation must wait for, if any.
        """
        read = task.operation.statement
        check_hints(read.type, read.text, read.hints)
        members = collect(task.session, read)
        if members is None:
            return self.of_fact[type(read.fact)](task, read.fact)
        if members:
            self.run_set(task, members)
        else:
            task.operation.finish(DONE)
        return None


def one_table(*tables: Mapping[type, _T]) -> Mapping[type, _T]:
    """Merge handler tables. Raises ValueError if two tables have a handler for the same class."""
    merged: dict[type, _T] = {}
    for table in tables:
        if twice := merged.keys() & table.keys():
            raise ValueError(f"more than one handler: {', '.join(sorted(each.__name__ for each in twice))}")
        merged.update(table)
    return merged
