"""What a workflow scheduler is to us: the ABC, its options, its context, and the pluggy hook by which it is found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

import pluggy

from mt_core.clock import Clock
from mt_core.errors import MtError, WorkflowError
from mt_core.workflow.definitions import DefinitionStore
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import (
    CreatePeriodicRefreshWorkflow,
    DeleteRefreshWorkflow,
    ModifyRefreshWorkflow,
    Schedule,
)

ENTRY_POINT_GROUP = "mt_core"
hookspec = pluggy.HookspecMarker("mt_core")
hookimpl = pluggy.HookimplMarker("mt_core")


class SchedulerHooks:
    """The hooks a plug-in implements; the name of its entry point in group `mt_core` is its `workflow-scheduler.type`."""

    @hookspec
    def mt_workflow_schedulers(self) -> list[type[WorkflowScheduler]]:  # type: ignore[empty-body]
        """Return the scheduler classes of the plug-in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOption:
    """An option `workflow-scheduler.<type>.<key>`; `default` None means that it must be set."""

    key: str
    help: str
    default: str | None = ""
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerContext:
    """What a scheduler is opened with. `gateway_url` is where its ticks go; `token` (empty: none) authorises them.

    `configuration` has all settings in force as texts, secrets masked (FLIP-448 getConfiguration).
    """

    options: Mapping[str, str]
    definitions: DefinitionStore
    clock: Clock
    gateway_url: str
    token: str = field(default="", repr=False)
    configuration: Mapping[str, str] = field(default_factory=dict, repr=False)


@contextmanager
def workflow_errors(what: str) -> Iterator[None]:
    """Turn the block's errors of other parts, such as the store's, into WorkflowError, which says *what* failed."""
    try:
        yield
    except WorkflowError:
        raise
    except MtError as cause:
        raise WorkflowError(f"{what}: {cause}") from cause


class WorkflowState(StrEnum):
    """What a scheduler says of a workflow."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    MISSING = "MISSING"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowDescription:
    """A workflow as its scheduler has it; `next_run` is a UTC instant, `changed_by` who paused or resumed it there, if known.

    `schedule` is the one it ticks on; None says that the scheduler cannot tell.
    """

    state: WorkflowState
    next_run: datetime | None = None
    changed_by: str | None = None
    changed_at: datetime | None = None
    schedule: Schedule | None = None


class WorkflowScheduler(ABC):
    """Runs refresh workflows (FLIP-448). Every method may be called from any thread and raises WorkflowError, from what was
    raised below if anything was."""

    identifier: ClassVar[str]
    options: ClassVar[tuple[SchedulerOption, ...]] = ()

    @abstractmethod
    def open(self, context: SchedulerContext) -> None:
        """Get ready, and say precisely what is missing; opening twice is harmless."""

    @abstractmethod
    def close(self) -> None:
        """Stop ticking and release everything; closing twice is harmless."""

    def check_schedule(self, identifier: str, schedule: Schedule) -> None:  # noqa: B027 (most keep to any schedule)
        """Raise WorkflowError, with the way out, if *schedule* is one that this scheduler can never keep to.

        Nothing is asked of anybody, and the scheduler need not be open.
        """

    @abstractmethod
    def create_refresh_workflow(self, workflow: CreatePeriodicRefreshWorkflow) -> RefreshHandler:
        """Create the workflow and return how to find it; the same `workflow_id` gives the same handler."""

    @abstractmethod
    def modify_refresh_workflow(self, workflow: ModifyRefreshWorkflow) -> None:
        """Suspend, resume or re-schedule; an operation that is not known is refused and changes nothing."""

    @abstractmethod
    def delete_refresh_workflow(self, workflow: DeleteRefreshWorkflow) -> None:
        """Forget the workflow; harmless when it is gone already."""

    @abstractmethod
    def describe_refresh_workflows(self, handlers: Iterable[RefreshHandler]) -> Mapping[str, WorkflowDescription]:
        """Return a description for the workflow id of every handler, in one go."""
