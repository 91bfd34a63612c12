"""Statements about compiled plans: COMPILE PLAN, EXECUTE PLAN and EXPLAIN PLAN.

A compiled plan fixes the meaning of an INSERT, as in Flink, so that a job can be restarted from its state
after an upgrade. Spark's physical plans cannot be stored and loaded. A plan file therefore contains
everything that determines the plan. This includes the statements, the namespace that resolves their names,
the temporary objects, and a description of the operators with their state (the topology). To execute a plan,
its statements are planned again and the operators compared with the operators in the file. If they differ,
the plan is rejected before anything runs. Users may edit a plan file, to change state TTLs for example, so
its statements are checked too. Only INSERT and CREATE TEMPORARY are allowed, because any other statement
would run unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from mt_core.base.rowset import Column, RowSet
from mt_core.errors import MtError, QueryFailed, Unsupported
from mt_core.model.stream import StreamDefinition, StreamMember
from mt_core.plans.compiled import CompiledPlan, PlanMode, Policies, Topology, fingerprint_of
from mt_core.plans.errors import PlanExists, PlanInvalid
from mt_core.plans.explained import explained_plan, shown_statement
from mt_core.plans.json_form import plan_text, read_plan
from mt_core.plans.policies import policy_text
from mt_core.plans.states import check_topology, policies_of
from mt_core.sessions.operations.operation import DONE, OperationKind, Work, content
from mt_core.sessions.ports import PlanFiles, StatementEngine
from mt_core.sessions.properties.plan_properties import PlanProperties
from mt_core.sessions.properties.stream_properties import STATE_TTL_KEY, state_ttl_of
from mt_core.sessions.statements.handlers import Handlers
from mt_core.sessions.statements.spark_work import SparkWork, Task
from mt_core.sessions.statements.statement_sets import members_of
from mt_core.sessions.statements.translation import in_spark
from mt_core.sessions.streaming.mode import may_stream, stream_members
from mt_core.sessions.streaming.plan_places import PlanPlaces, restored
from mt_core.sessions.streaming.streaming_statements import StreamingStatements
from mt_core.sessions.temporary_objects import first_unexpected, texts
from mt_core.sql.parser import ReadStatement
from mt_core.sql.plans import CompilePlan, ExecutePlan, ExplainPlan
from mt_core.sql.statement_types import INSERT

_RESULT = (Column(name="result"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStatements:
    """Compiles, executes and explains the plans in `files`.

    `detached` submits streaming plans as jobs; `run_batch` runs statements as batch.
    """

    files: PlanFiles
    engine: StatementEngine
    spark: SparkWork
    detached: StreamingStatements
    run_batch: Callable[[Task, Sequence[ReadStatement]], None]

    @property
    def handlers(self) -> Handlers:
        """The handlers of the statements.

        They raise PlanNotFound, PlanExists, PlanInvalid, and the errors of a plan's statements.
        """
        return {CompilePlan: self._compile, ExecutePlan: self._execute, ExplainPlan: self._explain}

    def _await(self, task: Task) -> None:
        task.operation.begin(Work(kind=OperationKind.SPARK, message="waiting for Spark"))
        self.spark.await_engine(task.operation)

    # ------------------------------------------------------------------------------------------------ COMPILE

    def _compile(self, task: Task, statement: CompilePlan) -> None:
        self._await(task)
        self._write(task, statement)
        if statement.execute:
            self._run(task, statement.uri)
        else:
            task.operation.finish(DONE)

    def _write(self, task: Task, statement: CompilePlan) -> None:
        """Write the plan file.

        An existing file is overwritten, left unchanged, or reported by PlanExists.
        """
        uri, session = statement.uri, task.session.handle
        replaces = PlanProperties(task.properties_in_force()).force_recompile
        if self.files.exists(session, uri):
            if statement.if_not_exists or statement.execute:
                return
            if not replaces:
                raise PlanExists.at(uri)
        task.operation.begin(Work(kind=OperationKind.SPARK, message="compiling the plan"))
        inner = ReadStatement(statement.statement_in(task.operation.statement.written))
        members = members_of(inner)
        plan = self._compiled(task, (inner,) if members is None else members)
        try:
            self.files.write(session, uri, plan_text(plan), replace=replaces)
        except PlanExists:
            # Another statement has written the file in the meantime.
            if not (statement.if_not_exists or statement.execute):
                raise

    def _compiled(self, task: Task, statements: Sequence[ReadStatement]) -> CompiledPlan:
        for each in statements:
            if each.type != INSERT:
                raise Unsupported(
                    f"{each.type.replace('_', ' ')} cannot be compiled; COMPILE PLAN takes "
                    "INSERT INTO, and STATEMENT SET BEGIN INSERT …; END."
                )
        if not statements:
            raise Unsupported("The STATEMENT SET is empty; write an INSERT INTO between BEGIN and END.")
        context, properties = task.context(), task.properties_in_force()
        state = self.engine.session_state(context)
        temporary = texts(task.session.temporary, state)
        members = may_stream(properties, statements) and stream_members(self.engine, context, statements)
        if members:
            topology = self.detached.topology(self.detached.definition(task, tuple(members)))
        else:
            topology = self._batch_topology(task, statements)
        nodes = topology.nodes
        return CompiledPlan(
            spark_version=topology.spark_version,
            mode=PlanMode.STREAMING if members else PlanMode.BATCH,
            statements=tuple(each.written.strip() for each in statements),
            catalog=state.catalog,
            namespace=state.namespace,
            temporary=PlanProperties(properties).compiled(temporary),
            nodes=nodes,
            fingerprint=fingerprint_of(nodes),
        )

    # ------------------------------------------------------------------------------------ EXECUTE and EXPLAIN

    def _execute(self, task: Task, statement: ExecutePlan) -> None:
        self._await(task)
        self._run(task, statement.uri)

    def _run(self, task: Task, uri: str) -> None:
        plan = self._read(task, uri)
        statements = [ReadStatement(each) for each in plan.statements]
        if plan.mode is PlanMode.BATCH:
            self._run_batch(task, plan, uri)
            return
        definition = self._definition(task, plan, statements)
        with _planning(uri):
            topology = self.detached.topology(definition)
        self._check(plan, topology, uri)
        default = state_ttl_of(task.properties_in_force().get(STATE_TTL_KEY, "").strip())
        policies = policies_of(plan, topology, default)
        planned = replace(definition, members=tuple(map(_with_policies, definition.members, policies)))
        try:
            answer = self.detached.execute(task, statements, planned)
        except PlanInvalid as error:
            raise error.of(uri) from error
        task.operation.finish(answer)

    def _run_batch(self, task: Task, plan: CompiledPlan, uri: str) -> None:
        statements = [ReadStatement(each) for each in plan.statements]
        with ExitStack() as stack:
            with _planning(uri):
                there = stack.enter_context(self._places.of(task, plan))
                topology = self._batch_topology(there, statements)
            self._check(plan, topology, uri)
            self.run_batch(there, statements)

    def _explain(self, task: Task, statement: ExplainPlan) -> None:
        self._await(task)
        uri = statement.uri
        plan = self._read(task, uri)
        statements = [ReadStatement(each) for each in plan.statements]
        problems: list[str] = []
        try:
            if plan.mode is PlanMode.BATCH:
                with self._places.of(task, plan) as there:
                    topology = self._batch_topology(there, statements)
            else:
                topology = self.detached.topology(self._definition(task, plan, statements))
            self._check(plan, topology, uri)
        except MtError as error:
            problems = [f"The plan cannot be executed: {error}"]
        task.operation.finish(content(RowSet(columns=_RESULT, rows=[[explained_plan(plan, problems)]])))

    def _read(self, task: Task, uri: str) -> CompiledPlan:
        try:
            plan = read_plan(self.files.read(task.session.handle, uri))
            _check_statements(plan)
        except PlanInvalid as error:
            raise error.of(uri) from error
        return plan

    def _check(self, plan: CompiledPlan, topology: Topology, uri: str) -> None:
        try:
            check_topology(plan, topology.nodes)
        except PlanInvalid as error:
            raise error.of(uri) from error

    def _definition(
        self, task: Task, plan: CompiledPlan, statements: Sequence[ReadStatement]
    ) -> StreamDefinition:
        members = tuple(StreamMember(text=each.text, hints=each.hints) for each in statements)
        definition = self.detached.definition(task, members)
        temporary = restored(task, plan, self.engine.session_state(task.context()))
        return replace(definition, catalog=plan.catalog, namespace=plan.namespace, temporary=temporary)

    def _batch_topology(self, task: Task, statements: Sequence[ReadStatement]) -> Topology:
        context = task.context()
        return self.engine.topology(context, [in_spark(each, self.engine, context)[0] for each in statements])

    @property
    def _places(self) -> PlanPlaces:
        return PlanPlaces(engine=self.engine)


@contextmanager
def _planning(uri: str) -> Iterator[None]:
    """Add the plan's name to an error of its statements.

    The error's position is removed, because it does not refer to the EXECUTE PLAN statement.
    """
    try:
        yield
    except QueryFailed as cause:
        raise cause.reworded(f"Plan {uri} cannot be executed: {cause}") from cause


def _check_statements(plan: CompiledPlan) -> None:
    """Raise PlanInvalid for statements that COMPILE PLAN never writes.

    Without this check they would run unnoticed, even in EXPLAIN.
    """
    for place, text in enumerate(plan.statements):
        if ReadStatement(text).type != INSERT:
            raise PlanInvalid(f"statements[{place}]", f"is not an INSERT INTO: {shown_statement(text)}")
    unexpected = first_unexpected(plan.temporary)
    if unexpected is not None:
        text = shown_statement(plan.temporary[unexpected])
        raise PlanInvalid(
            f"temporary[{unexpected}]", f"is not a CREATE TEMPORARY TABLE, VIEW or FUNCTION: {text}"
        )


def _with_policies(member: StreamMember, policies: Policies) -> StreamMember:
    return replace(member, state_ttls=tuple(tuple(map(policy_text, each)) for each in policies))
