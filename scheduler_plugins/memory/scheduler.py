"""MemoryScheduler: refresh workflows that tick inside the gateway's own process, durable when the registry is."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, TypeGuard

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
    SuspendRefreshWorkflow,
)
from mt_core.workflow.scheduler import (
    SchedulerContext,
    SchedulerOption,
    WorkflowDescription,
    WorkflowScheduler,
    WorkflowState,
    workflow_errors,
)
from scheduler_plugins.memory.delivery import Delivery
from scheduler_plugins.memory.outbox import Tick
from scheduler_plugins.memory.passing import Passing
from scheduler_plugins.memory.ticker import Ticker

IDENTIFIER = "memory"
LARGEST_OPTION = 10_000
MAX_IN_FLIGHT = SchedulerOption(
    key="max-in-flight", help="How many ticks may wait for the gateway's answer at the same time.", default="8"
)
CATCH_UP_RATE = SchedulerOption(
    key="catch-up-rate", help="How many missed ticks per second are made up after a restart.", default="50"
)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """What an open scheduler works with."""

    definitions: DefinitionStore
    clock: Clock
    delivery: Delivery


class MemoryScheduler(WorkflowScheduler):
    """Ticks over HTTP from one timer thread.

    It keeps no fired-state of its own: a tick is done when the gateway has committed its run, and what was missed while
    the process was away, or while a workflow was suspended, is what the ledger does not have.
    """

    identifier: ClassVar[str] = IDENTIFIER
    options: ClassVar[tuple[SchedulerOption, ...]] = (MAX_IN_FLIGHT, CATCH_UP_RATE)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: _Opened | None = None

    def open(self, context: SchedulerContext) -> None:
        senders = _number(context.options, MAX_IN_FLIGHT)
        rate = _number(context.options, CATCH_UP_RATE)
        with self._lock, workflow_errors("The memory scheduler cannot be opened"):
            if self._opened is not None:
                return
            definitions, ledger = context.definitions.all(), context.definitions.latest_schedule_times()
            ticker = Ticker(gateway_url=context.gateway_url, token=context.token, max_in_flight=senders)
            delivery = Delivery(clock=context.clock, ticker=ticker, senders=senders)
            _load(delivery, definitions, ledger, now=context.clock.now(), rate=rate)
            delivery.start()
            self._opened = _Opened(definitions=context.definitions, clock=context.clock, delivery=delivery)

    def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.delivery.close()

    def create_refresh_workflow(self, workflow: CreatePeriodicRefreshWorkflow) -> RefreshHandler:
        with self._operation("created", workflow.workflow_id) as opened:
            stored = opened.definitions.get(workflow.workflow_id)
            definition = WorkflowDefinition.of(workflow) if stored is None or stored.token < workflow.token else stored
            points = Passing(opened.clock.now()).of(definition.schedule)
            if definition is not stored:
                opened.definitions.put(definition)
            if definition is not stored or not opened.delivery.look_up([definition.workflow_id]):
                _apply(opened.delivery, definition, points.next)
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
                    f"The memory scheduler does not know the operation {type(workflow).__name__}; it can suspend, "
                    "resume and re-schedule a refresh workflow."
                )

    def delete_refresh_workflow(self, workflow: DeleteRefreshWorkflow) -> None:
        with self._operation("deleted", workflow.handler.workflow_id) as opened:
            workflow.handler.check_scheduler(IDENTIFIER)
            opened.definitions.delete(workflow.handler.workflow_id)
            opened.delivery.forget(workflow.handler.workflow_id)

    def describe_refresh_workflows(self, handlers: Iterable[RefreshHandler]) -> Mapping[str, WorkflowDescription]:
        asked = list(handlers)
        ours = [handler.workflow_id for handler in asked if handler.scheduler == IDENTIFIER]
        known = self._require_open().delivery.look_up(ours)
        return {
            handler.workflow_id: _description(*known[handler.workflow_id])
            if handler.workflow_id in known
            else WorkflowDescription(state=WorkflowState.MISSING)
            for handler in asked
        }

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until every tick that is ready has been answered; return whether that was so in time."""
        return self._require_open().delivery.wait_idle(timeout_s)

    def _change(self, workflow: ModifyRefreshWorkflow, verb: str, **changes: Any) -> None:
        workflow_id = workflow.handler.workflow_id
        with self._operation(verb, workflow_id) as opened:
            workflow.handler.check_scheduler(IDENTIFIER)
            stored = _current(opened.definitions, workflow_id, verb, workflow.token)
            definition = replace(stored, token=workflow.token, **changes)
            points = Passing(opened.clock.now()).of(definition.schedule)
            resumed = isinstance(workflow, ResumeRefreshWorkflow)
            ledger = opened.definitions.latest_schedule_times() if resumed and points.passed is not None else {}
            opened.definitions.put(definition)
            _apply(opened.delivery, definition, points.next)
            if resumed and _is_missed(points.passed, ledger.get(workflow_id)):
                opened.delivery.send(Tick(workflow_id=workflow_id, point=points.passed))

    @contextmanager
    def _operation(self, verb: str, workflow_id: str) -> Iterator[_Opened]:
        """One operation at a time, so that what is stored and what ticks cannot part."""
        with self._lock, workflow_errors(f"Refresh workflow {workflow_id} cannot be {verb}"):
            yield self._require_open()

    def _require_open(self) -> _Opened:
        opened = self._opened
        if opened is None:
            raise WorkflowError("The memory scheduler is not open; call open() first.")
        return opened


def _load(
    delivery: Delivery,
    definitions: Iterable[WorkflowDefinition],
    ledger: Mapping[str, datetime],
    *,
    now: datetime,
    rate: int,
) -> None:
    """Schedule what is stored, and make up one tick, of the latest point, for each workflow that missed some."""
    passing = Passing(now)
    missed: list[Tick] = []
    for definition in definitions:
        try:
            points = passing.of(definition.schedule)
        except MtError as cause:
            # One definition that cannot be understood must not stop all others; it is described as MISSING.
            facts = {"action": "workflow_skipped", "table": definition.identifier}
            log.error("workflow not scheduled: %s", cause, extra=facts)
            continue
        _apply(delivery, definition, points.next)
        if not definition.paused and _is_missed(points.passed, ledger.get(definition.workflow_id)):
            missed.append(Tick(workflow_id=definition.workflow_id, point=points.passed))
    delivery.make_up(missed, per_second=rate)


def _is_missed(passed: datetime | None, latest: datetime | None) -> TypeGuard[datetime]:
    """Whether a point has *passed* that is later than the latest schedule time in the ledger."""
    return passed is not None and (latest is None or passed > latest)


def _apply(delivery: Delivery, definition: WorkflowDefinition, next_point: datetime) -> None:
    if definition.paused:
        delivery.pause(definition)
    else:
        delivery.schedule(definition, next_point)


def _description(definition: WorkflowDefinition, next_point: datetime | None) -> WorkflowDescription:
    state = WorkflowState.PAUSED if definition.paused else WorkflowState.ACTIVE
    return WorkflowDescription(state=state, next_run=next_point, schedule=definition.schedule)


def _current(definitions: DefinitionStore, workflow_id: str, verb: str, token: int) -> WorkflowDefinition:
    """Return the stored definition; raises WorkflowError when it is missing, or newer than the operation."""
    stored = definitions.get(workflow_id)
    if stored is None:
        raise WorkflowError(
            f"Refresh workflow {workflow_id} cannot be {verb}: the memory scheduler does not have it; create it again."
        )
    stored.check_token(token, verb)
    return stored


def _number(options: Mapping[str, str], option: SchedulerOption) -> int:
    text = options.get(option.key, option.default or "").strip()
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= LARGEST_OPTION):
        raise WorkflowError(
            f"workflow-scheduler.{IDENTIFIER}.{option.key} is {text!r}; set a whole number from 1 to {LARGEST_OPTION}."
        )
    return int(text)
