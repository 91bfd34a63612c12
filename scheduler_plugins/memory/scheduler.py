"""Runs refresh workflows by sending their ticks from inside the gateway process.

The workflows survive restarts if the registry does. The scheduler must not lose schedule times when the
process stops, and must not become a second record of what was refreshed. So it stores only definitions, in
the gateway's registry; ticks are never recorded. A tick is done when the gateway has committed its run to the
ledger, so after a restart or a resume the missed schedule times are computed from the ledger. If the latest
schedule time of a workflow is later than the last one in the ledger, one tick is sent for it. The gateway
then also handles all earlier ones that are due. The stored definition and the running workflow are changed
under one lock and in this order, so that they never differ. After a crash, the next start uses the
definition. A definition whose schedule times cannot be computed is skipped and described as MISSING, so that
it does not stop the others.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from mt_core.clock import Clock
from mt_core.errors import MtError, WorkflowError
from mt_core.workflow.definitions import DefinitionStore, WorkflowDefinition
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import (
    CreatePeriodicRefreshWorkflow,
    DeleteRefreshWorkflow,
    ModifyRefreshWorkflow,
    ModifyRefreshWorkflowSchedule,
    ResumeRefreshWorkflow,
    ScheduleKind,
    SuspendRefreshWorkflow,
)
from mt_core.workflow.scheduler import (
    SchedulerContext,
    SchedulerHealth,
    SchedulerOption,
    WorkflowDescription,
    WorkflowScheduler,
    WorkflowState,
    workflow_errors,
)
from scheduler_plugins.memory.delivery import Delivery
from scheduler_plugins.memory.grid_cache import GridCache
from scheduler_plugins.memory.outbox import Tick
from scheduler_plugins.memory.ticker import Ticker

IDENTIFIER = "memory"
LARGEST_OPTION = 10_000
MAX_IN_FLIGHT = SchedulerOption(
    key="max-in-flight",
    help="How many ticks may wait for the gateway's answer at the same time.",
    default="8",
)
CATCH_UP_RATE = SchedulerOption(
    key="catch-up-rate", help="How many missed ticks per second are made up after a restart.", default="50"
)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runtime:
    """The parts of an open scheduler."""

    definitions: DefinitionStore
    clock: Clock
    delivery: Delivery


class MemoryScheduler(WorkflowScheduler):
    """Sends ticks over HTTP, timed by one thread.

    Sent ticks are not recorded: a tick is done when the gateway has committed its run. So schedule times that
    were missed while the process was down or the workflow suspended are those missing from the ledger.
    """

    identifier: ClassVar[str] = IDENTIFIER
    kinds: ClassVar[frozenset[ScheduleKind]] = frozenset(ScheduleKind)
    options: ClassVar[tuple[SchedulerOption, ...]] = (MAX_IN_FLIGHT, CATCH_UP_RATE)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runtime: _Runtime | None = None

    def open(self, context: SchedulerContext) -> None:
        senders = _number(context.options, MAX_IN_FLIGHT)
        rate = _number(context.options, CATCH_UP_RATE)
        with self._lock, workflow_errors("The memory scheduler cannot be opened"):
            if self._runtime is not None:
                return
            clock, ledger = context.clock, context.definitions.latest_schedule_times()
            ticker = Ticker(gateway_url=context.gateway_url, token=context.token, max_in_flight=senders)
            delivery = Delivery(clock=clock, ticker=ticker, senders=senders)
            grids = GridCache(clock.now())
            missed: list[Tick] = []
            for definition in context.definitions.all():
                try:
                    # The start of a stored schedule can be in the future only if the clock was set back.
                    begun = definition.schedule.since > clock.now()
                    points = grids.around(
                        definition.schedule, done=ledger.get(definition.workflow_id), begun=begun
                    )
                except MtError as cause:
                    # One definition without schedule times must not stop the others; it is described as
                    # MISSING.
                    facts = {"action": "workflow_skipped", "table": definition.identifier}
                    log.error("workflow not scheduled: %s", cause, extra=facts)
                    continue
                delivery.schedule(definition, points.next, begun=begun)
                # One tick, for the latest schedule time, covers all missed ones.
                if points.passed is not None and not definition.paused:
                    missed.append(Tick(workflow_id=definition.workflow_id, point=points.passed))
            delivery.start(missed, per_second=rate)
            self._runtime = _Runtime(definitions=context.definitions, clock=clock, delivery=delivery)

    def close(self) -> None:
        with self._lock:
            runtime, self._runtime = self._runtime, None
        if runtime is not None:
            runtime.delivery.close()

    def create_refresh_workflow(self, workflow: CreatePeriodicRefreshWorkflow) -> RefreshHandler:
        with self._operation("created", workflow.workflow_id) as runtime:
            stored = runtime.definitions.get(workflow.workflow_id)
            definition = (
                WorkflowDefinition.of(workflow) if stored is None or stored.token < workflow.token else stored
            )
            points = GridCache(runtime.clock.now()).around(definition.schedule)
            if definition is not stored:
                runtime.definitions.put(definition)
            if definition is not stored or not runtime.delivery.look_up([definition.workflow_id]):
                runtime.delivery.schedule(definition, points.next)
        return RefreshHandler(scheduler=IDENTIFIER, workflow_id=workflow.workflow_id)

    def modify_refresh_workflow(self, workflow: ModifyRefreshWorkflow) -> None:
        match workflow:
            case SuspendRefreshWorkflow():
                self._change(workflow, "suspended", paused=True)
            case ResumeRefreshWorkflow(dynamic_options=None):
                self._change(workflow, "resumed", paused=False)
            case ResumeRefreshWorkflow(dynamic_options=options):
                self._change(workflow, "resumed", paused=False, dynamic_options=options)
            case ModifyRefreshWorkflowSchedule(schedule=schedule):
                self._change(workflow, "re-scheduled", schedule=schedule)
            case _:
                raise WorkflowError(
                    f"The memory scheduler does not know the operation {type(workflow).__name__}; "
                    "it can suspend, resume and re-schedule a refresh workflow."
                )

    def delete_refresh_workflow(self, workflow: DeleteRefreshWorkflow) -> None:
        with self._operation("deleted", workflow.handler.workflow_id) as runtime:
            workflow.handler.check_scheduler(IDENTIFIER)
            runtime.definitions.delete(workflow.handler.workflow_id)
            runtime.delivery.delete(workflow.handler.workflow_id)

    def describe_refresh_workflows(
        self, handlers: Iterable[RefreshHandler]
    ) -> Mapping[str, WorkflowDescription]:
        handlers = list(handlers)
        workflows = self._require_open().delivery.look_up(
            handler.workflow_id for handler in handlers if handler.scheduler == IDENTIFIER
        )
        descriptions = {
            handler.workflow_id: WorkflowDescription(state=WorkflowState.MISSING) for handler in handlers
        }
        for workflow_id, (definition, next_point) in workflows.items():
            state = WorkflowState.PAUSED if definition.paused else WorkflowState.ACTIVE
            description = WorkflowDescription(state=state, next_run=next_point, schedule=definition.schedule)
            descriptions[workflow_id] = description
        return descriptions

    def health(self) -> SchedulerHealth:
        return self._require_open().delivery.health()

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until the gateway has answered every ready tick; return False after *timeout_s* seconds."""
        return self._require_open().delivery.wait_idle(timeout_s)

    def _change(self, workflow: ModifyRefreshWorkflow, verb: str, **changes: Any) -> None:
        workflow_id = workflow.handler.workflow_id
        with self._operation(verb, workflow_id) as runtime:
            workflow.handler.check_scheduler(IDENTIFIER)
            stored = runtime.definitions.get(workflow_id)
            if stored is None:
                raise WorkflowError(
                    f"Refresh workflow {workflow_id} cannot be {verb}: "
                    "the memory scheduler does not have it; create it again."
                )
            stored.check_token(workflow.token, verb)
            definition = replace(stored, token=workflow.token, **changes)
            resumed = isinstance(workflow, ResumeRefreshWorkflow)
            ledger = runtime.definitions.latest_schedule_times() if resumed else {}
            begun = runtime.delivery.has_begun(workflow_id)
            points = GridCache(runtime.clock.now()).around(
                definition.schedule, done=ledger.get(workflow_id), begun=begun
            )
            runtime.definitions.put(definition)
            tick = None
            if resumed and points.passed is not None:
                tick = Tick(workflow_id=workflow_id, point=points.passed)
            runtime.delivery.schedule(definition, points.next, missed=tick, begun=begun)

    @contextmanager
    def _operation(self, verb: str, workflow_id: str) -> Iterator[_Runtime]:
        """Serialize operations, so that the stored definition and the running workflow never differ."""
        with self._lock, workflow_errors(f"Refresh workflow {workflow_id} cannot be {verb}"):
            yield self._require_open()

    def _require_open(self) -> _Runtime:
        runtime = self._runtime
        if runtime is None:
            raise WorkflowError("The memory scheduler is not open; call open() first.")
        return runtime


def _number(options: Mapping[str, str], option: SchedulerOption) -> int:
    text = options.get(option.key, option.default or "").strip()
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= LARGEST_OPTION):
        raise WorkflowError(
            f"workflow-scheduler.{IDENTIFIER}.{option.key} is {text!r}; "
            f"set a whole number from 1 to {LARGEST_OPTION}."
        )
    return int(text)
