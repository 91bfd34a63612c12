"""The interface of workflow schedulers: the abstract class, its options and context, and its pluggy hook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

import pluggy

from mt_core.clock import Clock
from mt_core.errors import MtError, WorkflowError
from mt_core.model.finding import Finding
from mt_core.workflow.definitions import DefinitionStore
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import (
    CreatePeriodicRefreshWorkflow,
    DeleteRefreshWorkflow,
    ModifyRefreshWorkflow,
    Schedule,
    ScheduleKind,
)

ENTRY_POINT_GROUP = "mt_core"
hookspec = pluggy.HookspecMarker("mt_core")
hookimpl = pluggy.HookimplMarker("mt_core")


class SchedulerHooks:
    """The hooks that a plug-in implements.

    The name of its entry point in the group `mt_core` is its `workflow-scheduler.type`.
    """

    @hookspec
    def mt_workflow_schedulers(self) -> list[type[WorkflowScheduler]]:  # type: ignore[empty-body]
        """Return the scheduler classes of the plug-in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOption:
    """An option `workflow-scheduler.<type>.<key>`. It is required if `default` is None."""

    key: str
    help: str
    default: str | None = ""
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerContext:
    """The environment in which a scheduler is opened.

    The scheduler sends ticks to `gateway_url`, authorized by `token` (empty if none is required).
    `configuration` contains all effective settings as strings, with secrets masked (FLIP-448
    getConfiguration).
    """

    options: Mapping[str, str]
    definitions: DefinitionStore
    clock: Clock
    gateway_url: str
    token: str = field(default="", repr=False)
    configuration: Mapping[str, str] = field(default_factory=dict, repr=False)


@contextmanager
def workflow_errors(what: str) -> Iterator[None]:
    """Translate errors in the block, such as those of the store, to a WorkflowError.

    *what* says what failed and begins the message.
    """
    try:
        yield
    except WorkflowError:
        raise
    except MtError as cause:
        raise WorkflowError(f"{what}: {cause}") from cause


class WorkflowState(StrEnum):
    """The state of a workflow in its scheduler."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    MISSING = "MISSING"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowDescription:
    """The state of a workflow in its scheduler.

    `next_run` is a UTC instant, `changed_by` the user who paused or resumed the workflow there, and
    `schedule` the schedule on which it ticks. Each is None if the scheduler does not report it.
    """

    state: WorkflowState
    next_run: datetime | None = None
    changed_by: str | None = None
    changed_at: datetime | None = None
    schedule: Schedule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerHealth:
    """Whether a scheduler starts refreshes.

    `trouble` is empty, or says why the scheduler does not start refreshes and what to do. `since` is the UTC
    instant at which that began, or None if the scheduler does not report it.
    """

    trouble: str = ""
    since: datetime | None = None


class WorkflowScheduler(ABC):
    """A scheduler of refresh workflows (FLIP-448).

    Every method is thread-safe. Every method raises WorkflowError, with the underlying error, if any, as its
    cause.
    """

    identifier: ClassVar[str]
    options: ClassVar[tuple[SchedulerOption, ...]] = ()
    kinds: ClassVar[frozenset[ScheduleKind]] = frozenset({ScheduleKind.FRESHNESS})
    """The kinds of schedules that the scheduler runs. A table with any other kind is refused."""

    @abstractmethod
    def open(self, context: SchedulerContext) -> None:
        """Prepare for operations. Raises WorkflowError naming what is missing; opening twice is harmless."""

    @abstractmethod
    def close(self) -> None:
        """Stop ticking and release all resources; closing twice is harmless."""

    def diagnose(self, options: Mapping[str, str], clock: Clock) -> Sequence[Finding]:
        """Return the findings of `freshtable doctor` about the service that *options* name.

        This method changes nothing, and the scheduler need not be open. Raises WorkflowError for invalid
        options. A scheduler without a service of its own does not override it.
        """
        return [Finding.ok("scheduler", f"{self.identifier} is installed")]

    def health(self) -> SchedulerHealth | None:
        """Return whether the open scheduler currently starts refreshes, or None if it does not know.

        The gateway calls this about twice a minute, in a separate thread. A WorkflowError counts as trouble.
        """
        return None

    def page_url(self, handler: RefreshHandler) -> str | None:
        """Return the URL of the workflow in the scheduler's own web interface, or None if it has none.

        This method sends no request, because the gateway calls it for each page that shows the table. The
        workflow need not exist. A handler of another scheduler has no URL.
        """
        return None

    # The default accepts every schedule, which suits most schedulers.
    def check_schedule(self, identifier: str, schedule: Schedule) -> None:  # noqa: B027
        """Raise WorkflowError, saying what to do instead, if this scheduler cannot run *schedule*.

        This method sends no request, and the scheduler need not be open.
        """

    @abstractmethod
    def create_refresh_workflow(self, workflow: CreatePeriodicRefreshWorkflow) -> RefreshHandler:
        """Create the workflow and return its handler. The same `workflow_id` returns the same handler."""

    @abstractmethod
    def modify_refresh_workflow(self, workflow: ModifyRefreshWorkflow) -> None:
        """Suspend, resume or reschedule a workflow. An unknown operation is refused and changes nothing."""

    @abstractmethod
    def delete_refresh_workflow(self, workflow: DeleteRefreshWorkflow) -> None:
        """Delete the workflow if it exists."""

    @abstractmethod
    def describe_refresh_workflows(
        self, handlers: Iterable[RefreshHandler]
    ) -> Mapping[str, WorkflowDescription]:
        """Map the id of each handler's workflow to its description, with as few requests as possible."""
