"""Engine sessions for compiled plans, in which names resolve as they did when the plan was compiled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from mt_core.plans.compiled import CompiledPlan
from mt_core.sessions.ports import SessionContext, SessionState, StatementEngine
from mt_core.sessions.properties.plan_properties import PlanProperties
from mt_core.sessions.statements.spark_work import Place, Task
from mt_core.sessions.statements.translation import in_spark
from mt_core.sessions.temporary_objects import TemporaryObject, after, texts, use_statement
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.functions import CreateFunction
from mt_core.sql.parser import ReadStatement


def restored(task: Task, plan: CompiledPlan, state: SessionState) -> tuple[str, ...]:
    """Return the statements that create the temporary objects of *plan*.

    They start and end in the database of the plan.
    """
    own = texts(task.session.temporary, state)
    if own and not _is_home(plan, state):
        own = (
            use_statement(state.catalog, state.namespace),
            *own,
            use_statement(plan.catalog, plan.namespace),
        )
    return PlanProperties(task.properties_in_force()).restored(plan.temporary, own)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPlaces:
    """Provides the engine sessions in which batch plans run."""

    engine: StatementEngine

    @contextmanager
    def of(self, task: Task, plan: CompiledPlan) -> Iterator[Task]:
        """Yield *task* in a session in which names resolve as in *plan*.

        This is its own session, or a new one if names resolve differently there. Raises the errors of the
        statements that create the temporary objects.
        """
        state = self.engine.session_state(task.context())
        temporary = restored(task, plan, state)
        if _is_home(plan, state) and temporary == texts(task.session.temporary, state):
            yield task
            return
        session_id = f"{task.session.handle}/{task.operation.planned_job_id}"
        try:
            with self.engine.keeping(session_id):
                yield self._prepared(task, plan, session_id, temporary)
        finally:
            self.engine.close_session(session_id)

    def _prepared(self, task: Task, plan: CompiledPlan, session_id: str, temporary: Sequence[str]) -> Task:
        """Return *task* in a new engine session.

        The session uses the database of *plan*, the jars of the task's session, and *temporary*.
        """
        there = replace(task, place=Place(session_id=session_id, temporary=()))
        context, job_id = there.context(), task.operation.planned_job_id
        for jar in self.engine.jar_copies(task.context(), task.session.jars):
            self.engine.add_jar(context, jar)
        home = use_statement(plan.catalog, plan.namespace)
        self.engine.execute(context, home, job_id=job_id)
        for text in temporary:
            self._create(context, ReadStatement(text), job_id)
        if temporary:
            # The statements may have changed the current namespace.
            self.engine.execute(context, home, job_id=job_id)
        state, objects = self.engine.session_state(context), tuple[TemporaryObject, ...]()
        for text in temporary:
            objects = after(objects, ReadStatement(text), state)
        return replace(task, place=Place(session_id=session_id, temporary=objects))

    def _create(self, context: SessionContext, read: ReadStatement, job_id: str) -> None:
        match read.fact:
            case CreateConnectorTable(has_statement=False) as table:
                self.engine.create_unbounded(context, table)
            case CreateFunction(function=function):
                self.engine.create_temporary_function(context, function, job_id=job_id)
            case _:
                for text in in_spark(read, self.engine, context):
                    self.engine.execute(context, text, job_id=job_id)


def _is_home(plan: CompiledPlan, state: SessionState) -> bool:
    return (state.catalog, tuple(state.namespace)) == (plan.catalog, tuple(plan.namespace))
