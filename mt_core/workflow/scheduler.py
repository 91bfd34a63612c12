"""The interface of workflow schedulers: the ABC, its options, its context,
and the pluggy hook that offers it.
"""

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
    """The hooks a plug-in implements; the name of its entry point in group `mt_core`
    is its `workflow-scheduler.type`.
    """

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
    """The context in which a scheduler is opened.

    Its ticks go to `gateway_url`, authorised by `token` (empty: none).

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
    """Raise errors of other parts in the block, such as the store's, as WorkflowError
    that says *what* failed.
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
    """A workflow as its scheduler has it; `next_run` is a UTC instant, `changed_by` the user who paused
    or resumed it there.

    Each is None where the scheduler does not report it; `schedule` is the one that the workflow ticks on.
    """

    state: WorkflowState
    next_run: datetime | None = None
    changed_by: str | None = None
    changed_at: datetime | None = None
    schedule: Schedule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerHealth:
    """Whether a scheduler begins refreshes: `trouble` says why it does not, with the way out,
    and is empty if it does.

    `since` is the UTC instant since when, None where the scheduler does not report it.
    """

    trouble: str = ""
    since: datetime | None = None


class WorkflowScheduler(ABC):
    """Runs refresh workflows (FLIP-448). Every method may be called from any thread;
    it raises WorkflowError, with the error below, if there is one, as its cause."""

    identifier: ClassVar[str]
    options: ClassVar[tuple[SchedulerOption, ...]] = ()
    kinds: ClassVar[frozenset[ScheduleKind]] = frozenset({ScheduleKind.FRESHNESS})
    """The kinds of schedules that it runs; a table with another one is refused."""

    @abstractmethod
    def open(self, context: SchedulerContext) -> None:
        """Get ready, or raise WorkflowError naming what is missing; opening twice is harmless."""

    @abstractmethod
    def close(self) -> None:
        """Stop ticking and release everything; closing twice is harmless."""

    def diagnose(self, options: Mapping[str, str], clock: Clock) -> Sequence[Finding]:
        """Return what `freshtable doctor` says of the service that *options* name;
        changes nothing, and need not be open.

        Raises WorkflowError for options that cannot be used.
        A scheduler without a service of its own has nothing to add.
        """
        return [Finding.ok("scheduler", f"{self.identifier} is installed")]

    def health(self) -> SchedulerHealth | None:
        """Return whether the scheduler, which is open, begins refreshes at the moment; None:
        it does not know.

        A gateway asks about twice a minute, in a thread of its own. A WorkflowError counts as trouble.
        """
        return None

    # Most schedulers keep to any schedule.
    def check_schedule(self, identifier: str, schedule: Schedule) -> None:  # noqa: B027
        """Raise WorkflowError, with the way out, if *schedule* is one that this scheduler can never keep to.

        Sends no request; the scheduler need not be open.
        """

    @abstractmethod
    def create_refresh_workflow(self, workflow: CreatePeriodicRefreshWorkflow) -> RefreshHandler:
        """Create the workflow and return its handler; the same `workflow_id` gives the same handler."""

    @abstractmethod
    def modify_refresh_workflow(self, workflow: ModifyRefreshWorkflow) -> None:
        """Suspend, resume or re-schedule; refuse an unknown operation and change nothing."""

    @abstractmethod
    def delete_refresh_workflow(self, workflow: DeleteRefreshWorkflow) -> None:
        """Delete the workflow; harmless if there is none."""

    @abstractmethod
    def describe_refresh_workflows(
        self, handlers: Iterable[RefreshHandler]
    ) -> Mapping[str, WorkflowDescription]:
        """Return the description of every handler's workflow by its id, in as few requests as possible."""
